"""Cache of parsed request heads, by their bytes.

A client sends the same head with every request, except for the length of the body. Parsing it takes
longer than all else that the transport does for a small request. The same bytes between two
requests always mean the same head, so the first result of the parser stays valid.
"""

from typing import Final

from ie_serving.server.transport.http1.messages import RequestHead

BLANK_LINE: Final = b"\r\n\r\n"
LONGEST: Final = 1024
"""Longest head in bytes that is cached; longer ones are parsed each time. Clients and proxies send
150 to 600."""
MOST: Final = 1024
"""Most cached heads, with their parsed form: 2 MB, or 10 MB if each has `holding.FREE_FIELDS`
headers; a head with more is not cached. A further one empties the cache, which learns the heads in
use again. Finding the oldest would cost time at every request; this costs time only when clients
keep sending new heads."""


class KnownHeads:
    """The cache of one server. Holds only heads that leave the parser's state unchanged."""

    def __init__(self) -> None:
        self._heads: dict[bytes, RequestHead] = {}
        self.get = self._heads.get
        """Return the parsed head for its bytes; None if it is not cached."""

    def learn(self, text: bytes, head: RequestHead) -> None:
        """Cache a head, if its bytes alone show where it ends."""
        if not text or head.expects or not head.keep_alive or head.length is None:
            return
        lines = text.count(b"\n")
        if text[0] in b"\r\n" or lines != text.count(b"\r\n") or lines != len(head.headers) + 2:
            # Not exactly one head: empty lines precede it, a line ends in a line feed alone, or
            # the numbers of lines and headers differ.
            return
        if len(self._heads) >= MOST:
            self._heads.clear()
        self._heads[text] = head

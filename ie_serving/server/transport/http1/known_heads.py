"""Heads of requests that were parsed before, by their bytes.

A client sends the same head with every request, but for the length of the body. To parse it costs
more than all else that the transport does for a small request. A head means the same whenever the
same bytes stand between two requests, so what the parser made of it the first time still holds.
"""

from typing import Final

from ie_serving.server.transport.http1.messages import RequestHead

BLANK_LINE: Final = b"\r\n\r\n"
LONGEST: Final = 1024
"""Bytes of the longest head that is remembered; a longer one is parsed each time. Clients and
proxies send 150 to 600."""
MOST: Final = 1024
"""Heads that are remembered, with what they mean: 2 MB, or 10 where each has `holding.FREE_FIELDS`
headers; one with more is not remembered. When they are that many and a new one comes, all are
forgotten and those in use are learnt again. To find the oldest would cost something with every
request; this costs something only when clients send ever new heads."""


class KnownHeads:
    """Belongs to one server. Only heads that leave the parser as it was are kept."""

    def __init__(self) -> None:
        self._heads: dict[bytes, RequestHead] = {}
        self.get = self._heads.get
        """Give what the bytes of a head mean; None where they are not known."""

    def learn(self, text: bytes, head: RequestHead) -> None:
        """Remember a head, if it can be told from its bytes alone where it ends."""
        if not text or head.expects or not head.keep_alive or head.length is None:
            return
        lines = text.count(b"\n")
        if text[0] in b"\r\n" or lines != text.count(b"\r\n") or lines != len(head.headers) + 2:
            # Not one whole head: empty lines precede it, a line ends in a line feed alone, or there
            # are more or fewer lines than headers.
            return
        if len(self._heads) >= MOST:
            self._heads.clear()
        self._heads[text] = head

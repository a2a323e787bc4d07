"""uvicorn's HTTP/1.1 protocol, with what clients and strangers of a public port need.

- A head has a size limit: the parser gathers a header's pieces at quadratic cost.
- A request that offers an upgrade, as Java's HTTP client does, is answered as it is: the parser
  would stop before its body.
- An HTTP version other than 1.0 and 1.1 is a bad request, not a failure of the application.
"""

import re

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 64 * 1024
"""Bytes of request line and headers; far above what proxies let through."""

_UPGRADE = re.compile(rb"(?i)(\r\n)upgrade(?=[ \t]*:)")
_END = b"\r\n\r\n"


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    _in_head = False
    _in_body = False
    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Feed the parser; refuse a head that does not end."""
        head_goes_on = self._in_head
        if not self._in_body and b"pgrade" in data:
            data = _without_upgrade(data)
        super().data_received(data)
        if head_goes_on and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > LARGEST_HEAD and not self.transport.is_closing():
                self.send_400_response(f"The request's head exceeds {LARGEST_HEAD} bytes.")

    def on_message_begin(self) -> None:
        """See uvicorn."""
        self._in_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """See uvicorn. What this raises, the parser reports as an invalid request."""
        version = self.parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise ValueError(f"HTTP version {version}")
        self._in_head = False
        self._in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """See uvicorn."""
        self._in_body = False
        super().on_message_complete()


def _without_upgrade(data: bytes) -> bytes:
    """Rename the `Upgrade` header, keeping every length."""
    end = data.find(_END)
    head, rest = (data, b"") if end < 0 else (data[: end + 2], data[end + 2 :])
    return _UPGRADE.sub(rb"\1x-grade", head) + rest

"""The header blocks of gRPC replies. Sources: RFC 9113 section 8.3.2, "gRPC over HTTP2".

No header enters the connection's HPACK table, so a block is a constant that suits every connection.
A client may lower the limit of that table; then the first block of an answer must announce a table
size within the limit (RFC 7541 section 4.2). So every first block announces 0.
"""

from hpack import Encoder

from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import WHOLE
from ie_serving.server.status import in_header

_NEVER_INDEXED = True
_EMPTY_TABLE = b"\x20"
"""Dynamic Table Size Update to 0; RFC 7541 section 6.3."""
_encoder = Encoder()

Pair = tuple[str, str]


def block(*pairs: Pair) -> bytes:
    """Write headers as HPACK literals, which do not change the connection's table."""
    fields = [(name, value, _NEVER_INDEXED) for name, value in pairs]
    return bytes(_encoder.encode(fields, huffman=False))


_OK = (":status", "200")
_GRPC = ("content-type", "application/grpc")
_ACCEPTS = ("grpc-accept-encoding", "identity, deflate, gzip")

HEADERS = _EMPTY_TABLE + block(_OK, _GRPC, _ACCEPTS)
"""First header block of every reply with a message."""
COMPRESSED = {
    name: HEADERS + block(("grpc-encoding", name.decode())) for name in (b"gzip", b"deflate")
}
"""First header block of a reply with compressed messages, by `grpc-encoding`."""
SUCCESS = block(("grpc-status", "0"))
"""Last header block (trailers) of a successful reply."""


def failure(code: Code, text: str, whole: str = "", *, alone: bool) -> bytes:
    """Write a status.

    Args:
        code: not OK.
        text: any Unicode. Cut to the length that fits into a header.
        whole: the text with what helps a person; empty if there is no more.
        alone: no headers were sent before.
    """
    status = block(("grpc-status", str(code.value)), ("grpc-message", in_header(text)))
    if whole not in ("", text):
        status += block((WHOLE, in_header(whole)))
    return HEADERS + status if alone else status


def refusal(status: int, *pairs: Pair) -> bytes:
    """Write the headers of a plain HTTP reply to a request that is not gRPC."""
    return _EMPTY_TABLE + block((":status", str(status)), *pairs)

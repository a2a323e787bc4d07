"""The header blocks of gRPC: parses those of requests, and has those of replies.

Sources: "gRPC over HTTP2", Requests; RFC 9113 section 8.3.2. No header enters the connection's
HPACK table, so a block is a constant that suits every connection. A client may lower the limit of
that table; then the first block of a reply must announce a table size within the limit (RFC 7541
section 4.2). So every first block announces 0.
"""

import re
from typing import Final, NamedTuple

from hpack import Encoder

from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import WHOLE
from ie_serving.server.status import in_header
from ie_serving.server.transport.grpc.message_reader import IDENTITY, INFLATERS
from ie_serving.server.transport.http2.headers import HeaderFields

_NEVER_INDEXED = True
_EMPTY_TABLE = b"\x20"
"""Dynamic Table Size Update to 0; RFC 7541 section 6.3."""
_encoder = Encoder()

HeaderPair = tuple[str, str]

_OK = (":status", "200")
_TYPE = ("content-type", "application/grpc")
_ACCEPTS = ("grpc-accept-encoding", "identity, deflate, gzip")
_GRPC: Final = b"application/grpc"
_CONTENT_TYPE: Final = re.compile(_GRPC + rb"(?:[+;].*)?", re.IGNORECASE)
_TIMEOUT: Final = re.compile(rb"(\d{1,8})([HMSmun])")
_SECONDS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
NEARLY_LATE = 0.1
"""Last part of a call's time: a client that resets its call then counts as having reached its
deadline, not as having left."""


def block(*pairs: HeaderPair) -> bytes:
    """Write headers as HPACK literals, which do not change the connection's table."""
    fields = [(name, value, _NEVER_INDEXED) for name, value in pairs]
    return bytes(_encoder.encode(fields, huffman=False))


HEADERS = _EMPTY_TABLE + block(_OK, _TYPE, _ACCEPTS)
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


def refusal(status: int, *pairs: HeaderPair) -> bytes:
    """Write the headers of a plain HTTP reply to a request that is not gRPC."""
    return _EMPTY_TABLE + block((":status", str(status)), *pairs)


class CallHead(NamedTuple):
    """The headers of one call.

    Attributes:
        path: `/package.Service/Method`.
        encoding: `grpc-encoding`, of messages that are marked as compressed.
        reply_encoding: encoding of the reply's messages: used if the client compresses its own
            messages and lists the encoding in `grpc-accept-encoding`.
        timeout_s: `grpc-timeout` in seconds; None without.
        authorization, key: the headers `authorization` and `x-api-key`; None without.
        fields: all headers, as received.
        refusal: header block that refuses a request which is no valid call; None for a valid call.
    """

    path: bytes
    encoding: bytes = IDENTITY
    reply_encoding: bytes = IDENTITY
    timeout_s: float | None = None
    authorization: bytes | None = None
    key: bytes | None = None
    fields: HeaderFields = ()
    refusal: bytes | None = None

    def is_nearly_late(self, left_s: float | None) -> bool:
        """Return whether a client that resets the call now has most likely reached its deadline.

        Clients reset a call at its deadline, by a clock that started earlier than ours.
        """
        if self.timeout_s is None or left_s is None:
            return False
        return left_s <= self.timeout_s * NEARLY_LATE


def interpret(fields: HeaderFields, refused: str) -> CallHead:
    """Parse headers that HTTP/2 permits. See `http2.headers.Interpret`."""
    values = dict(fields)
    return CallHead(
        path=values[b":path"],
        encoding=values.get(b"grpc-encoding", IDENTITY),
        reply_encoding=_reply_encoding(values),
        timeout_s=_timeout(values.get(b"grpc-timeout")),
        authorization=_joined(fields, b"authorization"),
        key=_joined(fields, b"x-api-key"),
        fields=fields,
        refusal=_refusal(values, refused),
    )


def _joined(fields: HeaderFields, name: bytes) -> bytes | None:
    """Join the values of a header that occurs several times into one line.

    RFC 9110, section 5.3. Taking the first or the last of several credentials would let the client
    choose the one that counts if a proxy adds its own.
    """
    values = [value for each, value in fields if each == name]
    return b",".join(values) if values else None


def _timeout(value: bytes | None) -> float | None:
    found = _TIMEOUT.fullmatch(value or b"")
    return int(found[1]) * _SECONDS[found[2]] if found else None


def _reply_encoding(values: dict[bytes, bytes]) -> bytes:
    encoding = values.get(b"grpc-encoding", IDENTITY)
    accepted = values.get(b"grpc-accept-encoding", b"").split(b",")
    taken = encoding in INFLATERS and encoding in [name.strip() for name in accepted]
    return encoding if taken else IDENTITY


def _refusal(values: dict[bytes, bytes], refused: str) -> bytes | None:
    """Refuse a request that is no gRPC call: gRPC clients get a gRPC status, others HTTP's."""
    # Method and type first: other clients understand only HTTP statuses.
    if values[b":method"] != b"POST":
        return refusal(405, ("allow", "POST"))
    if not _CONTENT_TYPE.fullmatch(values.get(b"content-type", b"")):
        return refusal(415, ("accept", _GRPC.decode()))
    if refused:
        return failure(Code.RESOURCE_EXHAUSTED, refused, alone=True)
    encoding = values.get(b"grpc-encoding", IDENTITY)
    if encoding != IDENTITY and encoding not in INFLATERS:
        known = ", ".join(name.decode() for name in (IDENTITY, *INFLATERS))
        text = f'grpc-encoding "{encoding.decode("latin-1")}" is not known; use one of {known}'
        return failure(Code.UNIMPLEMENTED, text, alone=True)
    timeout = values.get(b"grpc-timeout")
    if timeout is not None and not _TIMEOUT.fullmatch(timeout):
        text = "grpc-timeout cannot be read; send up to 8 digits and one of H, M, S, m, u, n"
        return failure(Code.INVALID_ARGUMENT, text, alone=True)
    return None

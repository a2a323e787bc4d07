"""Faults of HTTP/1 requests: status and text for the client."""

import logging
from typing import Final

import httptools

from ie_serving.core.values.hints import Hint
from ie_serving.server.transport.http1.messages import Fault
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

LARGEST_HEAD: Final = 64 * 1024
"""Bytes of request line and headers, of trailers, or of a body's chunk extensions; a request with
more is refused and its connection is closed. Far above the 8 to 32 KB that proxies permit."""
MOST_FIELDS: Final = 1024
"""Most headers of one request; with more it is refused and its connection closed. Each takes 1 us
of the event loop, and 64 KB could hold 13,000. Apache and Envoy permit 100, Node 2,000."""
TOO_LARGE: Final = f"The request's headers, trailers or extensions exceed {LARGEST_HEAD} bytes."
TOO_LONG: Final = f"The request's target exceeds {LARGEST_HEAD} bytes."
TOO_MANY: Final = f"The request has more than {MOST_FIELDS} headers."
FAILED: Final = "request failed by a defect in the HTTP server"
DEFECT: Final = Fault(500, "Internal Server Error")
_HTTP2: Final = b"PRI * HTTP/2.0"
"""RFC 9113, section 3.4."""
_PREFACE: Final = "Pause on PRI/Upgrade"
"""The parser's text for the HTTP/2 preface, if it arrives in pieces."""
_BLANK: Final = "Expected HTTP/, RTSP/ or ICE/"
"""The parser's text for a target with a blank in it."""
_TLS: Final = b"\x16"
"""First byte of a TLS handshake; RFC 8446, section 5.1. No HTTP method begins with it."""
STOPPING: Final = Fault(503, "The server is shutting down; ask again elsewhere.")


def oversized(target: bytes) -> Fault:
    """Make the fault of a too large head: of its target, if that is more than half of it."""
    long = len(target) > LARGEST_HEAD // 2
    return Fault(414, TOO_LONG) if long else Fault(431, TOO_LARGE)


class RequestRefused(Exception):
    """A request that the parser accepts but we refuse. Its text goes to the client."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def mistaken(data: bytes) -> Fault | None:
    """Return a hint for a client whose first bytes show that it means another port."""
    if data.startswith(_HTTP2):
        return _speaks_http2()
    if data.startswith(_TLS):
        how = Hint(", or encrypt it by {server.tls_certificate}")
        return Fault(
            400, f"The client speaks TLS, and this port is not encrypted: use http://{how}."
        )
    return None


def _speaks_http2() -> Fault:
    where = Hint("; gRPC has a port of its own, {server.port}")
    return Fault(400, f"The client speaks HTTP/2, and this port HTTP/1.1, for REST{where}.")


def refusal_of(error: httptools.HttpParserError, client: object = None) -> Fault:
    """Return the reply to a request that the parser, or our own check during parsing, refused."""
    cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else None
    if isinstance(cause, RequestRefused):
        return Fault(cause.status, cause.text)
    if isinstance(error, httptools.HttpParserInvalidMethodError):
        return Fault(501, "The method is not known to this server.")
    if cause is not None and not isinstance(cause, httptools.HttpParserError):
        log.error(Event(FAILED, client=client), exc_info=cause)
        return DEFECT
    text = str(cause or error)
    if text == _PREFACE:
        return _speaks_http2()
    if text == _BLANK:
        text = "expected HTTP/1.1 behind the target; a blank in the target is written %20"
    return Fault(400, f"Invalid HTTP request received: {text}.")

"""What is wrong with a request, as status and text for its client."""

import logging
from typing import Final

import httptools

from ie_serving.core.values.hints import Hint
from ie_serving.server.transport.http1.messages import Fault
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

LARGEST_HEAD: Final = 64 * 1024
"""Bytes of request line and headers, of trailers, or of a body's chunk extensions; a request with
more is refused and its connection is closed. Far above the 8 to 32 KB that proxies let through."""
MOST_FIELDS: Final = 1024
"""Headers of one request; one with more is refused as well. Each costs a microsecond of the event
loop, and 64 KB could hold 13,000. Apache and Envoy take 100, Node 2,000."""
TOO_LARGE: Final = f"The request's headers, trailers or extensions exceed {LARGEST_HEAD} bytes."
TOO_LONG: Final = f"The request's target exceeds {LARGEST_HEAD} bytes."
TOO_MANY: Final = f"The request has more than {MOST_FIELDS} headers."
FAILED: Final = "request failed by a defect in the HTTP server"
DEFECT: Final = Fault(500, "Internal Server Error")
_HTTP2: Final = b"PRI * HTTP/2.0"
"""RFC 9113, section 3.4."""
_PREFACE: Final = "Pause on PRI/Upgrade"
"""What the parser says of it, where it comes in pieces."""
_BLANK: Final = "Expected HTTP/, RTSP/ or ICE/"
"""What it says of a target with a blank in it."""
_TLS: Final = b"\x16"
"""A record of a handshake; RFC 8446, section 5.1. No method of HTTP has it."""
STOPPING: Final = Fault(503, "The server stops.")


def oversized(target: bytes) -> Fault:
    """Refuse a head that is too large, by its target where that takes more than half of it."""
    long = len(target) > LARGEST_HEAD // 2
    return Fault(414, TOO_LONG) if long else Fault(431, TOO_LARGE)


class Refused(Exception):
    """A request that the parser lets through and we do not. Its text goes to the client."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def mistaken(data: bytes) -> Fault | None:
    """Tell a client by the first bytes that it has sent that this is not the port it means."""
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


def refusal_of(error: httptools.HttpParserError) -> Fault:
    """Give the reply to a request that the parser refused, or that we refused while it parsed."""
    cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else None
    if isinstance(cause, Refused):
        return Fault(cause.status, cause.text)
    if isinstance(error, httptools.HttpParserInvalidMethodError):
        return Fault(501, "The method is not known to this server.")
    if cause is not None and not isinstance(cause, httptools.HttpParserError):
        log.error(Event(FAILED), exc_info=cause)
        return DEFECT
    text = str(cause or error)
    if text == _PREFACE:
        return _speaks_http2()
    if text == _BLANK:
        text = "expected HTTP/1.1 behind the target; a blank in the target is written %20"
    return Fault(400, f"Invalid HTTP request received: {text}.")

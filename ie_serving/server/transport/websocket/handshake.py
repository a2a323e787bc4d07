"""The opening handshake of a WebSocket. Source: RFC 6455 sections 4.2 and 10.2."""

import base64
import binascii
import hashlib
from typing import Final

from ie_serving.core.values.errors import Forbidden, InvalidRequest
from ie_serving.server.transport.http1.messages import Headers, RequestHead

VERSION: Final = b"13"
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES: Final = 16


class UpgradeRequired(InvalidRequest):
    """The request asks for no WebSocket, or for another version of the protocol."""


def accepted(head: RequestHead, *, any_origin: bool) -> Headers:
    """Return the headers that accept a handshake.

    Args:
        head: of the request.
        any_origin: pages of other origins may open a WebSocket, too.

    Raises:
        UpgradeRequired: not a handshake, or not of version 13.
        InvalidRequest: the key is invalid, or the request has a body.
        Forbidden: the browser names a page of another origin.
    """
    fields = head.fields
    offered = [each.strip() for each in head.upgrade.lower().split(b",")]
    if head.method != "GET" or head.version != "1.1" or b"websocket" not in offered:
        raise UpgradeRequired("a stream is a WebSocket: ask for it by Upgrade: websocket")
    if fields.get(b"sec-websocket-version", b"") != VERSION:
        raise UpgradeRequired("Sec-WebSocket-Version is not 13, the one version that is spoken")
    # Data behind the head belongs to the WebSocket.
    if head.length != 0:
        raise InvalidRequest("the request for a WebSocket has no body")
    if not any_origin:
        _check_origin(fields.get(b"origin"), fields.get(b"host", b""))
    return (
        (b"upgrade", b"websocket"),
        (b"connection", b"upgrade"),
        (b"sec-websocket-accept", _accept(fields.get(b"sec-websocket-key", b""))),
    )


def _accept(key: bytes) -> bytes:
    try:
        size = len(base64.b64decode(key, validate=True))
    except binascii.Error:
        size = 0
    if size != _KEY_BYTES:
        raise InvalidRequest("Sec-WebSocket-Key is not 16 bytes in base64")
    # As the protocol demands: it proves that the server knows WebSockets, and protects nothing.
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())


def _check_origin(origin: bytes | None, host: bytes) -> None:
    """Refuse pages of other origins: unlike with a request, a browser lets them read a WebSocket.

    The browser sends the user's certificate or password along for any page.
    """
    if origin is not None and origin.lower().partition(b"://")[2] != host.lower():
        raise Forbidden(
            f'a page of "{origin[:100].decode("latin-1")}" may open no stream of this server: let'
            " browsers ask from other origins by enabling CORS"
        )

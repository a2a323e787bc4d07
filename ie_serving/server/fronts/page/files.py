"""The files of the page, and the headers that shut it off from other sites.

They hold nothing about this server: whoever can reach the port may have them, since a browser asks
for them before it can send a key.
"""

from functools import cache
from importlib.resources import files
from typing import Final

from ie_serving.server.fronts.rest.pages import SAME_ORIGIN
from ie_serving.server.transport.http1.messages import Headers

MEDIA_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""By the ending of a file's name."""

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' blob:",  # the picture that somebody is about to send
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",  # a string never becomes HTML, not even by mistake
        "trusted-types 'none'",
    )
)
"""Nothing inline, nothing from elsewhere, in nobody's frame."""

SECURITY: Final[Headers] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    SAME_ORIGIN,
)
"""Of every reply to the page, also of its data: no other site may include or frame it."""


@cache
def read(name: str) -> bytes:
    """Give a file of the page."""
    return files(__package__).joinpath("static").joinpath(name).read_bytes()


def headers_of(name: str) -> Headers:
    """Give the headers of a file: a browser asks again each time, as releases change them."""
    media_type = MEDIA_TYPES[name.rpartition(".")[2]]
    return ((b"content-type", media_type.encode()), (b"cache-control", b"no-cache"), *SECURITY)

"""The static files of the page, and the headers that isolate it from other sites.

The files say nothing about this server, and need no key, since a browser requests them before it
can send one.
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
"""Content types by the suffix of a file's name."""

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' blob:",  # the picture that the user has chosen to send
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",  # the page's code cannot turn a string into HTML
        "trusted-types 'none'",
    )
)
"""Forbids inline code, resources from elsewhere, and frames around the page."""

SECURITY: Final[Headers] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    SAME_ORIGIN,
)
"""Headers of every reply to the page, data included: no other site may include or frame it."""


@cache
def read(name: str) -> bytes:
    """Return a file of the page."""
    return files(__package__).joinpath("static").joinpath(name).read_bytes()


def headers_of(name: str) -> Headers:
    """Return a file's headers: browsers revalidate it at each use, since releases change it."""
    media_type = MEDIA_TYPES[name.rpartition(".")[2]]
    return ((b"content-type", media_type.encode()), (b"cache-control", b"no-cache"), *SECURITY)

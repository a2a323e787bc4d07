"""Requests that a page of another site makes a visitor's browser send.

A browser sends them from inside the visitor's network, and with the password that the visitor has
given it. The page cannot read the answer, but what the request changes is changed.

Source: Fetch Metadata Request Headers (W3C); RFC 6454 section 7.
"""

from collections.abc import Mapping
from typing import Final

from ie_serving.core.errors import Forbidden
from ie_serving.core.hints import Hint

OWN_SITE: Final = (b"same-origin", b"none")
"""What `Sec-Fetch-Site` says of a page of this server, and of what a person types."""


def check(fields: Mapping[bytes, bytes], *, any_site: bool) -> None:
    """Refuse what a page of another site asks. Programs send neither header, and pass.

    Args:
        fields: of the request's head, by lower-case names.
        any_site: CORS is enabled, so that any page may ask.

    Raises:
        Forbidden: a browser says that it is such a page.
    """
    if any_site:
        return
    site, origin = fields.get(b"sec-fetch-site"), fields.get(b"origin")
    if site is not None:
        is_foreign = site not in OWN_SITE
    else:
        # Browsers leave the first header out over plain HTTP, but for this machine.
        host = fields.get(b"host", b"").lower()
        is_foreign = origin is not None and origin.lower().partition(b"://")[2] != host
    if is_foreign:
        shown = (origin or b"another site")[:100].decode("latin-1")
        raise Forbidden(
            f'a page of "{shown}" may change nothing here; behind a proxy, have it pass the header'
            " Host on",
            Hint(", or let other origins ask with {server.enable_cors}"),
        )

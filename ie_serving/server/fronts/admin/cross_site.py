"""Refuses requests that a page of another site makes a visitor's browser send (CSRF).

The browser sends them from inside the visitor's network, with the password that the visitor has
entered. The page cannot read the reply, but the request still takes effect.

The page's own host name may also lead to this server: its owner makes the name resolve to an
address of the visitor's network once the browser has loaded the page (DNS rebinding). The browser
then takes page and server for one site, and the page can read answers, too. Such a name has to be
one that its owner could register. This server has no certificate for it, so the browser uses plain
HTTP; and the browser has stored no passwords or keys for it.

Source: Fetch Metadata Request Headers (W3C); RFC 6454 section 7; RFC 6761 and 6762 for names that
cannot be registered. Jupyter and Ollama check Host likewise when they listen on this machine alone.
"""

import re
from collections.abc import Mapping
from typing import Final

from ie_serving.core.values.errors import Forbidden
from ie_serving.core.values.hints import Hint

OWN_SITE: Final = (b"same-origin", b"none")
"""Values of `Sec-Fetch-Site` for pages of this server, and for an address that a user typed."""

UNREGISTRABLE_SUFFIXES: Final = (
    *(b".localhost", b".local", b".internal", b".test", b".svc", b".home.arpa"),
    *(b".intranet", b".private", b".corp", b".home", b".lan"),
)
"""Suffixes that cannot be registered, so that only the local network resolves them. The second line
has suffixes that networks use without being entitled to them: RFC 6762, appendix G."""


def check(fields: Mapping[bytes, bytes], *, any_site: bool, open_to_all: bool = False) -> None:
    """Refuse requests of other sites' pages. Programs send neither header, and pass.

    Args:
        fields: header fields of the request, by lower-case name.
        any_site: CORS is enabled, so that pages of any site may send requests.
        open_to_all: no key is required, so that a page may use any host name that leads here.

    Raises:
        Forbidden: the browser's headers name a page of another site.
    """
    if any_site:
        return
    _check_site(fields)
    if open_to_all and _has_owner(fields.get(b"origin", b"")):
        raise Forbidden(
            f'a page of "{_origin(fields)}" may change nothing here: the owner of that name could'
            " have it lead to this server; use https, the server's address, or a name of its"
            " network",
            Hint(", or require keys with {server.api_key_file}"),
        )


def _has_owner(origin: bytes) -> bool:
    """Return whether the host of a plain HTTP page may be a registered name.

    Addresses are not registered, nor names of one part, such as those of services in Kubernetes.
    """
    scheme, _, authority = origin.lower().partition(b"://")
    host = re.sub(rb"\.?(:\d+)?$", b"", authority, count=1)
    is_address = re.fullmatch(rb"[\d.]+|\[.*\]", host)
    return (
        scheme == b"http"
        and b"." in host
        and not is_address
        and not host.endswith(UNREGISTRABLE_SUFFIXES)
    )


def _origin(fields: Mapping[bytes, bytes]) -> str:
    return fields.get(b"origin", b"another site")[:100].decode("latin-1")


def _check_site(fields: Mapping[bytes, bytes]) -> None:
    """Refuse pages of other sites by the headers alone. Raises: Forbidden."""
    site, origin = fields.get(b"sec-fetch-site"), fields.get(b"origin")
    if site is not None:
        is_foreign = site not in OWN_SITE
    else:
        # Over plain HTTP, browsers send the first header only to this machine itself.
        host = fields.get(b"host", b"").lower()
        is_foreign = origin is not None and origin.lower().partition(b"://")[2] != host
    if is_foreign:
        raise Forbidden(
            f'a page of "{_origin(fields)}" may change nothing here; behind a proxy, have it pass'
            " the header Host on",
            Hint(", or let other origins ask with {server.enable_cors}"),
        )

"""Requests that a page of another site makes a visitor's browser send.

A browser sends them from inside the visitor's network, and with the password that the visitor has
given it. The page cannot read the answer, but what the request changes is changed.

A page may also be of a name that leads to this server: its owner has it resolve to an address of
the visitor's network once the page is there (DNS rebinding). To the browser that page is of this
server's site, and it reads answers, too. Such a name is one that the owner could register. This
server has no certificate for it, so the browser asks over plain HTTP; and the browser has no
passwords or keys for it, since those belong to the names that people use.

Source: Fetch Metadata Request Headers (W3C); RFC 6454 section 7; RFC 6761 and 6762 for names that
nobody can register. Jupyter and Ollama check Host likewise where they listen on this machine alone.
"""

import re
from collections.abc import Mapping
from typing import Final

from ie_serving.core.values.errors import Forbidden
from ie_serving.core.values.hints import Hint

OWN_SITE: Final = (b"same-origin", b"none")
"""What `Sec-Fetch-Site` says of a page of this server, and of what a person types."""


NOBODYS: Final = (
    *(b".localhost", b".local", b".internal", b".test", b".svc", b".home.arpa"),
    *(b".intranet", b".private", b".corp", b".home", b".lan"),
)
"""Ends of names that nobody can register, so that only the network itself says where they lead. The
second line is what networks use without a right to it: RFC 6762, appendix G."""


def check(fields: Mapping[bytes, bytes], *, any_site: bool, open_to_all: bool = False) -> None:
    """Refuse what a page of another site asks. Programs send neither header, and pass.

    Args:
        fields: of the request's head, by lower-case names.
        any_site: CORS is enabled, so that any page may ask.
        open_to_all: nobody needs a key, so that a page of any name may ask that leads here.

    Raises:
        Forbidden: a browser says that it is such a page.
    """
    if any_site:
        return
    _check_site(fields)
    if open_to_all and _has_owner(fields.get(b"origin", b"")):
        raise Forbidden(
            f'a page of "{_shown(fields)}" may change nothing here: whoever owns that name could'
            " have it lead to this server; use https, the server's address, or a name of its"
            " network",
            Hint(", or require keys with {server.api_key_file}"),
        )


def _has_owner(origin: bytes) -> bool:
    """Tell whether the host of a page over plain HTTP may be the name of somebody.

    Addresses are not, nor names of one part, such as those of services in Kubernetes.
    """
    scheme, _, place = origin.lower().partition(b"://")
    host = re.sub(rb"\.?(:\d+)?$", b"", place, count=1)
    is_address = re.fullmatch(rb"[\d.]+|\[.*\]", host)
    return scheme == b"http" and b"." in host and not is_address and not host.endswith(NOBODYS)


def _shown(fields: Mapping[bytes, bytes]) -> str:
    return fields.get(b"origin", b"another site")[:100].decode("latin-1")


def _check_site(fields: Mapping[bytes, bytes]) -> None:
    """Refuse what is no page of this site, by the headers alone. Raises: Forbidden."""
    site, origin = fields.get(b"sec-fetch-site"), fields.get(b"origin")
    if site is not None:
        is_foreign = site not in OWN_SITE
    else:
        # Browsers leave the first header out over plain HTTP, but for this machine.
        host = fields.get(b"host", b"").lower()
        is_foreign = origin is not None and origin.lower().partition(b"://")[2] != host
    if is_foreign:
        raise Forbidden(
            f'a page of "{_shown(fields)}" may change nothing here; behind a proxy, have it pass'
            " the header Host on",
            Hint(", or let other origins ask with {server.enable_cors}"),
        )

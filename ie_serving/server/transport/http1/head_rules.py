"""Rules for the head of a request beyond its syntax: version, host, transfer encoding.

Source: RFC 9112 sections 2.3, 3.2 and 6.1; RFC 9110 section 7.2. Applied only to heads that are not
cached yet (`known_heads.py`), so their cost does not matter.
"""

import re
from collections.abc import Mapping
from typing import Final

from ie_serving.server.transport.http1.faults import RequestRefused
from ie_serving.server.transport.http1.messages import Headers

_HOST: Final = re.compile(
    rb"(?:\[[0-9A-Za-z:._~!$&'()*+,;=%-]+\]|[0-9A-Za-z._~!$&'()*+,;=%-]*)(?::[0-9]*)?"
)
"""A name, an IPv4 or an IPv6 address, and a port; empty if the target has no authority."""


def spoken(version: str) -> str:
    """Return the version used with a client of this version: 1.2 and above understand 1.1.

    Raises:
        Refused: not a version of HTTP/1.
    """
    major, _, minor = version.partition(".")
    if major != "1":
        raise RequestRefused(505, f"HTTP version {version} is not supported: speak HTTP/1.1.")
    return "1.0" if minor == "0" else "1.1"


def by_name(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the value of each header, or a list if it occurs several times. RFC 9110 section 5.3.

    The time is proportional to the number of headers, also if all have one name.
    """
    fields = dict(headers)
    if len(fields) == len(headers):
        return fields
    values: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value)
    return {name: b",".join(each) for name, each in values.items()}


def check_host(version: str, headers: Headers | list[tuple[bytes, bytes]]) -> None:
    """Refuse requests that proxies could route differently from our reading.

    Raises:
        Refused: there is no Host, more than one, or an invalid one.
    """
    # Section 3.2: with two of them a proxy may use one, and we the other.
    hosts = [value for name, value in headers if name == b"host"]
    if not hosts and version == "1.0":
        return
    if len(hosts) != 1:
        raise RequestRefused(400, f"A request has one Host header, not {len(hosts)}.")
    if not _HOST.fullmatch(hosts[0]):
        raise RequestRefused(400, "The Host header holds neither a name nor an address.")


def is_chunked(version: str, fields: Mapping[bytes, bytes]) -> bool:
    """Return whether the body comes in chunks.

    Raises:
        Refused: the transfer encoding leaves the end of the body, or its content, undefined.
    """
    encoding = fields.get(b"transfer-encoding")
    if encoding is None:
        return False
    # Section 6.1: a proxy of HTTP/1.0 may have passed the header on without understanding it, and
    # then sees the end of the body elsewhere.
    if version == "1.0":
        raise RequestRefused(400, "HTTP/1.0 knows no Transfer-Encoding: speak HTTP/1.1.")
    # Section 6.3: unless chunked is the last coding, the end of the body is undefined. Data behind
    # it could be smuggled in as a separate request.
    codings = [coding.strip() for coding in encoding.lower().split(b",")]
    if codings.count(b"chunked") != 1 or codings[-1] != b"chunked":
        raise RequestRefused(400, "A body with a Transfer-Encoding ends with chunked, named once.")
    if len(codings) > 1:
        raise RequestRefused(
            501, "No Transfer-Encoding but chunked is supported; use Content-Encoding."
        )
    return True

"""What the head of a request has to say beyond its syntax: version, host, transfer encoding.

Source: RFC 9112 sections 2.3, 3.2 and 6.1; RFC 9110 section 7.2. Asked for heads that are not known
yet (`known_heads.py`), so their cost does not count.
"""

import re
from collections.abc import Mapping
from typing import Final

from ie_serving.server.transport.http1.faults import Refused
from ie_serving.server.transport.http1.messages import Headers

_HOST: Final = re.compile(
    rb"(?:\[[0-9A-Za-z:._~!$&'()*+,;=%-]+\]|[0-9A-Za-z._~!$&'()*+,;=%-]*)(?::[0-9]*)?"
)
"""A name, an IPv4 or an IPv6 address, and a port; empty where the target has no authority."""


def spoken(version: str) -> str:
    """Give the version that is spoken with a client of this one: 1.2 and above understand 1.1.

    Raises:
        Refused: it is not a version of HTTP/1.
    """
    major, _, minor = version.partition(".")
    if major != "1":
        raise Refused(505, f"HTTP version {version} is not supported: speak HTTP/1.1.")
    return "1.0" if minor == "0" else "1.1"


def by_name(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Give the value of each header; of one that comes several times a list. RFC 9110 section 5.3.

    It takes a time in proportion to the headers, also where all have one name.
    """
    fields = dict(headers)
    if len(fields) == len(headers):
        return fields
    values: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value)
    return {name: b",".join(each) for name, each in values.items()}


def check_host(version: str, headers: Headers | list[tuple[bytes, bytes]]) -> None:
    """Refuse what proxies could route otherwise than we read it.

    Raises:
        Refused: there is no Host, more than one, or one that is none.
    """
    # Section 3.2: with two of them a proxy may route by one, and we answer by the other.
    hosts = [value for name, value in headers if name == b"host"]
    if not hosts and version == "1.0":
        return
    if len(hosts) != 1:
        raise Refused(400, f"A request has one Host header, not {len(hosts)}.")
    if not _HOST.fullmatch(hosts[0]):
        raise Refused(400, "The Host header holds neither a name nor an address.")


def is_chunked(version: str, fields: Mapping[bytes, bytes]) -> bool:
    """Tell whether the body comes in chunks.

    Raises:
        Refused: by its encoding nobody can tell where the body ends, or what it holds.
    """
    encoding = fields.get(b"transfer-encoding")
    if encoding is None:
        return False
    # Section 6.1: a proxy of HTTP/1.0 may have passed the header on without knowing it, and then it
    # sees the end of the body elsewhere.
    if version == "1.0":
        raise Refused(400, "HTTP/1.0 knows no Transfer-Encoding: speak HTTP/1.1.")
    # Section 6.3: where chunked is not the last coding nobody knows the end of the body. What lies
    # behind it could be smuggled in as a request of its own.
    codings = [coding.strip() for coding in encoding.lower().split(b",")]
    if codings.count(b"chunked") != 1 or codings[-1] != b"chunked":
        raise Refused(400, "A body with a Transfer-Encoding ends with chunked, named once.")
    if len(codings) > 1:
        raise Refused(501, "No Transfer-Encoding but chunked is supported; use Content-Encoding.")
    return True

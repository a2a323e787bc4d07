"""Tells private hosts from public ones.

Data to a public address may cross networks of others, so it is encrypted unless the address says
otherwise. Names are judged by their form alone: nothing is resolved.
"""

import re
import socket
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Final
from urllib.parse import urlsplit

_OWN_NETWORKS: Final = tuple(
    ip_network(each)
    for each in (
        *("0.0.0.0/32", "127.0.0.0/8", "::/128", "::1/128"),  # this machine
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),  # RFC 1918
        *("169.254.0.0/16", "fe80::/10"),  # link-local: RFC 3927, RFC 4291
        "fc00::/7",  # unique local: RFC 4193
    )
)
_OWN_DOMAINS: Final = (
    *("localhost", "test"),  # RFC 6761
    "local",  # RFC 6762; also Kubernetes' cluster.local
    "home.arpa",  # RFC 8375
    "internal",  # reserved by ICANN in 2024; also host.docker.internal
    "svc",  # NAME.NAMESPACE.svc within Kubernetes; no top-level domain
)
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")


def host_of(address: str) -> str:
    """Return the host of a URL, or of HOST[:PORT]; empty if there is none."""
    try:
        parts = urlsplit("//" + address.split("://", 1)[-1].lstrip("/"))
        _ = parts.port  # fails if no port follows the host, as for IPv6 without brackets
    except ValueError:
        return ""
    return parts.hostname or ""


def is_public(host: str) -> bool:
    """Return whether a host may be reached across networks of others; in doubt, True.

    Args:
        host: a name or an address, without port and brackets.
    """
    if address := _address(host):
        return not any(address in network for network in _OWN_NETWORKS)
    if not _NAME.fullmatch(host):
        return True
    if "." not in host:  # completed by the resolver's own domains, or in a file of this machine
        return False
    name = host.lower().removesuffix(".")
    return not any(name == each or name.endswith(f".{each}") for each in _OWN_DOMAINS)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    with suppress(OSError, ValueError):
        if ":" in host:
            found = IPv6Address(host)
            return found.ipv4_mapped or found
        # Accepts every form that the resolver takes for an address: 127.1, 0x7f000001, 2130706433.
        # The resolver ignores text after a blank; such a host is not accepted as a name.
        return IPv4Address(socket.inet_aton(host)) if _NAME.fullmatch(host) else None
    return None

"""Facts about a connection's client: TLS certificate and protocol, address, whether it has left."""

import asyncio
import select
from typing import Final


def client_names(transport: asyncio.BaseTransport) -> tuple[str, ...]:
    """Return the common name and the alternative names of a client's certificate.

    Empty if the server asks clients for no certificate: the library shows a certificate only if it
    has verified it.
    """
    certificate = transport.get_extra_info("peercert")
    if not certificate:
        return ()
    subject = (pair for part in certificate.get("subject", ()) for pair in part)
    common = [value for name, value in subject if name == "commonName"]
    return (*common, *(value for _, value in certificate.get("subjectAltName", ())))


def agreed_protocol(transport: asyncio.BaseTransport) -> str | None:
    """Return the protocol that ALPN has negotiated; None without TLS or without ALPN."""
    tls = transport.get_extra_info("ssl_object")
    name: str | None = tls.selected_alpn_protocol() if tls else None
    return name


def client_address(transport: asyncio.BaseTransport | None) -> str | None:
    """Return the address of a client; None over a UNIX socket, or if the client has left."""
    address = transport.get_extra_info("peername") if transport else None
    return str(address[0]) if isinstance(address, tuple) else None


def has_left(transport: asyncio.BaseTransport, *, once_silent: bool) -> bool:
    """Return whether a client has left a connection from which the event loop does not read.

    Args:
        transport: transport of the connection.
        once_silent: a client that has closed its sending side has left; else it may still read.
    """
    own_end = transport.get_extra_info("socket")
    if own_end is None:  # TLS will soon report the end
        return True
    kernel = select.poll()
    kernel.register(own_end, select.POLLRDHUP if once_silent else 0)  # resets are always reported
    return bool(kernel.poll(0))


UNREAD_S: Final = 75.0
"""Seconds in which a client has to read some waiting data, as on REST; then it is dropped."""
LEAST_READ: Final = 4 * 1024
"""Bytes that count as some data: a client that reads single bytes could stay for ever."""

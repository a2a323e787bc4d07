"""What stands before every port, whatever is answered behind it: TLS, where a port has it."""

import ssl
from collections.abc import Callable
from functools import partial

from ie_serving.config.settings import ServerSettings, TlsMaterial
from ie_serving.server.gate.certificates import HTTP1, HTTP2, Certificates
from ie_serving.server.process.ports import GRPC, REST

_ALPN = {GRPC: HTTP2, REST: HTTP1}


class Gate:
    """The gate of all ports. Belongs to one event loop.

    Args of the constructor:
        settings: of the server.
        read: reads certificates and keys. Blocking. Raises ConfigError.

    Raises:
        ConfigError: they cannot be used.
    """

    def __init__(self, settings: ServerSettings, read: Callable[[], TlsMaterial]) -> None:
        self._ports = settings.tls_ports
        self._certificates = Certificates(read) if settings.has_tls else None

    def secure(self, port: str) -> Callable[[], ssl.SSLContext] | None:
        """Give what gives the present context of a port; None for a port that is plain."""
        if self._certificates is None or not self._is_encrypted(port):
            return None
        # A function, not a context: a renewal replaces it, and later connections need the new one.
        return partial(self._certificates.context, _ALPN[port])

    def identity(self, port: str) -> Callable[[], TlsMaterial] | None:
        """Give what gives the present certificates of a port; None for a port that is plain."""
        certificates = self._certificates
        if certificates is None or not self._is_encrypted(port):
            return None
        return lambda: certificates.material

    def open(self) -> None:
        """Look for renewed certificates from now on."""
        if self._certificates:
            self._certificates.follow()

    async def renew(self) -> None:
        """Look for renewed certificates now."""
        if self._certificates:
            await self._certificates.renew()

    def close(self) -> None:
        """Look no more."""
        if self._certificates:
            self._certificates.close()

    def _is_encrypted(self, port: str) -> bool:
        return self._ports in ("both", port.lower())

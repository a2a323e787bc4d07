"""What stands before every port, whatever is answered behind it: TLS, and who may do what."""

from collections.abc import Callable
from functools import partial

from ie_serving.config.credentials import AccessMaterial, TlsMaterial
from ie_serving.config.settings import ServerSettings
from ie_serving.server.gate import rights
from ie_serving.server.gate.access import Access
from ie_serving.server.gate.certificates import HTTP1, HTTP2, Certificates
from ie_serving.server.gate.grpc_guard import GrpcGuard, ServicesFor
from ie_serving.server.gate.rest_guard import Phrase, RestGuard, Wanted
from ie_serving.server.process.handover import Left
from ie_serving.server.process.ports import BOTH, GRPC, REST
from ie_serving.server.transport.failed_handshakes import FailedHandshakes
from ie_serving.server.transport.grpc.services import Admission, Services
from ie_serving.server.transport.handshake import Secure
from ie_serving.server.transport.http1.messages import App

_ALPN = {
    GRPC: (HTTP2,),
    REST: (HTTP1,),
    # Whoever offers both, as browsers and curl do, wants pages; clients of gRPC offer h2 alone.
    BOTH: (HTTP1, HTTP2),
}
"""What is agreed upon at each port, the first that the client offers."""

Refused = Callable[[BaseException], None]
"""Told of each request that is refused here, for the metrics."""


class Gate:
    """The gate of all ports. Belongs to one event loop.

    Args of the constructor:
        settings: of the server.
        read_tls, read_access: read certificates and keys, and callers, as the settings say.
            Blocking. Raise ConfigError.
        certificates, callers: hold what an earlier worker read last, and then what this one does.

    Attributes:
        failed_handshakes: of all ports.

    Raises:
        ConfigError: they cannot be used.
    """

    def __init__(
        self,
        settings: ServerSettings,
        read_tls: Callable[[ServerSettings], TlsMaterial],
        read_access: Callable[[ServerSettings], AccessMaterial],
        *,
        certificates: Left,
        callers: Left,
    ) -> None:
        self.failed_handshakes = FailedHandshakes()
        self._ports = settings.tls_ports
        self._open_health = settings.open_health
        tls, access = partial(read_tls, settings), partial(read_access, settings)
        self._certificates = Certificates(tls, certificates) if settings.has_tls else None
        self._access = Access(access, callers) if settings.has_access else None
        self._files = [each for each in (self._certificates, self._access) if each]

    def rest(self, app: App, wanted: Wanted, phrase: Phrase, refused: Refused) -> App:
        """Put the check of callers before `app`, where callers are asked who they are."""
        if self._access is None:
            return app
        needs = rights.needs(rights.REST, open_health=self._open_health)
        return RestGuard(app, self._access, needs, wanted, phrase, refused).answer

    def grpc(
        self, services: Services, services_for: ServicesFor, refused: Refused
    ) -> Admission | None:
        """Give what admits calls; None where nobody is asked who they are."""
        if self._access is None:
            return None
        needs = rights.needs(rights.RPC, open_health=self._open_health)
        return GrpcGuard(services, services_for, self._access, needs, refused)

    def secure(self, port: str) -> Secure | None:
        """Give what a port agrees upon TLS with; None for a port that is plain."""
        if self._certificates is None or not self._is_encrypted(port):
            return None
        # A function, not a context: a renewal replaces it, and later connections need the new one.
        return Secure(partial(self._certificates.context, _ALPN[port]), self.failed_handshakes)

    def identity(self, port: str) -> Callable[[], TlsMaterial] | None:
        """Give what gives the present certificates of a port; None for a port that is plain."""
        certificates = self._certificates
        if certificates is None or not self._is_encrypted(port):
            return None
        return lambda: certificates.material

    def open(self) -> None:
        """Look for renewed files from now on."""
        for each in self._files:
            each.follow()

    async def renew(self) -> None:
        """Look for renewed files now."""
        for each in self._files:
            await each.renew()

    def close(self) -> None:
        """Look no more."""
        for each in self._files:
            each.close()

    def _is_encrypted(self, port: str) -> bool:
        return self._ports in ("both", port.lower())

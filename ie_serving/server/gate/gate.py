"""The gate before every port: TLS, authentication and access rights."""

from collections.abc import Callable, Iterator
from functools import partial

from ie_serving.config.credentials import AccessMaterial, TlsMaterial
from ie_serving.config.settings import ServerSettings
from ie_serving.core.compat import registered
from ie_serving.core.values.access import Caller
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
from ie_serving.server.transport.http1.messages import App, Request

_ALPN = {
    GRPC: (HTTP2,),
    REST: (HTTP1,),
    # Clients that offer both, as browsers and curl do, want pages; gRPC clients offer h2 alone.
    BOTH: (HTTP1, HTTP2),
}
"""Protocols of each port in ALPN; the first that the client offers is used."""

Refused = Callable[[BaseException], None]
"""Called for each request that the gate refuses, for the metrics."""


class Gate:
    """The gate of all ports. Belongs to one event loop.

    Args of the constructor:
        settings: of the server.
        read_tls, read_access: read certificates and keys, and callers, as the settings say.
            Blocking. Raise ConfigError.
        certificates, callers: hold the last valid material of an earlier worker, then this one's.

    Attributes:
        failed_handshakes: of all ports.

    Raises:
        ConfigError: the material cannot be used.
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
        self._guard: RestGuard | None = None

    def rest(self, app: App, wanted: Wanted, phrase: Phrase, refused: Refused) -> App:
        """Put the check of callers before `app`, if callers are authenticated."""
        if self._access is None:
            return app
        needs = rights.needs(rights.REST, open_health=self._open_health)
        headers = [name.encode() for each in registered() for name in each.token_headers]
        self._guard = RestGuard(app, self._access, needs, wanted, phrase, refused, headers)
        return self._guard.answer

    async def rest_caller(self, request: Request) -> Caller | None:
        """Return the caller of a request that `rest` let pass; None if callers are not asked."""
        return await self._guard.caller(request) if self._guard else None

    def grpc(
        self, services: Services, services_for: ServicesFor, refused: Refused
    ) -> Admission | None:
        """Return the object that admits calls; None if callers are not authenticated."""
        if self._access is None:
            return None
        needs = rights.needs(rights.RPC, open_health=self._open_health)
        return GrpcGuard(services, services_for, self._access, needs, refused)

    def secure(self, port: str) -> Secure | None:
        """Return the TLS of a port; None for a plain port."""
        if self._certificates is None or not self._is_encrypted(port):
            return None
        # A function, not a context: after a renewal, later connections need the new context.
        return Secure(partial(self._certificates.context, _ALPN[port]), self.failed_handshakes)

    def identity(self, port: str) -> Callable[[], TlsMaterial] | None:
        """Return a function that returns a port's present certificates; None for a plain port."""
        certificates = self._certificates
        if certificates is None or not self._is_encrypted(port):
            return None
        return lambda: certificates.material

    def expired(self) -> str:
        """Say why clients refuse the server's certificate; empty where they take it."""
        return self._certificates.fault() if self._certificates else ""

    def lines(self) -> Iterator[str]:
        """Yield the samples for the metrics page."""
        yield from self.failed_handshakes.lines()
        if self._certificates:
            yield from self._certificates.lines()

    def open(self) -> None:
        """Check for renewed files from now on, and say that a certificate expires."""
        if self._certificates:
            self._certificates.warn()
        for each in self._files:
            each.follow()

    async def renew(self) -> None:
        """Check for renewed files now."""
        for each in self._files:
            await each.renew()

    def close(self) -> None:
        """Stop checking for renewed files."""
        for each in self._files:
            each.close()

    def _is_encrypted(self, port: str) -> bool:
        return self._ports in ("both", port.lower())

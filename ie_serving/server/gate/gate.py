"""The gate before every port: TLS, authentication and access rights.

Over gRPC, `GrpcGuard` chooses the method that answers a call by its caller. It checks credentials
and right by the headers of a call, before its message arrives. The message names the model, so a
caller who may use only some models gets services of its own, whose data plane refuses the others.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

from ie_serving.config.credentials import AccessMaterial, TlsMaterial
from ie_serving.config.settings import ServerSettings
from ie_serving.core.compat import registered
from ie_serving.core.runtime.handover import HandoverStore
from ie_serving.core.values.access import ConcernedModels, Credentials, Need, Principal
from ie_serving.core.values.codes import ENDED
from ie_serving.core.values.errors import NotFound, Unauthenticated
from ie_serving.server.gate import rights
from ie_serving.server.gate.access import BEARER, Access, remember
from ie_serving.server.gate.certificates import HTTP1, HTTP2, Certificates
from ie_serving.server.process.ports import BOTH, GRPC, REST
from ie_serving.server.transport.grpc.services import (
    Buffer,
    CallAdmission,
    CallContext,
    RpcMethod,
    Services,
    StreamingMethod,
    by_path,
)
from ie_serving.server.transport.handshake import FailedHandshakes, TlsSettings
from ie_serving.server.transport.http1.messages import AnyReply, App, Reply, Request, RequestHead

LONGEST_TARGET: Final = 256
"""Longest target in bytes for which a decision is cached. Longer ones are judged at each request:
4,096 targets of 64 KB would let one caller fill 256 MB."""

PAGE: Final = b"x-ie-serving-page"
"""Header that the page at `/` sends with its own requests."""

TargetOf = Callable[[RequestHead], tuple[str, str]]
"""Returns the verb of a request, a key of `rights.REST`, and the model that it names, if any.

Raises NotFound if no route matches."""

Phrase = Callable[[Exception], Reply]
"""Makes a reply from an error."""

MOST_OWN: Final = 64
"""Callers whose own services are kept; beyond it new ones are made, with untrained parsers."""
ServicesFor = Callable[[Principal], Services]
"""Makes the services of a caller who may use only some models."""
_ALPN = {
    GRPC: (HTTP2,),
    REST: (HTTP1,),
    # Clients that offer both, as browsers and curl do, want pages; gRPC clients offer h2 alone.
    BOTH: (HTTP1, HTTP2),
}
"""Protocols of each port in ALPN; the first that the client offers is used."""
OnRefusal = Callable[[BaseException], None]
"""Called for each request that the gate refuses, for the metrics."""


@dataclass(eq=False)
class RestGuard:
    """Refuses requests that their caller may not send; passes on all others.

    Attributes:
        app: answers the allowed requests.
        access: knows the callers.
        needs: required rights by verb.
        wanted: function that finds the target of a request, a `TargetOf`.
        phrase: function that makes the reply of a refusal, a `Phrase`.
        refused: called for each request that is refused.
        token_headers: headers that stand for a missing `authorization`, as clients of other servers
            send them: a key, or the whole value of that header.
    """

    app: App
    access: Access
    needs: Mapping[str, Need]
    wanted: TargetOf
    phrase: Phrase
    refused: Callable[[BaseException], None]
    token_headers: Sequence[bytes] = ()

    def answer(self, request: Request) -> Coroutine[Any, Any, AnyReply]:
        """Answer one request. See `http1.messages.App`."""
        head = request.head
        fields = head.fields
        # A plain tuple equals `Credentials` and is cheaper to make: every request needs one.
        given = fields.get(b"authorization")
        credentials = (given or self._token(fields), fields.get(b"x-api-key"), request.ends.names)
        asked = (credentials, head.method, head.path, head.query)
        if asked in self.access.decisions:
            return self.app(request)
        return self._judged(request, Credentials(*credentials), asked)

    def _token(self, fields: Mapping[bytes, bytes]) -> bytes | None:
        for name in self.token_headers:
            if token := fields.get(name):
                return token if b" " in token else b"Bearer " + token
        return fields.get(b"authorization")

    async def caller(self, request: Request) -> Principal:
        """Return the caller of a request that has passed. Raises: as `Access.verified`."""
        fields = request.head.fields
        given = fields.get(b"authorization") or self._token(fields)
        return await self.access.verified(
            Credentials(given, fields.get(b"x-api-key"), request.ends.names)
        )

    async def _judged(self, request: Request, credentials: Credentials, asked: object) -> AnyReply:
        try:
            await self._check(request.head, credentials, asked)
        except ENDED as error:
            self.refused(error)
            if not isinstance(error, Exception):  # cancelled: no client is left to read a reply
                raise
            return self._refusal(request, error)
        return await self.app(request)

    async def _check(self, head: RequestHead, credentials: Credentials, asked: object) -> None:
        """Refuse a request that the caller may not send; cache permission. Raises: ServingError."""
        try:
            verb, model = self.wanted(head)
        except NotFound:
            await self.access.verified(credentials)  # unknown clients must not learn the paths
            raise
        need = self.needs[verb]
        # No cache: unknown clients choose the credentials, and would evict callers.
        if need.right is None:
            return
        caller = await self.access.verified(credentials)
        caller.check(need)
        if need.models is ConcernedModels.NAMED:
            caller.check_model(model)
        if len(head.path) + len(head.query) <= LONGEST_TARGET:
            remember(self.access.decisions, asked, True)

    def _refusal(self, request: Request, error: Exception) -> Reply:
        reply = self.phrase(error)
        if not isinstance(error, Unauthenticated):
            return reply
        # A Basic challenge would make a browser ask in a window of its own, and add the password to
        # requests of any site. The page at / asks for credentials itself instead.
        words = BEARER if PAGE in request.head.fields else self.access.challenge
        challenge = (b"www-authenticate", words.encode())
        return reply._replace(headers=(*reply.headers, challenge))


class GrpcGuard:
    """See `services.CallAdmission`.

    Args of the constructor:
        services: the services without any check.
        services_for: function that makes the services of a caller, a `ServicesFor`; services whose
            methods name no model may be omitted.
        access: knows the callers.
        needs: required rights by the path of each method.
        refused: called for each call that is refused here.

    Raises:
        KeyError: a method has no entry in `needs`.
    """

    def __init__(
        self,
        services: Services,
        services_for: ServicesFor,
        access: Access,
        needs: Mapping[str, Need],
        refused: Callable[[BaseException], None],
    ) -> None:
        self._plain = by_path(services)
        # Looked up here, so that a method without an entry fails the start, not its first call.
        self._needs = {path: needs[path.decode()] for path in self._plain}
        self._own = lru_cache(MOST_OWN)(lambda caller: by_path(services_for(caller)))
        self._access = access
        self.decided: Mapping[Any, Any] = access.decisions
        self._refused = refused

    def method(self, path: bytes, credentials: Credentials) -> RpcMethod:
        """Return the method that answers a call.

        Raises:
            ServingError: the caller may not call the method.
        """
        known: RpcMethod | None = self.decided.get((path, credentials))
        if known is not None:
            return known
        try:
            return self._decided(path, credentials)
        except Exception as error:
            self._refused(error)
            raise

    def _decided(self, path: bytes, credentials: Credentials) -> RpcMethod:
        # No cache: unknown clients choose the credentials, and would evict callers.
        if self._needs[path].right is None:
            return self._plain[path]
        caller = self._access.caller(credentials)
        if caller is None:
            return self._later(path, credentials)
        return self._allowed(path, credentials, caller)

    def _allowed(self, path: bytes, credentials: Credentials, caller: Principal) -> RpcMethod:
        """Return the method for a caller. Raises: Forbidden."""
        need = self._needs[path]
        caller.check(need)
        # Callers of all models share the plain services, and with them their trained parsers.
        own = need.models is ConcernedModels.NAMED and caller.models
        method = (self._own(caller) if own else self._plain)[path]
        remember(self._access.decisions, (path, credentials), method)
        return method

    def _later(self, path: bytes, credentials: Credentials) -> RpcMethod:
        """Return a method that verifies a password first."""
        # The transport chooses the method between two frames and cannot wait. So it gets this
        # method, which verifies the password when the call's message has come.
        if isinstance(self._plain[path], StreamingMethod):
            return StreamingMethod(
                lambda requests, context: self._converse(requests, context, path, credentials)
            )

        async def answer(payload: Buffer, context: CallContext) -> bytes:
            method = await self._verified(path, credentials)
            assert callable(method)
            return await method(payload, context)

        return answer

    async def _converse(
        self,
        requests: AsyncIterator[Buffer],
        context: CallContext,
        path: bytes,
        credentials: Credentials,
    ) -> AsyncGenerator[bytes, None]:
        method = await self._verified(path, credentials)
        assert isinstance(method, StreamingMethod)
        async with aclosing(method.converse(requests, context)) as replies:
            async for reply in replies:
                yield reply

    async def _verified(self, path: bytes, credentials: Credentials) -> RpcMethod:
        try:
            return self._allowed(path, credentials, await self._access.verified(credentials))
        except ENDED as error:
            self._refused(error)
            raise


class Gate:
    """The gate of all ports. Belongs to one event loop.

    Args of the constructor:
        settings: settings of the server.
        read_tls, read_access: read certificates and keys, and callers, as the settings say.
            Blocking. Raise ConfigError.
        certificates, callers: hold the last valid material of an earlier worker, then this one's.

    Attributes:
        failed_handshakes: failed handshakes of all ports.

    Raises:
        ConfigError: the material cannot be used.
    """

    def __init__(
        self,
        settings: ServerSettings,
        read_tls: Callable[[ServerSettings], TlsMaterial],
        read_access: Callable[[ServerSettings], AccessMaterial],
        *,
        certificates: HandoverStore,
        callers: HandoverStore,
    ) -> None:
        self.failed_handshakes = FailedHandshakes()
        self._ports = settings.tls_ports
        self._open_health = settings.open_health
        tls, access = partial(read_tls, settings), partial(read_access, settings)
        self._certificates = Certificates(tls, certificates) if settings.has_tls else None
        self._access = Access(access, callers) if settings.has_access else None
        self._files = [each for each in (self._certificates, self._access) if each]
        self._guard: RestGuard | None = None

    def rest(self, app: App, wanted: TargetOf, phrase: Phrase, refused: OnRefusal) -> App:
        """Put the check of callers before `app`, if callers are authenticated."""
        if self._access is None:
            return app
        needs = rights.needs(rights.REST, open_health=self._open_health)
        headers = [name.encode() for each in registered() for name in each.token_headers]
        self._guard = RestGuard(app, self._access, needs, wanted, phrase, refused, headers)
        return self._guard.answer

    async def rest_caller(self, request: Request) -> Principal | None:
        """Return the caller of a request that `rest` let pass; None if callers are not asked."""
        return await self._guard.caller(request) if self._guard else None

    def grpc(
        self, services: Services, services_for: ServicesFor, refused: OnRefusal
    ) -> CallAdmission | None:
        """Return the object that admits calls; None if callers are not authenticated."""
        if self._access is None:
            return None
        needs = rights.needs(rights.RPC, open_health=self._open_health)
        return GrpcGuard(services, services_for, self._access, needs, refused)

    def secure(self, port: str) -> TlsSettings | None:
        """Return the TLS of a port; None for a plain port."""
        if self._certificates is None or not self._is_encrypted(port):
            return None
        # A function, not a context: after a renewal, later connections need the new context.
        return TlsSettings(partial(self._certificates.context, _ALPN[port]), self.failed_handshakes)

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

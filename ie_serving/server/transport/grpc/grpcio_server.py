"""The services over `grpc.aio`: listens, routes, turns errors into status codes.

This transport has features that our own `http2/` lacks, and takes several times as long.

The library holds messages before they are complete, and replies until they are read, and counts
neither. The budget counts a complete message while it is processed, and the number of calls of the
process is bounded. `docs/guide/security.md` describes the remaining risk.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, contextmanager
from typing import Final, Protocol, cast

import grpc
from grpc import aio

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.access import Credentials
from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import WHOLE
from ie_serving.server.status import ShownError, cut, explain, in_header
from ie_serving.server.transport.grpc.services import (
    CallAdmission,
    RpcMethod,
    Services,
    StreamingMethod,
    Unary,
)

GRPC_CODE = {code: grpc.StatusCode[code.name] for code in Code}

GrpcioContext = aio.ServicerContext[bytes, bytes]

MOST_CALLS: Final = 4000
"""Calls of all connections at a time; more get RESOURCE_EXHAUSTED. As many as four connections of
the own HTTP/2 may have."""
MOST_STREAMS: Final = 1000
"""Calls of one connection at a time, as over the own HTTP/2; clients delay further ones."""
_MOST_CONNECTIONS: Final = "grpc.max_allowed_incoming_connections"
CALL: Final = 8 * 1024
"""Bytes of a call while it is processed, without its message."""


class Identity(Protocol):
    """The server's TLS material in PEM.

    Attributes:
        certificate: certificate of the server, and the intermediate ones up to the root.
        key: key of the server's certificate.
        client_ca: authorities that must have signed a client's certificate; empty: none is needed.
    """

    @property
    def certificate(self) -> bytes: ...  # noqa: D102
    @property
    def key(self) -> bytes: ...  # noqa: D102
    @property
    def client_ca(self) -> bytes: ...  # noqa: D102


class GrpcioServer:
    """Carries services over `grpc.aio`. See `lifecycle.PortServer`.

    Args of the constructor:
        services: the services to serve.
        max_message_bytes: limit of one message, in and out.
        max_idle_s: seconds after which a connection without a call ends; 0 sets no limit.
        max_connections: connections that one address of the port may have open; further ones are
            closed at once; 0 sets no limit.
        arguments: further channel arguments of the library.
        identity: returns the present TLS material, in any thread; None: plain connections.
        admission: chooses the method of a call; None: callers are not authenticated.
    """

    def __init__(
        self,
        services: Services,
        *,
        max_message_bytes: int,
        max_idle_s: float = 0.0,
        max_connections: int = 0,
        arguments: Mapping[str, int | str] | None = None,
        identity: Callable[[], Identity] | None = None,
        admission: CallAdmission | None = None,
    ) -> None:
        self._identity = identity
        options = {
            "grpc.max_send_message_length": max_message_bytes,
            "grpc.max_receive_message_length": max_message_bytes,
            # Every worker binds the address itself, beside the arbiter's reservation (`ports.py`).
            "grpc.so_reuseport": 1,
            "grpc.max_concurrent_streams": MOST_STREAMS,
            **({"grpc.max_connection_idle_ms": int(max_idle_s * 1000)} if max_idle_s else {}),
            **({_MOST_CONNECTIONS: max_connections} if max_connections else {}),
            **(arguments or {}),
        }
        self._server = aio.server(options=list(options.items()), maximum_concurrent_rpcs=MOST_CALLS)
        self._working = _CallsInFlight()
        for name, methods in services.items():
            handlers = {
                method: _handler(answer, self._working, _chooser(name, method, answer, admission))
                for method, answer in methods.items()
            }
            self._server.add_generic_rpc_handlers(
                [grpc.method_handlers_generic_handler(name, handlers)]
            )

    async def listen(self, bound: Sequence[socket.socket]) -> None:
        """See `lifecycle.PortServer`. The library binds its own sockets beside the arbiter's."""
        for address in map(spelled, bound):
            try:
                port = self._add_port(address)
            except RuntimeError as error:
                raise OSError(f"{address}: {error}") from error
            # Older versions of the library report a failure only by port 0.
            if port == 0:
                raise OSError(f"{address} cannot be bound")
        await self._server.start()

    def _add_port(self, address: str) -> int:
        if self._identity is None:
            return self._server.add_insecure_port(address)
        return self._server.add_secure_port(address, _credentials(self._identity))

    @property
    def in_flight(self) -> int:
        """See `lifecycle.PortServer`. Endless calls, such as a Watch, do not count."""
        return self._working.calls

    async def drain(self, timeout_s: float) -> int:
        """See `lifecycle.PortServer`."""
        stopping = asyncio.ensure_future(self._server.stop(timeout_s))
        await asyncio.wait((stopping,), timeout=timeout_s)
        cut = self.in_flight
        await stopping
        return cut


def _credentials(identity: Callable[[], Identity]) -> grpc.ServerCredentials:
    """Make credentials that use the present identity at each handshake."""

    def configuration() -> grpc.ServerCertificateConfiguration:
        own = identity()
        return grpc.ssl_server_certificate_configuration(
            [(own.key, own.certificate)], own.client_ca or None
        )

    return grpc.dynamic_ssl_server_credentials(
        configuration(), configuration, bool(identity().client_ca)
    )


def spelled(bound: socket.socket) -> str:
    """Return a socket's address in the form that gRPC's library wants."""
    # Brackets separate the colons of an IPv6 address from the one before the port.
    if bound.family == socket.AF_UNIX:
        return f"unix:{bound.getsockname()}"
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if bound.family == socket.AF_INET6 else f"{host}:{port}"


class _CallsInFlight:
    """The calls in flight.

    Attributes:
        calls: number of them.
    """

    def __init__(self) -> None:
        self.calls = 0

    @contextmanager
    def counting(self, payload: bytes) -> Iterator[None]:
        """Count a call, with its message, during the body. Raises: QueueFull, RequestTooLarge."""
        lease = BUDGET.lease(len(payload) + CALL)
        self.calls += 1
        try:
            yield
        finally:
            self.calls -= 1
            lease.release()


ChooseMethod = Callable[[GrpcioContext], RpcMethod]
"""Returns the method that answers a call. Raises: ServingError."""


def _chooser(
    service: str, name: str, method: RpcMethod, admission: CallAdmission | None
) -> ChooseMethod:
    if admission is None:
        return lambda _: method
    path = f"/{service}/{name}".encode()
    return lambda context: admission.method(path, _credentials_of(context))


def _credentials_of(context: GrpcioContext) -> Credentials:
    """Read a caller's credentials; the library gives bytes for binary metadata, else text."""
    given = context.invocation_metadata() or ()
    certificate = context.auth_context()
    names = (
        *certificate.get("x509_common_name", ()),
        *certificate.get("x509_subject_alternative_name", ()),
    )
    return Credentials(
        _joined(given, "authorization"),
        _joined(given, "x-api-key"),
        tuple(name.decode("utf-8", "replace") for name in names),
    )


def _joined(metadata: Iterable[tuple[str, str | bytes]], name: str) -> bytes | None:
    """Join repeated metadata as `header_blocks.py` does over the own HTTP/2."""
    values = [value for key, value in metadata if key == name]
    texts = [value.encode() if isinstance(value, str) else value for value in values]
    return b",".join(texts) if texts else None


def _handler(
    method: RpcMethod, working: _CallsInFlight, choose: ChooseMethod
) -> grpc.RpcMethodHandler[bytes, bytes]:
    if isinstance(method, StreamingMethod):
        return grpc.stream_stream_rpc_method_handler(_converse(choose))
    return grpc.unary_unary_rpc_method_handler(_unary(choose, working))


def _unary(
    choose: ChooseMethod, working: _CallsInFlight
) -> Callable[[bytes, GrpcioContext], Awaitable[bytes]]:
    async def call(payload: bytes, context: GrpcioContext) -> bytes:
        """Answer one message with one. An error becomes the status, and ends the call."""
        try:
            with working.counting(payload):
                answer = cast(Unary, choose(context))
                return await answer(payload, context)
        except Exception as error:
            told = explain(error)
        await _abort(context, told)
        raise AssertionError("abort always raises")

    return call


def _converse(
    choose: ChooseMethod,
) -> Callable[[AsyncIterator[bytes], GrpcioContext], AsyncIterator[bytes]]:
    async def call(requests: AsyncIterator[bytes], context: GrpcioContext) -> AsyncIterator[bytes]:
        """Pass messages on in both directions. An error becomes the status, and ends the call."""
        try:
            method = cast(StreamingMethod, choose(context))
            # An abandoned service generator must clean up now, not at garbage collection.
            async with aclosing(method.converse(requests, context)) as replies:
                async for reply in replies:
                    yield reply
        except Exception as error:
            await _abort(context, explain(error))

    return call


async def _abort(context: GrpcioContext, told: ShownError) -> None:
    more = ((WHOLE, in_header(told.whole)),) if told.whole != told.text else ()
    before = context.trailing_metadata() or ()  # such as the id of the request
    await context.abort(GRPC_CODE[told.code], cut(told.text), (*before, *more))

"""The services over `grpc.aio`: listen, route, turn errors into status codes. Nothing else.

The transport for whoever needs what `http2/` does not have; several times as costly per call.

The library holds messages before they are complete, and replies until they are read, and counts
neither. What it gives us is counted in the budget while it is worked on, and the calls of the
process are bounded in number. `docs/guide/security.md` says what that leaves open.
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
from ie_serving.server.status import cut, explain
from ie_serving.server.transport.grpc.services import (
    Admission,
    Answer,
    Method,
    Services,
    Streaming,
)

GRPC_CODE = {code: grpc.StatusCode[code.name] for code in Code}

Context = aio.ServicerContext[bytes, bytes]

MOST_CALLS: Final = 4000
"""Calls of all connections at a time; one more gets RESOURCE_EXHAUSTED. As many as four connections
of the own HTTP/2 may have."""
MOST_STREAMS: Final = 1000
"""Calls of one connection at a time, as over the own HTTP/2; clients hold further ones back."""
_MOST_CONNECTIONS: Final = "grpc.max_allowed_incoming_connections"
CALL: Final = 8 * 1024
"""Bytes that a call itself takes while it is worked on."""


class Identity(Protocol):
    """What the server proves itself with, and whom it believes; PEM.

    Attributes:
        certificate: of the server, and of those between it and the root.
        key: of the first of them.
        client_ca: of whom a client's certificate must be; empty: clients need none.
    """

    @property
    def certificate(self) -> bytes: ...  # noqa: D102
    @property
    def key(self) -> bytes: ...  # noqa: D102
    @property
    def client_ca(self) -> bytes: ...  # noqa: D102


class GrpcioServer:
    """Carries services over `grpc.aio`. See `lifecycle.Listener`.

    Args of the constructor:
        services: what is served.
        max_message_bytes: limit of one message, in and out.
        max_idle_s: seconds after which a connection without a call ends; 0 sets no limit.
        max_connections: that one address of the port may have open; further ones are closed at
            once; 0 sets no limit.
        arguments: further channel arguments of the library.
        identity: gives the present one, in any thread; None: connections are plain.
        admission: chooses what answers; None: nobody is asked who they are.
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
        admission: Admission | None = None,
    ) -> None:
        self._identity = identity
        options = {
            "grpc.max_send_message_length": max_message_bytes,
            "grpc.max_receive_message_length": max_message_bytes,
            # Every worker binds the address anew, beside the arbiter's reservation (`ports.py`).
            "grpc.so_reuseport": 1,
            "grpc.max_concurrent_streams": MOST_STREAMS,
            **({"grpc.max_connection_idle_ms": int(max_idle_s * 1000)} if max_idle_s else {}),
            **({_MOST_CONNECTIONS: max_connections} if max_connections else {}),
            **(arguments or {}),
        }
        self._server = aio.server(options=list(options.items()), maximum_concurrent_rpcs=MOST_CALLS)
        self._working = _Working()
        for name, methods in services.items():
            handlers = {
                method: _handler(answer, self._working, _chooser(name, method, answer, admission))
                for method, answer in methods.items()
            }
            self._server.add_generic_rpc_handlers(
                [grpc.method_handlers_generic_handler(name, handlers)]
            )

    async def listen(self, bound: Sequence[socket.socket]) -> None:
        """See `lifecycle.Listener`. The library binds sockets of its own beside those held."""
        for address in map(spelled, bound):
            try:
                port = self._add_port(address)
            except RuntimeError as error:
                raise OSError(f"{address}: {error}") from error
            # Older versions of the library say nothing else.
            if port == 0:
                raise OSError(f"{address} cannot be bound")
        await self._server.start()

    def _add_port(self, address: str) -> int:
        if self._identity is None:
            return self._server.add_insecure_port(address)
        return self._server.add_secure_port(address, _credentials(self._identity))

    @property
    def in_flight(self) -> int:
        """See `lifecycle.Listener`. Conversations, as a Watch, have no end and are not counted."""
        return self._working.calls

    async def drain(self, timeout_s: float) -> int:
        """See `lifecycle.Listener`."""
        stopping = asyncio.ensure_future(self._server.stop(timeout_s))
        await asyncio.wait((stopping,), timeout=timeout_s)
        cut = self.in_flight
        await stopping
        return cut


def _credentials(identity: Callable[[], Identity]) -> grpc.ServerCredentials:
    """Make credentials that ask for the present identity at each handshake."""

    def configuration() -> grpc.ServerCertificateConfiguration:
        own = identity()
        return grpc.ssl_server_certificate_configuration(
            [(own.key, own.certificate)], own.client_ca or None
        )

    return grpc.dynamic_ssl_server_credentials(
        configuration(), configuration, bool(identity().client_ca)
    )


def spelled(bound: socket.socket) -> str:
    """Give a socket's address as gRPC's library spells it."""
    # Brackets tell the colons of an IPv6 address from the one before the port.
    if bound.family == socket.AF_UNIX:
        return f"unix:{bound.getsockname()}"
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if bound.family == socket.AF_INET6 else f"{host}:{port}"


class _Working:
    """The calls that are worked on.

    Attributes:
        calls: how many there are.
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


Choose = Callable[[Context], Method]
"""Gives what answers a call. Raises: ServingError."""


def _chooser(service: str, name: str, method: Method, admission: Admission | None) -> Choose:
    if admission is None:
        return lambda _: method
    path = f"/{service}/{name}".encode()
    return lambda context: admission.method(path, _credentials_of(context))


def _credentials_of(context: Context) -> Credentials:
    """Read what the caller says of itself; the library gives texts, but of binary metadata."""
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
    """As `request.py` does over the own HTTP/2."""
    values = [value for key, value in metadata if key == name]
    texts = [value.encode() if isinstance(value, str) else value for value in values]
    return b",".join(texts) if texts else None


def _handler(
    method: Method, working: _Working, choose: Choose
) -> grpc.RpcMethodHandler[bytes, bytes]:
    if isinstance(method, Streaming):
        return grpc.stream_stream_rpc_method_handler(_converse(choose))
    return grpc.unary_unary_rpc_method_handler(_unary(choose, working))


def _unary(choose: Choose, working: _Working) -> Callable[[bytes, Context], Awaitable[bytes]]:
    async def call(payload: bytes, context: Context) -> bytes:
        """Answer one message with one. An error becomes the status, and ends the call."""
        try:
            with working.counting(payload):
                answer = cast(Answer, choose(context))
                return await answer(payload, context)
        except Exception as error:
            code, text = explain(error)
        await context.abort(GRPC_CODE[code], cut(text))
        raise AssertionError("abort returns to nobody")

    return call


def _converse(choose: Choose) -> Callable[[AsyncIterator[bytes], Context], AsyncIterator[bytes]]:
    async def call(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        """Pass messages on in both directions. An error becomes the status, and ends the call."""
        try:
            method = cast(Streaming, choose(context))
            # A service that is left midway must clean up now, not when it is collected.
            async with aclosing(method.converse(requests, context)) as replies:
                async for reply in replies:
                    yield reply
        except Exception as error:
            code, text = explain(error)
            await context.abort(GRPC_CODE[code], cut(text))

    return call

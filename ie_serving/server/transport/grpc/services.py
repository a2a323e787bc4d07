"""The interface between services, which answer RPCs, and the transports that carry them.

A method takes the request's bytes and a `CallContext`, returns the reply's bytes, and raises errors
of `core/values/errors.py`, which the transport turns into its status. Services know no transport:
the same ones run on `http2/` and on `grpcio_server.py`, and pass the same tests. If a call's client
is gone, or its deadline has passed, the call is cancelled as an asyncio task.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from ie_serving.core.values.access import Credentials

NO_SUCH_METHOD = "Method not found!"
"""Reply of gRPC's own servers to a call of an unknown method."""


class CallContext(Protocol):
    """Facts about one call that its transport knows."""

    def time_remaining(self) -> float | None:
        """Seconds until the caller's deadline; None if there is none."""

    def invocation_metadata(self) -> Any:  # noqa: ANN401  pairs of key and value
        """Metadata that the caller sent, as pairs."""


Buffer: TypeAlias = bytes | memoryview
"""A message; not changed while anything refers to it."""

Unary = Callable[[Buffer, CallContext], Awaitable[bytes]]
"""Answers one unary call."""

Converse = Callable[[AsyncIterator[Buffer], CallContext], AsyncGenerator[bytes, None]]
"""Answers a call with many requests, many replies, or both. The client has to wait while the method
does not ask for the next request."""


@dataclass(frozen=True, slots=True)
class StreamingMethod:
    """A method that is not unary.

    Attributes:
        converse: turns the stream of requests into that of replies.
    """

    converse: Converse


RpcMethod: TypeAlias = Unary | StreamingMethod
"""The function, or `StreamingMethod`, that answers the calls of a method."""

Services = Mapping[str, Mapping[str, RpcMethod]]
"""Methods by full service name and method name."""


def by_path(services: Services) -> dict[bytes, RpcMethod]:
    """Return every method by its path, as in the headers of a call."""
    return {
        f"/{service}/{name}".encode(): method
        for service, methods in services.items()
        for name, method in methods.items()
    }


class CallAdmission(Protocol):
    """Chooses the method of a call by its caller.

    Attributes:
        decided: cache of results of `method` by its arguments; it may hold other entries, too.
    """

    decided: Mapping[Any, Any]

    def method(self, path: bytes, credentials: Credentials) -> RpcMethod:
        """Return the method that answers a call.

        Raises:
            ServingError: the caller is unknown, or may not call the method.
        """

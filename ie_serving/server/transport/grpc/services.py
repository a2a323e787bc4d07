"""The seam between what answers an RPC and the transport that carries it.

An answerer takes the request's bytes and a `CallContext`, returns the reply's bytes, and raises
errors of `errors.py`; the transport turns those into its status. Neither this nor the services
know a transport: the same services run on `http2/` and on `grpcio_server.py`, and pass the same
tests. A call whose client is gone, or whose deadline has passed, is cancelled as an asyncio task.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from ie_serving.core.values.access import Credentials

NO_SUCH_METHOD = "Method not found!"
"""What gRPC's own servers answer to a call of an unknown method."""


class CallContext(Protocol):
    """What a transport tells of one call."""

    def time_remaining(self) -> float | None:
        """Seconds until the caller's deadline; None when there is none."""

    def invocation_metadata(self) -> Any:  # noqa: ANN401  pairs of key and value
        """Metadata that the caller sent, as pairs."""


Buffer: TypeAlias = bytes | memoryview
"""A message; not changed while anything refers to it."""

Answer = Callable[[Buffer, CallContext], Awaitable[bytes]]
"""Answers one unary call."""

Converse = Callable[[AsyncIterator[Buffer], CallContext], AsyncGenerator[bytes, None]]
"""Answers a call of many requests, many replies, or both. As long as it does not ask for the next
request, the client is held back."""


@dataclass(frozen=True, slots=True)
class Streaming:
    """A method that is not unary.

    Attributes:
        converse: from the stream of requests to that of replies.
    """

    converse: Converse


Method: TypeAlias = Answer | Streaming
"""What answers the calls of a method."""

Services = Mapping[str, Mapping[str, Method]]
"""Full service name to method name to what answers it."""


def by_path(services: Services) -> dict[bytes, Method]:
    """Give every method by its path, as it stands in the headers of a call."""
    return {
        f"/{service}/{name}".encode(): method
        for service, methods in services.items()
        for name, method in methods.items()
    }


class Admission(Protocol):
    """Chooses what answers a call by who calls.

    Attributes:
        decided: what `method` gave, and gives again, by its arguments; whatever else is in it.
    """

    decided: Mapping[Any, Any]

    def method(self, path: bytes, credentials: Credentials) -> Method:
        """Give what answers a call of a method that is served.

        Raises:
            ServingError: the caller may not ask that, or is nobody who is known.
        """

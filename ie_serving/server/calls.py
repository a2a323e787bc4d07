"""The seam between what answers an RPC and the transport that carries it.

An answerer takes the request's bytes and a `CallContext`, returns the reply's bytes, and raises
errors of `errors.py`; the transport turns those into its status. Neither this nor the services
know `grpc`, so that another HTTP/2 front can be put beside `tfs_grpc.py` and pass the same tests.
A call whose client is gone, or whose deadline has passed, is cancelled as an asyncio task.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol


class CallContext(Protocol):
    """What a transport tells of one call."""

    def time_remaining(self) -> float | None:
        """Seconds until the caller's deadline; None when there is none."""

    def invocation_metadata(self) -> Any:  # noqa: ANN401  pairs of key and value
        """Metadata that the caller sent, as pairs."""


Answer = Callable[[bytes, CallContext], Awaitable[bytes]]
"""Answers one unary call."""

Services = Mapping[str, Mapping[str, Answer]]
"""Full service name to method name to answer."""

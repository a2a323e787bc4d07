"""What the transports know of who asks, for models that are told."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from ie_serving.core.callers import Caller
from ie_serving.server.transport.grpc.services import CallContext
from ie_serving.server.transport.http1.messages import RequestHead


def rest_caller(limit_s: float | None, head: RequestHead | None) -> Caller:
    """Tell it of a REST request; there is no head where a version is warmed up."""
    if head is None:
        return Caller()
    # REST has no deadline of the client's: the server's limit is all that is known.
    return Caller(_Headers(head.fields.items), limit_s)


def grpc_caller(limit_s: float | None, call: CallContext | None) -> Caller:
    """Tell it of a gRPC call."""
    if call is None:
        return Caller()
    limits = [each for each in (limit_s, call.time_remaining()) if each is not None]
    return Caller(_Headers(call.invocation_metadata), min(limits, default=None))


class _Headers(Mapping[str, str]):
    """Headers by name, read when the first is asked for: most models ask for none."""

    __slots__ = ("_found", "_pairs")

    def __init__(self, pairs: "Callable[[], Iterable[tuple[str | bytes, str | bytes]]]") -> None:
        self._pairs = pairs
        self._found: dict[str, str] | None = None

    def __getitem__(self, name: str) -> str:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def _read(self) -> dict[str, str]:
        if self._found is None:
            self._found = named(self._pairs())
        return self._found


def named(pairs: Iterable[tuple[str | bytes, str | bytes]]) -> dict[str, str]:
    """Give headers, or metadata, by name in lower case."""
    return {_text(key).lower(): _text(value) for key, value in pairs}


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value

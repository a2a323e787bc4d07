"""What the transports know of who asks, for models that are told."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from ie_serving.core.values.callers import Caller
from ie_serving.server.transport.grpc.services import CallContext
from ie_serving.server.transport.http1.messages import RequestHead


def rest_caller(limit_s: float | None, head: RequestHead | None) -> Caller:
    """Tell it of a REST request; there is no head where a version is warmed up."""
    if head is None:
        return Caller()
    # REST has no deadline of the client's: the server's limit is all that is known.
    return Caller(_Headers(head.fields.items), limit_s)


def grpc_callers(limit_s: float | None) -> Callable[[CallContext | None], Caller]:
    """Give what tells it of gRPC calls; there is none where a version is warmed up."""
    return _GrpcCaller if limit_s is None else partial(_limited, limit_s)


def _limited(limit_s: float, call: CallContext | None) -> Caller:
    if call is None:
        return Caller()
    caller = _GrpcCaller(call)
    left_s = caller.remaining_s
    return Caller(caller.headers, limit_s if left_s is None else min(limit_s, left_s))


class _GrpcCaller(Caller):
    """Reads the call when it is asked: most models ask for nothing."""

    __slots__ = ("_call",)
    _call: CallContext | None

    def __init__(self, call: CallContext | None) -> None:
        object.__setattr__(self, "_call", call)

    @property
    def headers(self) -> Mapping[str, str]:
        return _Headers(self._call.invocation_metadata if self._call else tuple)

    @property
    def remaining_s(self) -> float | None:
        return self._call.time_remaining() if self._call else None

    def deadline(self, since: float) -> float | None:
        left_s = self.remaining_s  # of now
        return None if left_s is None else time.time() + left_s


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

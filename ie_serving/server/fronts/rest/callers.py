"""Makes `Caller` objects from requests, for models that ask for their callers."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from ie_serving.core.values.requests import Caller
from ie_serving.server.transport.grpc.services import CallContext
from ie_serving.server.transport.http1.messages import RequestHead


def rest_caller(limit_s: float | None, head: RequestHead | None) -> Caller:
    """Return the caller of a REST request; a warm-up has no request and no head."""
    if head is None:
        return Caller()
    # REST clients send no deadline, so the server's own limit is the only one.
    return Caller(_Headers(head.fields.items), limit_s)


def grpc_callers(limit_s: float | None) -> Callable[[CallContext | None], Caller]:
    """Return a function that makes the caller of a gRPC call; a warm-up has no call."""
    return _GrpcCaller if limit_s is None else partial(_limited, limit_s)


def _limited(limit_s: float, call: CallContext | None) -> Caller:
    if call is None:
        return Caller()
    caller = _GrpcCaller(call)
    left_s = caller.remaining_s
    return Caller(caller.headers, limit_s if left_s is None else min(limit_s, left_s))


class _GrpcCaller(Caller):
    """Reads the call's metadata on demand: most models read none."""

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
        left_s = self.remaining_s  # at this moment
        return None if left_s is None else time.time() + left_s


class _Headers(Mapping[str, str]):
    """Headers by name, parsed at the first access: most models read none."""

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
    """Return headers, or metadata, by lower-case name."""
    return {_text(key).lower(): _text(value) for key, value in pairs}


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value

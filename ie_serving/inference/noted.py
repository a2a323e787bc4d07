"""The data plane with logging or tracing on: notes model, version and times of each request."""

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from ie_serving.core.values.callers import Caller
from ie_serving.inference import summary
from ie_serving.inference.bound import Bound, NotedBound
from ie_serving.inference.interface import Api, Encode, Interface, Outputs
from ie_serving.inference.large_reply import Read, Unencoded
from ie_serving.inference.plane import Asked, DataPlane
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.request.entry import CURRENT, LONGEST, Entry, current, now

T = TypeVar("T")


def plane_of(*, noted: bool) -> type[DataPlane]:
    """Return the data plane class: the one that notes facts of requests if any are logged."""
    return NotedPlane if noted else DataPlane


def handing_on(interface: Interface[T], *, traced: bool) -> Interface[T]:
    """Give models that ask for callers the trace context of the request's own span."""
    if not traced:
        return interface

    def caller(given: Any) -> Caller:  # noqa: ANN401  as `Interface.caller`
        found, entry = interface.caller(given), current()
        if entry is None or entry.trace is None:
            return found
        # Models look headers up by name: the client's own headers are not parsed before that.
        return Caller(ChainMap(entry.trace.headers, _mutable(found)), found.remaining_s)

    return replace(interface, caller=caller)


def _mutable(caller: Caller) -> MutableMapping[str, str]:
    """Type a caller's headers as `ChainMap` wants them; it changes only its first mapping."""
    return cast(MutableMapping[str, str], caller.headers)


class NotedPlane(DataPlane):
    """Answers as `DataPlane` does, and notes facts of each request in its log entry."""

    def refused(
        self,
        model: str,
        error: BaseException,
        interface: Interface[Any] | None = None,
        api: Api | None = None,
        version: int | None = None,
    ) -> None:
        """See `DataPlane`. The log line names model and version, also if they do not exist."""
        if model and (entry := current()):
            entry.answers = model[:LONGEST], version
        super().refused(model, error, interface, api, version)

    @contextmanager
    def _measured(
        self, interface: Interface[Any], api: Api, model: str, began: float
    ) -> Iterator[Asked]:
        with super()._measured(interface, api, model, began) as asked:
            yield asked
        if entry := current():
            entry.answers = model[:LONGEST], asked.version

    def _kind(self) -> type[Bound[Any]]:
        return TimedNotedBound if summary.is_wanted() else TimedBound


class TimedBound(Bound[T]):
    """A `Bound` whose requests note their times."""

    __slots__ = ()

    def _encoders_for(self, outputs: tuple[str, ...]) -> Mapping[object, Read[T]]:
        return _Timed(super()._encoders_for(outputs), self._servable)


class TimedNotedBound(TimedBound[T], NotedBound[T]):
    """A `TimedBound` whose requests are logged at DEBUG as well."""

    __slots__ = ()


class _Timed(Mapping[object, Read[T]]):
    """Maps the form of a reply to its reader, and notes the answering version in the log entry.

    A request looks its reader up on the event loop, after decoding its inputs: outputs may be read
    in any thread, which has no access to the request's entry.
    """

    def __init__(self, encoders: Mapping[object, Read[T]], servable: Servable) -> None:
        self._encoders = encoders
        self._answers = servable.name, servable.version

    def __getitem__(self, form: object) -> Read[T]:
        read = self._encoders[form]
        entry = CURRENT.get()  # as `current`, without the call
        if entry is None or entry.ended:
            return read
        entry.answers, entry.started = self._answers, now()
        return partial(_read, read, entry)

    def __iter__(self) -> Iterator[object]:
        return iter(self._encoders)

    def __len__(self) -> int:
        return len(self._encoders)


def _read(read: Read[T], entry: Entry, outputs: Outputs) -> T | Unencoded[T]:
    entry.inferred = now()
    reply = read(outputs)
    entry.encoded = now()
    if type(reply) is Unencoded:
        return Unencoded(partial(_encode, reply.encode, entry), reply.outputs)
    return reply


# For a large reply `_read` has noted the time of the copy; encoding follows later, in a thread.
def _encode(encode: Encode[T], entry: Entry, outputs: Outputs) -> T:
    reply = encode(outputs)
    entry.encoded = now()
    return reply

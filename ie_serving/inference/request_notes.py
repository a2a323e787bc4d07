"""What the data plane notes of a request for its observers: model, version and times.

Without an access log, traces and `Server-Timing` no request has an entry, and nothing is noted.
"""

from collections import ChainMap
from collections.abc import MutableMapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from ie_serving.core.values.requests import Caller
from ie_serving.core.values.tensors import Outputs
from ie_serving.inference.interface import Encode, Interface, ReadOutputs, UnencodedOutputs
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.request.entry import LONGEST, RequestEntry, current, now

T = TypeVar("T")


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


def observed(read: ReadOutputs[T], servable: Servable) -> ReadOutputs[T]:
    """Note the request's times in its entry: now its inputs are decoded, and later those of `read`.

    Called on the event loop: outputs may be read in any thread, which has no access to the entry.
    """
    entry = current()
    if entry is None:
        return read
    entry.answered_by, entry.started = (servable.name, servable.version), now()
    return partial(_read, read, entry)


def note_model(model: str, version: int | None) -> None:
    """Note the model that a request asks for, also one that does not exist, and its version."""
    if model and (entry := current()):
        entry.answered_by = model[:LONGEST], version


def _read(read: ReadOutputs[T], entry: RequestEntry, outputs: Outputs) -> T | UnencodedOutputs[T]:
    entry.inferred = now()
    reply = read(outputs)
    entry.encoded = now()
    if type(reply) is UnencodedOutputs:
        return UnencodedOutputs(partial(_encode, reply.encode, entry), reply.outputs)
    return reply


# `_read` has noted the time of a large reply's copy; encoding follows later, in a thread.
def _encode(encode: Encode[T], entry: RequestEntry, outputs: Outputs) -> T:
    reply = encode(outputs)
    entry.encoded = now()
    return reply

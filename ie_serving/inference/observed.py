"""What the data plane tells the observers of a request: model, version and times.

Without an access log, traces and `Server-Timing` no request has an entry, and nothing is noted.
"""

from collections import ChainMap
from collections.abc import MutableMapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from ie_serving.core.values.requests import Caller
from ie_serving.inference.interface import Encode, Interface, Outputs
from ie_serving.inference.large_reply import Read, Unencoded
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.request.entry import LONGEST, Entry, current, now

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


def observed(read: Read[T], servable: Servable) -> Read[T]:
    """Note the request's times in its entry: now its inputs are decoded, and later those of `read`.

    Called on the event loop: outputs may be read in any thread, which has no access to the entry.
    """
    entry = current()
    if entry is None:
        return read
    entry.answers, entry.started = (servable.name, servable.version), now()
    return partial(_read, read, entry)


def note_answer(model: str, version: int | None) -> None:
    """Note the model that a request asks for, also one that does not exist, and its version."""
    if model and (entry := current()):
        entry.answers = model[:LONGEST], version


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

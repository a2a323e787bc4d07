"""What the data plane notes of a request, for its observers and for the DEBUG log.

Observers get model, version and times. Without an access log, traces and `Server-Timing` no request
has an entry, and nothing is noted.

The DEBUG log gets a line for each request with its model, and names, dtypes and shapes; never a
value. Only tensor names that the model has are written. Other names are counted: a client that
mistakes the format sends data in place of names, perhaps a megabyte of it.

Whether DEBUG is on is checked once for each signature, so that requests cost nothing more while it
is off.
"""

import logging
from collections import ChainMap
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from ie_serving.core.values.codes import Code
from ie_serving.core.values.requests import Caller
from ie_serving.core.values.tensors import Arrays, Outputs, Signature
from ie_serving.inference.interface import Encode, Interface, ReadOutputs, UnencodedOutputs
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.request.entry import LONGEST, RequestEntry, current, now

log = logging.getLogger(__name__)

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


def note_answer(model: str, version: int | None) -> None:
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


LONGEST_NAME = 256
"""Most characters of a model's name in a log line: the name is the client's, and may be of no
model. File systems allow names of 255."""


def is_wanted() -> bool:
    """Return whether lines at DEBUG are written."""
    return log.isEnabledFor(logging.DEBUG)


def note_tensors(
    servable: Servable,
    signature: Signature,
    entrypoint: str,
    inputs: Arrays,
    output_filter: Sequence[str],
) -> None:
    """Write the line of a Predict."""
    forms = {name: f": {array.dtype}{list(array.shape)}" for name, array in inputs.items()}
    log.debug(
        Event(
            "request",
            entrypoint=entrypoint,
            model=servable.name,
            version=servable.version,
            signature=signature.name,
            inputs=_known_names(forms, signature.inputs),
            outputs=_known_names(dict.fromkeys(output_filter, ""), signature.outputs) or "all",
        )
    )


def note_examples(servable: Servable, signature: str, rows: int) -> None:
    """Write the line of a Classify, a Regress, or a part of a MultiInference."""
    if is_wanted():
        name, version = servable.name, servable.version
        facts = Event(
            "request of Examples", model=name, version=version, signature=signature, examples=rows
        )
        log.debug(facts)


def note_refusal(model: str, code: Code) -> None:
    """Write the line of a failed request without the error's text, which may quote its values."""
    if is_wanted():
        log.debug(Event("request failed", model=model[:LONGEST_NAME], code=code.name))


def _known_names(given: Mapping[str, str], known: Collection[str]) -> str:
    """List the known names, each with its text, and the number of unknown ones."""
    found = [f"{name}{given[name]}" for name in known if name in given]
    others = len(given) - len(found)
    return ", ".join([*found, *([f"{others} unknown"] if others else [])])

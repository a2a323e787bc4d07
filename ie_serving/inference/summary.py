"""A line at DEBUG for each request: whom it asks, and names, dtypes and shapes; never a value.

Of tensors only names that the model has are written. Others are counted: a client that mistakes the
format sends data in their place, and may send a megabyte of it.

Whether lines are wanted is asked once for each signature, so that requests cost nothing more where
they are not.
"""

import logging
from collections.abc import Collection, Mapping, Sequence

from ie_serving.core.values.codes import Code
from ie_serving.core.values.tensors import Array, Signature
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

LONGEST_NAME = 256
"""Characters of a model's name in a line: it is what the client sent, and there may be no such
model. File systems allow names of 255."""


def is_wanted() -> bool:
    """Tell whether lines at DEBUG are written."""
    return log.isEnabledFor(logging.DEBUG)


def note_tensors(
    servable: Servable,
    signature: Signature,
    entrypoint: str,
    inputs: Mapping[str, Array],
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
            inputs=_known(forms, signature.inputs),
            outputs=_known(dict.fromkeys(output_filter, ""), signature.outputs) or "all",
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
    """Write the line of a request that failed; its text may hold values, and is the client's."""
    if is_wanted():
        log.debug(Event("request failed", model=model[:LONGEST_NAME], code=code.name))


def _known(given: Mapping[str, str], known: Collection[str]) -> str:
    """Write the names that are known, each with its text, and how many others there are."""
    found = [f"{name}{given[name]}" for name in known if name in given]
    others = len(given) - len(found)
    return ", ".join([*found, *([f"{others} unknown"] if others else [])])

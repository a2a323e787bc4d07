"""The lines of requests in the DEBUG log: model, and names, dtypes and shapes; never a value.

Only tensor names that the model has are written. Other names are counted: a client that mistakes
the format sends data in place of names, perhaps a megabyte of it.

Whether DEBUG is on is checked once for each signature, so that requests cost nothing more while it
is off.
"""

import logging
from collections.abc import Collection, Mapping, Sequence

from ie_serving.core.values.codes import Code
from ie_serving.core.values.tensors import Arrays, Signature
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

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

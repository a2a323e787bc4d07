"""A line at DEBUG for each request: whom it asks, and names, dtypes and shapes; never a value.

Whether lines are wanted is asked once for each signature, so that requests cost nothing more where
they are not.
"""

import logging
from collections.abc import Mapping, Sequence

from ie_serving.core.codes import Code
from ie_serving.core.tensors import Array
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.logs import Event

log = logging.getLogger(__name__)


def is_wanted() -> bool:
    """Tell whether lines at DEBUG are written."""
    return log.isEnabledFor(logging.DEBUG)


def note_tensors(
    servable: Servable,
    signature: str,
    entrypoint: str,
    inputs: Mapping[str, Array],
    output_filter: Sequence[str],
) -> None:
    """Write the line of a Predict."""
    log.debug(
        Event(
            "request",
            entrypoint=entrypoint,
            model=servable.name,
            version=servable.version,
            signature=signature,
            inputs=", ".join(f"{name}: {_summary(array)}" for name, array in inputs.items()),
            outputs=",".join(output_filter) or "all",
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
        log.debug(Event("request failed", model=model, code=code.name))


def _summary(array: Array) -> str:
    return f"{array.dtype}{list(array.shape)}"

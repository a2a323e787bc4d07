"""Tells, before a version serves, how its signatures break clients of the one that serves now.

By its own setting a model's incompatible version is held back, or said in the log and served, as
TensorFlow Serving does without a word.
"""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ie_serving.core.values.errors import HeldBack
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import Signature, Specs, TensorSpec
from ie_serving.models.configuration import REFUSE
from ie_serving.models.served import ServedModels
from ie_serving.models.stream import ModelStream
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

MOST_NAMED: Final = 3
"""Changes that a text names; a new model under an old name has dozens."""


class SignatureChanges:
    """Compares a version with the one that answers requests without a version now.

    Of a model on demand that is not in memory, this is the version that did so before.

    Args of the constructor:
        models: the models that serve.
    """

    def __init__(self, models: ServedModels) -> None:
        self._models = models

    async def __call__(self, servable: Servable, directory: Path) -> None:
        """Compare. Raises: HeldBack, where the model's setting is `refuse`."""
        served = self._models.entries.get(servable.name)
        if served is None or (before := _answers(served.stream)) is None:
            return
        number, signatures = before
        is_renewed = number == servable.version and served.stream.is_renewing
        if number >= servable.version and not is_renewed:  # it replaces nothing for them
            return
        found = list(incompatible(signatures, servable.signatures))
        if not found:
            return
        rest = f", and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        changes = f"{'; '.join(found[:MOST_NAMED])}{rest}"
        if served.config.signature_changes == REFUSE:
            why = f"clients of version {number} would fail: {changes}"
            if served.config.repository:
                raise HeldBack(
                    f"{why}; set signature_changes to allow in {served.config.base_path}/model.json"
                    ", or serve it under another name"
                )
            raise HeldBack(
                why,
                Hint("; set {model.signature_changes} to allow, or serve it under another name"),
            )
        log.warning(
            Event(
                "signatures have changed",
                model=servable.name,
                version=servable.version,
                before=number,
                changes=changes,
            )
        )


def _answers(stream: ModelStream) -> tuple[int, Mapping[str, Signature]] | None:
    default = stream.default
    return (default.version, default.signatures) if default else stream.answered


def incompatible(before: Mapping[str, Signature], after: Mapping[str, Signature]) -> Iterator[str]:
    """Yield what a client of `before` cannot rely on in `after`."""
    for name, old in before.items():
        if old.left_out:  # no client could call it
            continue
        new = after.get(name)
        if new is None or new.left_out:
            yield f'signature "{name}" is gone'
            continue
        for change in _of_signature(old, new):
            yield f'signature "{name}": {change}'


def _of_signature(old: Signature, new: Signature) -> Iterator[str]:
    yield from _of_each("input", old.inputs, new.inputs)
    yield from _of_each("output", old.outputs, new.outputs)
    for name, spec in new.inputs.items():
        if name not in old.inputs and not spec.optional:
            yield f"input {spec} is new, and has to be given"


def _of_each(what: str, old: Specs, new: Specs) -> Iterator[str]:
    for name, spec in old.items():
        other = new.get(name)
        if other is None:
            yield f'{what} "{name}" is gone'
        elif other.dtype is not spec.dtype or not _takes(spec, other, what):
            yield f"{what} {spec} is now {other}"


def _takes(old: TensorSpec, new: TensorSpec, what: str) -> bool:
    """Tell whether shapes that fitted still do; of an output the rank alone counts."""
    if new.shape is None or old.shape is None:
        return new.shape is None or what == "output"
    if len(old.shape) != len(new.shape):
        return False
    pairs = zip(old.shape, new.shape, strict=True)
    return what == "output" or all(size in (-1, before) for before, size in pairs)

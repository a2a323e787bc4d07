"""Finds the changes between the signatures of two versions that break clients. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from ie_serving.core.values.tensors import Signature, Specs, TensorSpec

MOST_NAMED: Final = 3
"""Changes that a summary names; a new model under an old name has dozens."""


def summary(before: Mapping[str, Signature], after: Mapping[str, Signature]) -> str:
    """Name the first breaking changes, and count the others; empty if there are none."""
    found = list(breaking_changes(before, after))
    rest = f", and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return f"{'; '.join(found[:MOST_NAMED])}{rest}"


def breaking_changes(
    before: Mapping[str, Signature], after: Mapping[str, Signature]
) -> Iterator[str]:
    """Yield each change by which requests that `before` answers fail, or get other outputs.

    Args:
        before: signatures of the version that clients use, by name.
        after: signatures of the version that takes its place.
    """
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

"""Checks by their specs whether tensors of one step fit an input of another."""

from collections.abc import Sequence
from dataclasses import replace

from ie_serving.core.values.fit import castable
from ie_serving.core.values.tensors import Specs, TensorSpec
from ie_serving.engines.steps.declaration import StepShape


def unfit(given: TensorSpec, wanted: TensorSpec) -> str:
    """Say why a tensor of `given` never fits `wanted`; empty where it may."""
    if given.untyped or wanted.untyped:
        return ""
    if given.dtype.numpy != wanted.dtype.numpy and not castable(
        given.dtype.numpy, wanted.dtype.numpy
    ):
        return f"and {wanted} is expected: the dtypes do not go together"
    if not _shapes_may_fit(given.shape, wanted.shape):
        return f"and {wanted} is expected: the shapes do not go together"
    return ""


# One that is shorter may have trailing dimensions added where 1 is declared; see
# `core/values/fit.py`.
def _shapes_may_fit(given: StepShape, wanted: StepShape) -> bool:
    if given is None or wanted is None:
        return True
    if len(given) > len(wanted):
        return False
    ones = (1,) * (len(wanted) - len(given))
    if given and wanted[len(given) :] != ones:
        return False
    padded = given + ones
    return all(-1 in pair or pair[0] == pair[1] for pair in zip(padded, wanted, strict=True))


def united(known: TensorSpec, wanted: TensorSpec, *, is_declared: bool) -> TensorSpec | str:
    """Give the spec of an input that several steps take; or the reason why none fits all.

    Args:
        known: its spec so far.
        wanted: the spec of one more step.
        is_declared: the graph declares `known`, so it stays.
    """
    wrong = unfit(known, wanted)
    # The spec without trailing dimensions of size 1 fits both, in any order of the steps.
    if wrong and (is_declared or unfit(wanted, known)):
        return wrong
    if is_declared:
        return known
    if known.untyped or wanted.untyped:
        typed = wanted if known.untyped else known
        return replace(typed, optional=known.optional and wanted.optional)
    if known.dtype is not wanted.dtype:
        return f"and {wanted} is expected: declare it in inputs"
    # Each model decodes by its own settings: where these differ, the graph takes numbers alone.
    image = known.image if known.image == wanted.image else None
    return replace(known, shape=_narrower(known.shape, wanted.shape), bounds=None, image=image)


def _narrower(one: StepShape, other: StepShape) -> StepShape:
    if one is None or other is None:
        return one if other is None else other
    pairs = zip(one, other, strict=False)
    return tuple(b if a == -1 else a for a, b in pairs)


def _wider(one: StepShape, other: StepShape) -> StepShape:
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else -1 for a, b in zip(one, other, strict=True))


def common(several: Sequence[Specs]) -> Specs | str:
    """Give the items common to all, with the spec that fits all; or the faults."""
    first, *others = several
    found = {name: spec for name, spec in first.items() if all(name in each for each in others)}
    if not found:
        return "they have no item in common"
    for name, spec in found.items():
        for each in (other[name] for other in others):
            if each.dtype is not spec.dtype:
                return f"the dtypes of {spec} and {each} differ"
            shape = _wider(found[name].shape, each.shape)
            found[name] = replace(found[name], shape=shape, bounds=None)
    return found


def stacked(spec: TensorSpec, levels: int) -> TensorSpec:
    """Give the spec of as many such tensors as there are entries, in lists of so many levels."""
    if not levels:
        return spec
    shape = None if spec.shape is None else (*(-1,) * levels, *spec.shape)
    return replace(spec, shape=shape, bounds=None, layout="")


def each_of(spec: TensorSpec, levels: int) -> TensorSpec:
    """Give the spec of the item that `for_each` has to name for an input of `spec`."""
    return replace(stacked(spec, levels), image=None) if levels else spec


def entry_of(spec: TensorSpec, levels: int) -> TensorSpec:
    """Give the spec of one entry of `spec`."""
    if not levels:
        return spec
    shape = None if spec.shape is None else spec.shape[levels:]
    return replace(spec, shape=shape, bounds=None, layout="", image=None)

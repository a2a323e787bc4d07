"""Merges the items of several steps: takes one step's, all, or their mean. Pure."""

import random
import zlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor
from ie_serving.core.values.tensors import Array, Arrays, DataType, Specs, TensorSpec
from ie_serving.engines.graph.condition import single
from ie_serving.engines.graph.definition import MergeStep, SwitchStep

Several = Sequence[tuple[str, Arrays]]
"""Steps that are not skipped, with their items."""

CASES_SHOWN = 20
"""Cases that an error names: a switch may have thousands."""


def chosen(
    step: SwitchStep, value: Array | None, chance: Callable[[], float] = random.random
) -> str:
    """Name the step that answers.

    Args:
        step: chooses.
        value: of `on`, or of `sticky`; None where the weights alone decide.
        chance: 0 to 1 at random.

    Raises:
        InvalidRequest: the value has no case, and there is no default.
        InvalidTensor: it is not one value.
    """
    if step.weights:
        share = chance() if value is None else _share(value)
        return _weighted(step.weights, share)
    assert value is not None  # `on` is there where no weights are
    word = _word(single(value))
    found = step.cases.get(word, step.default)
    if not found:
        known = ", ".join(list(step.cases)[:CASES_SHOWN])
        raise InvalidRequest(f"{step.on} is {word!r}; expected one of {known}")
    return found


def _word(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    # JSON has one kind of numbers: 2.0 finds the case 2.
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _share(value: Array) -> float:
    # By content: equal values have equal bytes, in every process and for ever.
    return zlib.crc32(_word(single(value)).encode()) / (1 << 32)


def _weighted(weights: Mapping[str, int], share: float) -> str:
    left = share * sum(weights.values())
    for name, weight in weights.items():
        left -= weight
        if left < 0:
            return name
    return max(weights, key=lambda name: weights[name])  # a share of 1.0


def merged(step: MergeStep, specs: Specs, several: Several) -> Arrays:
    """Give all items; of a step that is skipped they have no rows."""
    found: dict[str, Array] = {item: empty(spec) for item, spec in specs.items()}
    for name, items in several:
        prefix = f"{name}." if step.on_conflict == "prefix" else ""
        found |= {f"{prefix}{item}": array for item, array in items.items()}
    return found


def combined(step: MergeStep, specs: Specs, several: Several) -> Arrays:
    """Give the mean or the greatest of each item, of the steps that are not skipped.

    Raises:
        InvalidTensor: the shapes of an item differ.
    """
    return {item: _combined(step, item, [items[item] for _, items in several]) for item in specs}


def _combined(step: MergeStep, item: str, arrays: Sequence[Array]) -> Array:
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        said = ", ".join(f'"{name}"' for name in step.of)
        raise InvalidTensor(f'combine: "{item}" of {said} has shapes {sorted(shapes)}')
    if step.combine == "max":
        return np.asarray(np.maximum.reduce(arrays))
    # As float64, which holds the sums that leave the dtype of the items.
    return np.mean(arrays, axis=0, dtype=np.float64).astype(arrays[0].dtype)


def empty(spec: TensorSpec) -> Array:
    """Give an array of `spec` without rows, in place of a skipped step's item."""
    rest = [max(0, size) for size in (spec.shape or ())[1:]]
    dtype = np.dtype(object) if spec.dtype is DataType.STRING else spec.dtype.numpy
    return np.empty((0, *rest), dtype)

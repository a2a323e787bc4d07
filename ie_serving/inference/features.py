"""Examples -> one batch of numpy inputs.

TensorFlow hands serialized Examples to the graph, which parses them. An OpenVINO model takes
tensors, so this module matches features with the signature's inputs by name: one Example is one
row. It ignores features that no input names, as a graph does.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import Features, FeatureValues
from ie_serving.core.values.tensors import Array, DataType, Specs, TensorSpec

_KIND = {int: "int64_list", float: "float_list", bytes: "bytes_list"}

_FLOATS = frozenset({DataType.FP16, DataType.BF16, DataType.FP32, DataType.FP64})

_TRAVELS_AS: Final[Mapping[str, npt.DTypeLike]] = {
    "int64_list": np.int64,
    "float_list": np.float32,
    "bytes_list": np.object_,
}


def decode_examples(examples: Sequence[Features], specs: Specs) -> dict[str, Array]:
    """Make one batch of all examples.

    Args:
        examples: one Example or more.
        specs: inputs by alias; the first dimension of each is the batch.

    Returns:
        For each input an array of `len(examples)` rows: int64, float32 or objects of bytes, for
        `core.values.fit` to cast.

    Raises:
        InvalidRequest: a feature is missing, or has the wrong kind or length; the message has the
            feature's name and the example's index.
        QueueFull, RequestTooLarge: the batch needs more memory than the budget has left.
    """
    return {alias: _batch(examples, spec) for alias, spec in specs.items()}


def _batch(examples: Sequence[Features], spec: TensorSpec) -> Array:
    kind = _kind_for(spec.dtype)
    width = len(_row(examples[0], spec, kind, 0))
    # A context feature is repeated in each row, so a small request can demand any amount of memory.
    batch = BUDGET.empty((len(examples), width), np.dtype(_TRAVELS_AS[kind]))
    with np.errstate(over="ignore"):  # a value beyond float32 becomes infinite, as in a FloatList
        for index, example in enumerate(examples):
            row = _row(example, spec, kind, index)
            if len(row) != width:
                raise _fault(spec, index, f"has {len(row)} values; example 0 has {width}")
            batch[index] = row
    return batch.reshape(len(examples), *_row_shape(spec, width))


def _kind_for(dtype: DataType) -> str:
    if dtype is DataType.STRING:
        return "bytes_list"
    return "float_list" if dtype in _FLOATS else "int64_list"


def _row(example: Features, spec: TensorSpec, kind: str, index: int) -> FeatureValues:
    """Find the values of one example; accept integers for floats, since JSON writes 1.0 as 1."""
    values = example.get(spec.name)
    if not values:
        raise _fault(spec, index, f"is missing or empty; expected a {kind}")
    given = _KIND[type(values[0])]
    if given != kind and (given, kind) != ("int64_list", "float_list"):
        raise _fault(spec, index, f"is a {given}; expected a {kind}")
    return values


def _row_shape(spec: TensorSpec, width: int) -> tuple[int, ...]:
    """Return the shape of `width` values in one row of an input."""
    if spec.shape is None:
        return (width,)
    if not spec.shape or spec.shape.count(-1) - (spec.shape[0] == -1) > 1:
        raise InvalidRequest(
            f"input {spec} cannot be filled from examples: it takes a batch dimension and at most"
            " one other open dimension; use Predict"
        )
    known = math.prod(size for size in spec.shape[1:] if size != -1)
    open_size = -1 in spec.shape[1:]
    if known == 0 or (width % known if open_size else width != known):
        raise _fault(spec, 0, f"has {width} values, which do not fill a row of {spec}")
    return tuple(width // known if size == -1 else size for size in spec.shape[1:])


def _fault(spec: TensorSpec, index: int, what: str) -> InvalidRequest:
    return InvalidRequest(f'example {index}: feature "{spec.name}" {what}')

"""Parses a few Examples to tensors, with protobuf and Python lists.

A call of numpy takes about a microsecond, whatever the size. For a few Examples the calls that
`examples.py` makes for a batch would take nearly all of the time; here each tensor takes one.
Only valid Examples are read. For others, such as a feature of another kind or number, `Unclear` is
raised, and `examples.py` finds the fault.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, Final, TypeAlias

import numpy as np

from ie_serving.core.values.tensors import Array
from ie_serving.wire.examples.example_spec import (
    Dense,
    ExampleSpec,
    Feature,
    Ragged,
    Sparse,
)
from ie_serving.wire.protobuf.fields import Unclear
from ie_serving.wire.protobuf.messages import Proto

MOST_VALUES: Final = 1 << 16
"""Values of a dense tensor, with those that are filled up. Beyond, a list of Python takes longer
than numpy's calls; and a long row among short ones would make it larger than memory."""

Row: TypeAlias = Mapping[str, Proto]
"""The features of one Example by name."""


def tensors(spec: ExampleSpec, rows: Sequence[Row]) -> dict[str, Array]:
    """Make the tensors that `spec` names of a few Examples; see `examples.parse`.

    Raises:
        Unclear: an Example does not fit the specification, or the specification is not simple.
    """
    made: dict[str, Array] = {}
    for dense in spec.dense:
        made[dense.name] = _dense(dense, rows, spec.scalar)
    for sparse in spec.sparse:
        made.update(_sparse(sparse, rows, spec.scalar))
    for ragged in spec.ragged:
        made.update(_ragged(ragged, rows))
    made.pop("", None)
    return made


def _dense(dense: Dense, rows: Sequence[Row], scalar: bool) -> Array:
    if dense.varies:
        return _padded(dense, rows, scalar)
    if not dense.size or dense.size * len(rows) > MOST_VALUES:
        raise Unclear
    key, kind, size = dense.key, dense.kind, dense.size
    values: list[Any] = []
    for row in rows:
        held = row.get(key)
        if held is None:
            if dense.values is None:
                raise Unclear
            values += dense.values
            continue
        found = getattr(held, kind).value[:]  # protobuf gives a slice faster than its elements
        if len(found) != size:  # so it is for another kind
            raise Unclear
        values += found
    return np.array(values, dense.dtype.numpy).reshape(
        dense.shape if scalar else (len(rows), *dense.shape)
    )


def _padded(dense: Dense, rows: Sequence[Row], scalar: bool) -> Array:
    lists = _lists(dense, rows)
    stride = math.prod(dense.shape[1:])
    if not stride or any(len(values) % stride for values in lists):
        raise Unclear
    longest = max(map(len, lists), default=0)
    if longest * len(lists) > MOST_VALUES:
        raise Unclear
    values = [
        value for found in lists for value in (*found, *[dense.padding] * (longest - len(found)))
    ]
    shape = (longest // stride, *dense.shape[1:])
    return np.array(values, dense.dtype.numpy).reshape(shape if scalar else (len(rows), *shape))


def _lists(feature: Feature, rows: Sequence[Row]) -> list[Sequence[Any]]:
    """Give the values of each row, none for a row without the feature."""
    key, kind = feature.key, feature.kind
    lists: list[Sequence[Any]] = []
    for row in rows:
        held = row.get(key)
        found = () if held is None else getattr(held, kind).value[:]
        if held is not None and not found and held.WhichOneof("kind") not in (None, kind):
            raise Unclear
        lists.append(found)
    return lists


def _joined(feature: Feature, lists: Sequence[Sequence[Any]]) -> Array:
    return np.array(list(chain.from_iterable(lists)), feature.dtype.numpy)


def _sparse(sparse: Sparse, rows: Sequence[Row], scalar: bool) -> dict[str, Array]:
    lists = _lists(sparse, rows)
    longest = max(map(len, lists), default=0)
    places = [
        (place,) if scalar else (row, place)
        for row, values in enumerate(lists)
        for place in range(len(values))
    ]
    return {
        sparse.indices: np.array(places, np.int64).reshape(-1, 1 if scalar else 2),
        sparse.values: _joined(sparse, lists),
        sparse.shape: np.array([longest] if scalar else [len(rows), longest], np.int64),
    }


def _ragged(ragged: Ragged, rows: Sequence[Row]) -> dict[str, Array]:
    lists = _lists(ragged, rows)
    splits = list(accumulate(map(len, lists), initial=0))
    return {
        ragged.values: _joined(ragged, lists),
        ragged.splits: np.array(splits, ragged.splits_dtype.numpy),
    }

"""Parses tf.Example bytes to the tensors that the node ParseExample would give.

Large batches are read by `uniform_examples.py` or else `example_columns.py`, the rest by protobuf.
The tensors and the texts of the faults follow example_proto_helper.cc and
example_proto_fast_parsing.cc of TensorFlow.

A call of numpy takes about a microsecond, whatever the size. For a few Examples the calls that a
large batch takes would be nearly all of the time; `tensors` makes one for each tensor. It reads
only valid Examples. For others, such as a feature of another kind or number, it raises
`UnusualField`, and the parser of batches finds the fault.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, Final, TypeAlias

import numpy as np
from google.protobuf.message import DecodeError

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import InvalidRequest, QueueFull, RequestTooLarge
from ie_serving.core.values.tensors import Array
from ie_serving.wire.examples.example_columns import Column, ExampleBatch
from ie_serving.wire.examples.example_spec import (
    DTYPE_OF,
    DenseFeature,
    ExampleSpec,
    FeatureSpec,
    RaggedFeature,
    SparseFeature,
)
from ie_serving.wire.examples.uniform_examples import read_alike
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.counting import check_sum
from ie_serving.wire.protobuf.fields import UnusualField
from ie_serving.wire.protobuf.messages import Proto

MOST_VALUES: Final = 1 << 16
"""Values of a dense tensor, with those that are filled up. Beyond, a list of Python takes longer
than numpy's calls; and a long row among short ones would make it larger than memory."""

ExampleRow: TypeAlias = Mapping[str, Proto]
"""The features of one Example by name."""


def tensors(spec: ExampleSpec, rows: Sequence[ExampleRow]) -> dict[str, Array]:
    """Make the tensors that `spec` names of a few Examples; see `examples.parse`.

    Raises:
        UnusualField: an Example does not fit the specification, or the specification is not simple.
    """
    made: dict[str, Array] = {}
    for dense in spec.dense:
        made[dense.name] = _few_dense(dense, rows, spec.scalar)
    for sparse in spec.sparse:
        made.update(_few_sparse(sparse, rows, spec.scalar))
    for ragged in spec.ragged:
        made.update(_few_ragged(ragged, rows))
    made.pop("", None)
    return made


def _few_dense(dense: DenseFeature, rows: Sequence[ExampleRow], scalar: bool) -> Array:
    if dense.varies:
        return _few_padded(dense, rows, scalar)
    if not dense.size or dense.size * len(rows) > MOST_VALUES:
        raise UnusualField
    key, kind, size = dense.key, dense.kind, dense.size
    values: list[Any] = []
    for row in rows:
        held = row.get(key)
        if held is None:
            if dense.values is None:
                raise UnusualField
            values += dense.values
            continue
        found = getattr(held, kind).value[:]  # protobuf gives a slice faster than its elements
        if len(found) != size:  # so it is for another kind
            raise UnusualField
        values += found
    return np.array(values, dense.dtype.numpy).reshape(
        dense.shape if scalar else (len(rows), *dense.shape)
    )


def _few_padded(dense: DenseFeature, rows: Sequence[ExampleRow], scalar: bool) -> Array:
    lists = _lists(dense, rows)
    stride = math.prod(dense.shape[1:])
    if not stride or any(len(values) % stride for values in lists):
        raise UnusualField
    longest = max(map(len, lists), default=0)
    if longest * len(lists) > MOST_VALUES:
        raise UnusualField
    values = [
        value for found in lists for value in (*found, *[dense.padding] * (longest - len(found)))
    ]
    shape = (longest // stride, *dense.shape[1:])
    return np.array(values, dense.dtype.numpy).reshape(shape if scalar else (len(rows), *shape))


def _lists(feature: FeatureSpec, rows: Sequence[ExampleRow]) -> list[Sequence[Any]]:
    """Give the values of each row, none for a row without the feature."""
    key, kind = feature.key, feature.kind
    lists: list[Sequence[Any]] = []
    for row in rows:
        held = row.get(key)
        found = () if held is None else getattr(held, kind).value[:]
        if held is not None and not found and held.WhichOneof("kind") not in (None, kind):
            raise UnusualField
        lists.append(found)
    return lists


def _few_joined(feature: FeatureSpec, lists: Sequence[Sequence[Any]]) -> Array:
    return np.array(list(chain.from_iterable(lists)), feature.dtype.numpy)


def _few_sparse(
    sparse: SparseFeature, rows: Sequence[ExampleRow], scalar: bool
) -> dict[str, Array]:
    lists = _lists(sparse, rows)
    longest = max(map(len, lists), default=0)
    indices = [
        (index,) if scalar else (row, index)
        for row, values in enumerate(lists)
        for index in range(len(values))
    ]
    return {
        sparse.indices: np.array(indices, np.int64).reshape(-1, 1 if scalar else 2),
        sparse.values: _few_joined(sparse, lists),
        sparse.shape: np.array([longest] if scalar else [len(rows), longest], np.int64),
    }


def _few_ragged(ragged: RaggedFeature, rows: Sequence[ExampleRow]) -> dict[str, Array]:
    lists = _lists(ragged, rows)
    splits = list(accumulate(map(len, lists), initial=0))
    return {
        ragged.values: _few_joined(ragged, lists),
        ragged.splits: np.array(splits, ragged.splits_dtype.numpy),
    }


ALIKE = 48
"""Examples from which those that are alike are read together. For fewer, numpy's calls cost more
than protobuf."""

TOGETHER = 96
"""Examples from which those that are not alike are read together."""

BLOCK = 4096
"""Most Examples that are read together: numpy's results stay in the processor's caches, and the
overhead of its calls hardly counts any more."""


def parse(spec: ExampleSpec, serialized: Sequence[bytes]) -> dict[str, Array]:
    """Parse a batch of serialized Examples.

    Returns:
        Tensors by the names in `spec`.

    Raises:
        InvalidRequest: an element is no Example, a required feature is missing, or a feature has
            values of another dtype or number than its specification.
        QueueFull, RequestTooLarge: the tensors take more memory than the budget has.
    """
    if len(serialized) < ALIKE:
        return parse_rows(spec, _rows(serialized))
    try:
        columns = _read_alike(spec, serialized)
    except UnusualField:
        return _parse_unlike(spec, serialized)
    return _tensors(spec, columns, len(serialized))


def _read_alike(spec: ExampleSpec, serialized: Sequence[bytes]) -> Mapping[str, Column]:
    blocks = [
        read_alike(spec.features, serialized[at : at + BLOCK])
        for at in range(0, len(serialized), BLOCK)
    ]
    return {key: _joined([block[key] for block in blocks]) for key in blocks[0]}


def _parse_unlike(spec: ExampleSpec, serialized: Sequence[bytes]) -> dict[str, Array]:
    if len(serialized) < TOGETHER:
        return parse_rows(spec, _rows(serialized))
    try:
        batch = ExampleBatch(serialized)
        columns = {each.key: batch.column(each.key, each.dtype) for each in spec.features}
    except UnusualField:  # for protobuf to read, or to refuse
        rows = _rows(serialized)
        columns = {each.key: _column(each, rows) for each in spec.features}
    return _tensors(spec, columns, len(serialized))


def _joined(parts: Sequence[Column]) -> Column:
    if len(parts) == 1:
        return parts[0]
    return Column(
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.lengths for part in parts]),
        np.concatenate([part.present for part in parts]),
    )


def parse_rows(spec: ExampleSpec, rows: Sequence[Mapping[str, Proto]]) -> dict[str, Array]:
    """Make the tensors of Examples whose features protobuf has read; see `parse`."""
    try:
        return tensors(spec, rows)
    except UnusualField:  # the code below finds the fault, if there is one
        columns = {each.key: _column(each, rows) for each in spec.features}
        return _tensors(spec, columns, len(rows))


def _rows(serialized: Sequence[bytes]) -> list[Mapping[str, Proto]]:
    check_sum(serialized, messages.Example.DESCRIPTOR)
    return [_features(data, at) for at, data in enumerate(serialized)]


def _tensors(spec: ExampleSpec, columns: Mapping[str, Column], count: int) -> dict[str, Array]:
    tensors: dict[str, Array] = {}
    for dense in spec.dense:
        tensors[dense.name] = _dense(dense, columns[dense.key], count, spec.scalar)
    for sparse in spec.sparse:
        tensors.update(_sparse(sparse, columns[sparse.key], count, spec.scalar))
    for ragged in spec.ragged:
        tensors.update(_ragged(ragged, columns[ragged.key]))
    tensors.pop("", None)
    return tensors


def _column(feature: FeatureSpec, rows: Sequence[Mapping[str, Proto]]) -> Column:
    found = [_values(feature, row, at) for at, row in enumerate(rows)]
    lengths = np.array([0 if values is None else len(values) for values in found], np.int64)
    batch = np.empty(lengths.sum(), feature.dtype.numpy)
    start = 0
    for values in found:
        if values:
            batch[start : start + len(values)] = values
            start += len(values)
    return Column(batch, lengths, np.array([values is not None for values in found], bool))


def _features(data: bytes, at: int) -> Mapping[str, Proto]:
    try:
        found: Mapping[str, Proto] = messages.Example.FromString(data).features.feature
    except (DecodeError, TypeError) as error:
        raise InvalidRequest(
            f"Could not parse example input, value: '{data[:100]!r}' (Example {at}): it is no"
            " serialized tensorflow.Example"
        ) from error
    return found


def _values(feature: FeatureSpec, row: Mapping[str, Proto], at: int) -> Any:  # noqa: ANN401
    """Give the values of a feature in one Example; None where it is missing or of no kind."""
    if feature.key not in row:
        return None
    held = row[feature.key]
    kind = held.WhichOneof("kind")
    if kind is None:
        return None
    if kind != feature.kind:
        given, expected = DTYPE_OF[kind].word, feature.dtype.word
        raise InvalidRequest(
            f"Name: <unknown>, Key: {feature.key}, Index: {at}.  Data types don't match. "
            + (
                f"Data type: {given} but expected type: {expected}"
                if isinstance(feature, DenseFeature)
                else f"Expected type: {expected}, Actual type: {given}"
            )
        )
    return getattr(held, kind).value


def _dense(dense: DenseFeature, column: Column, count: int, scalar: bool) -> Array:
    if dense.varies:
        return _padded(dense, column, count, scalar)
    if dense.size == column.every:
        return column.values.reshape(dense.shape if scalar else (count, *dense.shape))
    if dense.default is None and not column.present.all():
        raise InvalidRequest(
            f"Name: <unknown>, Feature: {dense.key} (data type: {dense.dtype.word}) is required"
            f" but could not be found. (Example {int(np.argmin(column.present))})"
        )
    size = dense.size
    wrong = np.flatnonzero(column.present & (column.lengths != size))
    if wrong.size:
        raise InvalidRequest(
            f"Name: <unknown>, Key: {dense.key}, Index: {wrong[0]}.  Number of"
            f" {dense.dtype.word} values != expected.  Values size: {column.lengths[wrong[0]]}"
            f" but output shape: {_shape_text(dense.shape)}"
        )
    batch = room_for(dense, count, size)
    rows = ... if column.present.all() else column.present
    batch[rows] = column.values.reshape(-1, size) if size else 0
    if dense.default is not None and rows is not ...:
        batch[~column.present] = dense.default.ravel()
    return batch.reshape(dense.shape if scalar else (count, *dense.shape))


def _padded(dense: DenseFeature, column: Column, count: int, scalar: bool) -> Array:
    stride = math.prod(dense.shape[1:])
    wrong = np.flatnonzero(column.lengths % stride if stride else column.lengths)
    if wrong.size:
        raise InvalidRequest(
            f"Name: <unknown>, Key: {dense.key}, Index: {wrong[0]}.  Number of {dense.dtype.word}"
            f" values is not a multiple of stride length. Saw {column.lengths[wrong[0]]} values but"
            f" output shape is: {_shape_text(dense.shape)}"
        )
    longest = int(column.lengths.max(initial=0))
    batch = room_for(dense, count, longest)
    batch.fill(dense.padding)
    batch[np.arange(longest) < column.lengths[:, np.newaxis]] = column.values
    row_shape = (longest // max(stride, 1), *dense.shape[1:])
    return batch.reshape(row_shape if scalar else (count, *row_shape))


def room_for(dense: DenseFeature, count: int, longest: int) -> Array:
    """Get the tensor of a dense feature, without its values: `longest` for each Example.

    An Example that lacks the feature takes two bytes, and a whole row here: so a small request can
    need any size. The memory is counted before it is allocated.

    Raises:
        QueueFull, RequestTooLarge: it exceeds the budget.
    """
    try:
        return BUDGET.empty((count, longest), np.dtype(dense.dtype.numpy))
    except (QueueFull, RequestTooLarge) as error:
        raise type(error)(
            f"Key: {dense.key}: {count} Examples become as many rows of {longest} values, the"
            " shorter ones padded: send Examples of like lengths together, and fewer at once; ",
            *error.args,
        ) from None


def _sparse(sparse: SparseFeature, column: Column, count: int, scalar: bool) -> dict[str, Array]:
    lengths = column.lengths
    row = np.repeat(np.arange(count), lengths)
    index = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    longest = int(lengths.max(initial=0))
    return {
        sparse.indices: index[:, np.newaxis] if scalar else np.stack([row, index], axis=1),
        sparse.values: column.values,
        sparse.shape: np.array([longest] if scalar else [count, longest], np.int64),
    }


def _ragged(ragged: RaggedFeature, column: Column) -> dict[str, Array]:
    splits = np.concatenate([[0], np.cumsum(column.lengths)])
    return {ragged.values: column.values, ragged.splits: splits.astype(ragged.splits_dtype.numpy)}


def _shape_text(shape: Sequence[int]) -> str:
    return f"[{','.join('?' if size == -1 else str(size) for size in shape)}]"

"""Kernels of sparse and ragged tensors: made dense, in order, one of the other."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import Any, Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.savedmodel.host.allowance import filled, make_room
from ie_serving.engines.savedmodel.host.fingerprint import fingerprint64, joined_fingerprint
from ie_serving.engines.savedmodel.host.host_kernel import (
    Attributes,
    Compute,
    HostKernel,
    Output,
    in_thread,
    plain,
)
from ie_serving.engines.savedmodel.host.index_checks import in_bounds

_FIRST_SIZE, _ROW_IDS, _SPLITS = b"FIRST_DIM_SIZE", b"VALUE_ROWIDS", b"ROW_SPLITS"


def _sparse_to_dense(attributes: Attributes) -> Compute:
    ordered = attributes.flag("validate_indices", True)

    def compute(indices: Array, shape: Array, values: Array, default: Array) -> Array:
        """Give an array of `shape`; `indices` has a row for each value, or numbers for rank 1."""
        sizes = [int(size) for size in np.ravel(shape)]
        coordinates = indices.reshape(indices.size, 1) if indices.ndim < 2 else indices
        if coordinates.shape[1] != len(sizes):
            raise InvalidRequest(
                f"output_shape has incorrect number of elements: {len(sizes)} should be:"
                f" {coordinates.shape[1]}"
            )
        dense = filled(sizes, default)
        in_bounds(coordinates, sizes)
        if ordered:
            _in_order(coordinates)
        dense[tuple(coordinates.T)] = values
        return dense

    return compute


def _in_order(coordinates: Array) -> None:
    """Refuse coordinates that do not come row by row, each once."""
    rows = coordinates.tolist()
    for at, (before, row) in enumerate(pairwise(rows), 1):
        if row <= before:
            raise InvalidRequest(f"indices[{at}] = {row} is out of order or repeated")


def _ragged_to_dense(attributes: Attributes) -> Compute:
    kinds = attributes.texts("row_partition_types")
    # A list of row ids comes with the number of rows in front of it.
    if kinds[:1] == [_FIRST_SIZE]:
        kinds = kinds[1:]
        first = 1
    else:
        first = 0
    if any(kind not in (_ROW_IDS, _SPLITS) for kind in kinds):
        raise attributes.refused(f"has the row partitions {kinds}")

    def compute(shape: Array, values: Array, default: Array, *partitions: Array) -> Array:
        rows = int(partitions[0]) if first else len(partitions[0]) - 1
        make_room((rows,), np.int64)
        coordinates = _coordinates(kinds, partitions[first:], rows)
        sizes = [rows, *(int(at.max(initial=-1)) + 1 for at in coordinates[1:]), *values.shape[1:]]
        wanted = np.ravel(shape).tolist() if shape.ndim else [-1] * len(sizes)
        made = [size if want < 0 else want for size, want in zip(sizes, wanted, strict=True)]
        make_room(made, values.dtype)
        dense = np.empty(made, values.dtype)
        dense[...] = default
        if any(size < held for size, held in zip(made, sizes, strict=True)):
            tests = [at < size for at, size in zip(coordinates, made, strict=False)]
            inside = np.logical_and.reduce(tests)
            coordinates, values = [at[inside] for at in coordinates], values[inside]
        dense[tuple(coordinates)] = values
        return dense

    return compute


def _coordinates(kinds: Sequence[bytes], partitions: Sequence[Array], rows: int) -> list[Array]:
    """Give the coordinates of each value in every ragged dimension, the outermost first."""
    coordinates = [np.arange(rows)]
    for kind, partition in zip(kinds, partitions, strict=True):
        if kind == _SPLITS:
            lengths = np.diff(partition)
            row = np.repeat(np.arange(len(lengths)), lengths)
        else:
            row = partition
            lengths = np.bincount(row, minlength=len(coordinates[0]))
        starts = np.cumsum(lengths) - lengths
        coordinates = [*(at[row] for at in coordinates), np.arange(len(row)) - starts[row]]
    return coordinates


def _ragged_to_sparse(*given: Array) -> list[Array]:
    """Give the coordinates of each value, the values, and the sizes of the dense tensor."""
    *splits, values = given
    if values.ndim != 1 or any(each.ndim != 1 or not each.size for each in splits):
        raise InvalidRequest("splits and values must be vectors, and splits must not be empty")
    rows = len(splits[0]) - 1
    coordinates = _coordinates([_SPLITS] * len(splits), splits, rows)
    sizes = [rows, *(int(np.diff(each).max(initial=0)) for each in splits)]
    return [np.stack(coordinates, 1).astype(np.int64), values, np.array(sizes, np.int64)]


def _reordered(coordinates: Array, values: Array, _: Array) -> list[Array]:
    """Bring coordinates and their values into the order of rows."""
    order = np.lexsort(coordinates.T[::-1]) if coordinates.shape[1] else np.arange(len(coordinates))
    return [coordinates[order], values[order]]


def _cross(attributes: Attributes) -> Compute:
    """Cross the features of each row, one of each column: by hash, or by names.

    Source: sparse_cross_op.cc of TensorFlow.
    """
    count, key = attributes.integer("N"), attributes.integer("hash_key")
    buckets = attributes.integer("num_buckets") or 2**63 - 1
    is_hashed = attributes.flag("hashed_output")
    if not is_hashed and attributes.dtype("out_type") is not DataType.STRING:
        raise attributes.refused("crosses numbers without a hash")

    def crossed(features: Sequence[Any]) -> int | bytes:
        if not is_hashed:
            return b"_X_".join(features)
        found = key % 2**64
        for each in features:
            found = joined_fingerprint(found, each)
        return found % buckets

    def compute(*given: Array) -> list[Array]:
        indices, values, dense = given[:count], given[count : 2 * count], given[3 * count :]
        rows = len(dense[0]) if dense else int(given[2 * count][0])
        if any(len(each) != rows for each in dense):
            raise InvalidRequest(f"Expected batch size {rows} of all columns that are crossed")
        for at in indices:
            in_bounds(at[:, :1], [rows])
        columns = [
            _rows_of(at[:, 0], _features(each, is_hashed), rows)
            for at, each in zip(indices, values, strict=True)
        ]
        columns += [[_features(row, is_hashed) for row in each] for each in dense]
        sizes = [math.prod(map(len, row)) for row in zip(*columns, strict=True)]
        make_room((sum(sizes), max(2, count)), np.dtype(np.int64))
        made = [[*map(crossed, product(*row))] for row in zip(*columns, strict=True)]
        places = [(row, at) for row, size in enumerate(sizes) for at in range(size)]
        return [
            np.array(places, np.int64).reshape(-1, 2),
            np.array([each for row in made for each in row], np.int64 if is_hashed else np.object_),
            np.array([rows, max(sizes, default=0)], np.int64),
        ]

    return compute


def _features(values: Array, is_hashed: bool) -> list[Any]:
    held = values.ravel().tolist()
    if values.dtype == np.object_:
        return [fingerprint64(each) for each in held] if is_hashed else held
    return [each % 2**64 for each in held]


def _rows_of(numbers: Array, features: Sequence[Any], rows: int) -> list[list[Any]]:
    found: list[list[Any]] = [[] for _ in range(rows)]
    for number, each in zip(numbers.tolist(), features, strict=True):
        found[number].append(each)
    return found


KERNELS: Final[Mapping[str, HostKernel]] = {
    "RaggedTensorToSparse": plain(
        _ragged_to_sparse,
        Output("", DataType.INT64, "sparse_indices"),
        Output(name="sparse_values"),
        Output("", DataType.INT64, "sparse_dense_shape"),
    ),
    "RaggedTensorToTensor": HostKernel(_ragged_to_dense),
    "SparseCross": in_thread(
        HostKernel(
            _cross,
            (
                Output("", DataType.INT64, "output_indices"),
                Output("out_type", name="output_values"),
                Output("", DataType.INT64, "output_shape"),
            ),
        )
    ),
    "SparseReorder": plain(
        _reordered,
        Output("", DataType.INT64, "output_indices"),
        Output(name="output_values"),
    ),
    "SparseToDense": HostKernel(_sparse_to_dense),
}

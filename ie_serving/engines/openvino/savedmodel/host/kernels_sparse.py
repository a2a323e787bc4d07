"""Kernels that make dense tensors of sparse and ragged ones."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from ie_serving.core.errors import InvalidRequest
from ie_serving.core.tensors import Array
from ie_serving.engines.openvino.savedmodel.host.attributes import Attributes
from ie_serving.engines.openvino.savedmodel.host.kernel import Compute, Kernel, plain

_FIRST_SIZE, _ROW_IDS, _SPLITS = b"FIRST_DIM_SIZE", b"VALUE_ROWIDS", b"ROW_SPLITS"


def _sparse_to_dense(indices: Array, shape: Array, values: Array, default: Array) -> Array:
    sizes = tuple(int(size) for size in shape)
    dense = np.full(sizes, default[()], values.dtype)
    places = indices.reshape(len(np.atleast_1d(indices)), -1) if indices.ndim < 2 else indices
    outside = np.flatnonzero(((places < 0) | (places >= np.array(sizes))).any(1))
    if outside.size:
        raise InvalidRequest(
            f"indices[{outside[0]}] = {places[outside[0]].tolist()} is out of bounds: need 0 <="
            f" index < {list(sizes)}"
        )
    dense[tuple(places.T)] = values
    return dense


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
        places = _places(kinds, partitions[first:], rows)
        sizes = [rows, *(int(at.max(initial=-1)) + 1 for at in places[1:]), *values.shape[1:]]
        wanted = np.ravel(shape).tolist() if shape.ndim else [-1] * len(sizes)
        made = [size if want < 0 else want for size, want in zip(sizes, wanted, strict=True)]
        dense = np.empty(made, values.dtype)
        dense[...] = default
        inside = np.logical_and.reduce([at < size for at, size in zip(places, made, strict=False)])
        dense[tuple(at[inside] for at in places)] = values[inside]
        return dense

    return compute


def _places(kinds: Sequence[bytes], partitions: Sequence[Array], rows: int) -> list[Array]:
    """Give the place of each value in every ragged dimension, the outermost first."""
    places = [np.arange(rows)]
    for kind, partition in zip(kinds, partitions, strict=True):
        if kind == _SPLITS:
            lengths = np.diff(partition)
            row = np.repeat(np.arange(len(lengths)), lengths)
        else:
            row = partition
            lengths = np.bincount(row, minlength=len(places[0]))
        starts = np.cumsum(lengths) - lengths
        places = [*(at[row] for at in places), np.arange(len(row)) - starts[row]]
    return places


KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {
        "RaggedTensorToTensor": Kernel(_ragged_to_dense),
        "SparseToDense": plain(_sparse_to_dense),
    }
)

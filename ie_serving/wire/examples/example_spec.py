"""Specification of a ParseExample: its features, and the names of the tensors they become."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ie_serving.core.values.tensors import Array, DataType

KIND_OF: Mapping[DataType, str] = {
    DataType.FP32: "float_list",
    DataType.INT64: "int64_list",
    DataType.STRING: "bytes_list",
}
"""Fields with the values of each dtype; ParseExample has no others."""
DTYPE_OF: Mapping[str, DataType] = {kind: dtype for dtype, kind in KIND_OF.items()}

OutputNames = Mapping[tuple[str, int], str]
"""The tensor that each output of the node becomes, by its group and its index there."""


@dataclass(frozen=True)
class ParsedOutput:
    """One output of the node: its name and index, dtype and shape for a placeholder."""

    group: str
    index: int
    dtype: int
    shape: tuple[int, ...]


def is_default(value: Array, shape: tuple[int, ...]) -> bool:
    """Tell a default from the empty tensor that stands for none."""
    return value.size > 0 or (0 in shape and -1 not in shape)


@dataclass(frozen=True)
class FeatureSpec:
    """One feature of an Example.

    Attributes:
        key: name of the feature.
        dtype: dtype of its values.
    """

    key: str
    dtype: DataType

    @cached_property
    def kind(self) -> str:
        """Name of the field of a Feature that holds the values."""
        return KIND_OF[self.dtype]


@dataclass(frozen=True)
class DenseFeature(FeatureSpec):
    """A feature with as many values in each Example.

    Attributes:
        shape: shape of one Example's values; its first size is -1 where the number varies, which is
            then padded to the longest of the batch.
        default: value for an Example that lacks it; None where each must have it. For a first size
            of -1 the padding, one element.
        name: name of the tensor in the result of `parse`.
    """

    shape: tuple[int, ...]
    default: Array | None
    name: str

    @cached_property
    def varies(self) -> bool:
        """Whether the number of values is the Example's own."""
        return self.shape[:1] == (-1,)

    @cached_property
    def size(self) -> int:
        """Number of values of one Example, where it does not vary."""
        return math.prod(self.shape)

    @cached_property
    def padding(self) -> Any:  # noqa: ANN401
        """Value behind those of an Example, where their number varies."""
        if self.default is not None and self.default.size:
            return self.default.ravel()[0]
        return b"" if self.dtype is DataType.STRING else 0

    @cached_property
    def values(self) -> list[Any] | None:
        """All values for an Example that lacks the feature; None where there are none."""
        if self.default is None:
            return None
        return list(np.broadcast_to(self.default.ravel(), (self.size,)).tolist())


@dataclass(frozen=True)
class SparseFeature(FeatureSpec):
    """A feature with any number of values.

    Attributes:
        indices: name of the tensor of indices in the result of `parse`; "" where it is unused.
        values: name of the tensor of values.
        shape: name of the tensor of the dense shape.
    """

    indices: str
    values: str
    shape: str


@dataclass(frozen=True)
class RaggedFeature(FeatureSpec):
    """A feature with any number of values, as rows of different lengths.

    Attributes:
        values: name of the tensor of values in the result of `parse`; "" where it is unused.
        splits: name of the tensor of row splits.
        splits_dtype: INT32 or INT64.
    """

    values: str
    splits: str
    splits_dtype: DataType


@dataclass(frozen=True)
class ExampleSpec:
    """One ParseExample of a graph.

    Attributes:
        scalar: it parses one Example rather than a batch; the tensors have no batch dimension.
        dense: features in order.
        sparse: features in order.
        ragged: features in order.
    """

    scalar: bool = False
    dense: Sequence[DenseFeature] = field(default=())
    sparse: Sequence[SparseFeature] = field(default=())
    ragged: Sequence[RaggedFeature] = field(default=())

    @cached_property
    def features(self) -> list[FeatureSpec]:
        """All features."""
        return [*self.dense, *self.sparse, *self.ragged]

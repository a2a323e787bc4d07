"""Parses tf.SequenceExample bytes to the tensors that ParseSequenceExample would give.

The context is read like an Example. A feature list has steps, each with its own values. Source:
example_proto_fast_parsing.cc of TensorFlow, whose phrases the faults contain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, TypeAlias

import numpy as np
from google.protobuf.message import DecodeError

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array
from ie_serving.wire.examples.example_spec import (
    DTYPE_OF,
    DenseFeature,
    ExampleSpec,
    FeatureSpec,
    RaggedFeature,
    SparseFeature,
)
from ie_serving.wire.examples.serialized_examples import parse_rows, room_for
from ie_serving.wire.protobuf import graph
from ie_serving.wire.protobuf.counting import check_sum
from ie_serving.wire.protobuf.messages import Proto

SequenceSteps: TypeAlias = list[Sequence[Any]]
"""Values of one feature list of one SequenceExample, by step."""


@dataclass(frozen=True)
class DenseList(DenseFeature):
    """A feature list with as many values in each step; shorter lists are padded with zeros.

    Attributes:
        lengths: name of the tensor of the lists' lengths; "" where nothing reads it.
        may_be_missing: a SequenceExample without it has no steps; else it is refused.
    """

    lengths: str
    may_be_missing: bool


@dataclass(frozen=True)
class RaggedList(RaggedFeature):
    """A feature list with any number of values in each step; `splits` are those of the steps.

    Attributes:
        inner: name of the tensor of the values' row splits, a row for each step.
    """

    inner: str


@dataclass(frozen=True)
class SequenceSpec:
    """One ParseSequenceExample of a graph.

    Attributes:
        context: features of the context; its `scalar` holds for the lists as well.
        dense: feature lists in order.
        sparse: feature lists in order.
        ragged: feature lists in order.
    """

    context: ExampleSpec
    dense: Sequence[DenseList] = field(default=())
    sparse: Sequence[SparseFeature] = field(default=())
    ragged: Sequence[RaggedList] = field(default=())

    @property
    def features(self) -> list[FeatureSpec]:
        """All features and feature lists."""
        return [*self.context.features, *self.dense, *self.sparse, *self.ragged]


def parse_sequences(spec: SequenceSpec, serialized: Sequence[bytes]) -> dict[str, Array]:
    """Parse a batch of serialized SequenceExamples.

    Returns:
        Tensors by the names in `spec`.

    Raises:
        InvalidRequest: as `examples.parse`, or a required feature list is missing.
        QueueFull, RequestTooLarge: as `examples.parse`.
    """
    check_sum(serialized, graph.SequenceExample.DESCRIPTOR)
    parsed = [_sequence(data, at) for at, data in enumerate(serialized)]
    tensors = parse_rows(spec.context, [each.context.feature for each in parsed])
    lists = [each.feature_lists.feature_list for each in parsed]
    scalar = spec.context.scalar
    for dense in spec.dense:
        tensors.update(_dense(dense, _steps_of(dense, lists), scalar))
    for sparse in spec.sparse:
        tensors.update(_sparse(sparse, _steps_of(sparse, lists), scalar))
    for ragged in spec.ragged:
        tensors.update(_ragged(ragged, _steps_of(ragged, lists)))
    tensors.pop("", None)  # where outputs went that nothing reads
    return tensors


def _sequence(data: bytes, at: int) -> Proto:
    try:
        return graph.SequenceExample.FromString(data)
    except (DecodeError, TypeError) as error:
        raise InvalidRequest(
            f"Could not parse example input, value: '{data[:100]!r}' (Example {at}): it is no"
            " serialized tensorflow.SequenceExample"
        ) from error


def _steps_of(feature: FeatureSpec, lists: Sequence[Mapping[str, Proto]]) -> list[SequenceSteps]:
    """Give the steps of each SequenceExample, none for one without the list."""
    found: list[SequenceSteps] = []
    for row, held in enumerate(lists):
        if feature.key in held:
            steps = held[feature.key].feature
            found.append([_values(feature, step, at) for at, step in enumerate(steps)])
        elif isinstance(feature, DenseList) and not feature.may_be_missing:
            raise InvalidRequest(
                f"Name: <unknown>, Feature list '{feature.key}' is required but could not be found."
                "  Did you mean to include it in feature_list_dense_missing_assumed_empty or"
                f" feature_list_dense_defaults? (Example {row})"
            )
        else:
            found.append([])
    return found


def _values(feature: FeatureSpec, step: Proto, at: int) -> Sequence[Any]:
    kind = step.WhichOneof("kind")
    if kind is None:  # a step without values
        return ()
    if kind != feature.kind:
        raise InvalidRequest(
            f"Name: <unknown>, Key: {feature.key}, Index: {at}.  Data types don't match. Expected"
            f" type: {feature.dtype.word}, Actual type: {DTYPE_OF[kind].word}"
        )
    values: Sequence[Any] = getattr(step, kind).value
    return values


def _dense(dense: DenseList, rows: Sequence[SequenceSteps], scalar: bool) -> dict[str, Array]:
    for at, values in chain.from_iterable(map(enumerate, rows)):
        if len(values) != dense.size:
            raise InvalidRequest(
                f"Name: <unknown>, Key: {dense.key}, Index: {at}.  Number of {dense.dtype.word}"
                f" values != expected.  values size: {len(values)} but output shape:"
                f" [{','.join(map(str, dense.shape))}]"
            )
    lengths = np.array([len(steps) for steps in rows], np.int64)
    longest = int(lengths.max(initial=0))
    batch = room_for(dense, len(rows), longest * dense.size)
    batch.fill(dense.padding)
    batch = batch.reshape(len(rows), longest, dense.size)
    for row, steps in enumerate(rows):
        for at, values in enumerate(steps):
            batch[row, at] = values
    shaped = batch.reshape(len(rows), longest, *dense.shape)
    return {
        dense.name: shaped[0] if scalar else shaped,
        dense.lengths: lengths[0] if scalar else lengths,
    }


def _sparse(sparse: SparseFeature, rows: Sequence[SequenceSteps], scalar: bool) -> dict[str, Array]:
    indices = [
        (row, at, index)
        for row, steps in enumerate(rows)
        for at, values in enumerate(steps)
        for index in range(len(values))
    ]
    size = [
        len(rows),
        max(map(len, rows), default=0),
        max((len(values) for steps in rows for values in steps), default=0),
    ]
    drop = 1 if scalar else 0
    return {
        sparse.indices: np.array(indices, np.int64).reshape(-1, 3)[:, drop:],
        sparse.values: _joined(sparse, rows),
        sparse.shape: np.array(size[drop:], np.int64),
    }


def _ragged(ragged: RaggedList, rows: Sequence[SequenceSteps]) -> dict[str, Array]:
    outer = list(accumulate(map(len, rows), initial=0))
    inner = list(accumulate((len(values) for steps in rows for values in steps), initial=0))
    return {
        ragged.values: _joined(ragged, rows),
        ragged.splits: np.array(outer, ragged.splits_dtype.numpy),
        ragged.inner: np.array(inner, ragged.splits_dtype.numpy),
    }


def _joined(feature: FeatureSpec, rows: Sequence[SequenceSteps]) -> Array:
    values = [value for steps in rows for found in steps for value in found]
    return np.array(values, feature.dtype.numpy)

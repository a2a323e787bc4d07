"""Examples read together give what protobuf gives, or are left to protobuf."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import Features
from ie_serving.core.values.tensors import DataType
from ie_serving.wire.examples import serialized_examples as examples
from ie_serving.wire.examples.example_columns import ExampleBatch
from ie_serving.wire.examples.example_spec import ExampleSpec, RaggedFeature
from ie_serving.wire.examples.serialized_examples import parse
from ie_serving.wire.protobuf.fields import UnusualField
from ie_serving.wire.tfs.classify_regress import serialize_examples

FEATURES = st.fixed_dictionaries(
    {},
    optional={
        "n": st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=4),
        "f": st.lists(st.floats(width=32, allow_nan=False), max_size=4),
        "a longer name" * 12: st.lists(st.binary(max_size=200), max_size=3),
    },
)
SPEC = ExampleSpec(
    ragged=[
        RaggedFeature("n", DataType.INT64, "n", "n splits", DataType.INT64),
        RaggedFeature("f", DataType.FP32, "f", "f splits", DataType.INT64),
        RaggedFeature("a longer name" * 12, DataType.STRING, "t", "t splits", DataType.INT64),
        RaggedFeature("absent", DataType.FP32, "x", "x splits", DataType.INT64),
    ]
)
ROW = serialize_examples([{"n": [1, 300], "f": [1.0]}])[0]


@given(st.lists(FEATURES, max_size=8))
def test_the_values_are_those_that_protobuf_reads(rows: list[Features]) -> None:
    serialized = serialize_examples(rows)
    batch = ExampleBatch(serialized)
    alone = [parse(SPEC, [data]) for data in serialized]
    for each in SPEC.ragged:
        column = batch.column(each.key, each.dtype)
        assert column.values.tolist() == [v for one in alone for v in one[each.values].tolist()]
        assert column.lengths.tolist() == [len(one[each.values]) for one in alone]


def test_a_cut_example_is_left_to_protobuf() -> None:
    for cut in range(1, len(ROW)):
        with pytest.raises(UnusualField):
            ExampleBatch([ROW, ROW[:cut]]).column("n", DataType.INT64)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20))
def test_any_bytes_are_read_or_refused(serialized: list[bytes]) -> None:
    """By columns, which like TensorFlow do not ask whether keys are UTF-8, as by protobuf."""
    for rows in (serialized, serialized * examples.TOGETHER):
        with contextlib.suppress(InvalidRequest):
            assert len(parse(SPEC, rows)["n splits"]) == len(rows) + 1


def test_an_example_that_protobuf_alone_can_read_is_read_all_the_same() -> None:
    twice = ROW[:1] + bytes([2 * ROW[1]]) + 2 * ROW[2:]  # each key twice: the last one counts
    rows = [twice] * examples.TOGETHER
    with pytest.raises(UnusualField):
        ExampleBatch(rows).column("n", DataType.INT64)
    assert parse(SPEC, rows)["n"].tolist() == [1, 300] * len(rows)


def test_another_kind_is_left_to_protobuf_which_names_it() -> None:
    rows = serialize_examples([{"n": [1.0]}] * examples.TOGETHER)
    with pytest.raises(InvalidRequest, match="Expected type: int64, Actual type: float"):
        parse(SPEC, rows)


def test_numbers_of_any_width_are_decoded() -> None:
    values = [0, 127, 128, -1, (1 << 63) - 1, -(1 << 63)]
    rows = serialize_examples([{"n": values}])
    column = ExampleBatch(rows).column("n", DataType.INT64)
    assert (column.values.tolist(), column.values.dtype) == (values, np.int64)

"""Examples are parsed as the graph's own op would have: values, padding, defaults, faults."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import InvalidRequest, RequestTooLarge
from ie_serving.core.values.requests import Features
from ie_serving.core.values.tensors import DataType
from ie_serving.wire.examples import serialized_examples as examples
from ie_serving.wire.examples.example_spec import (
    DenseFeature,
    ExampleSpec,
    RaggedFeature,
    SparseFeature,
)
from ie_serving.wire.examples.serialized_examples import parse
from ie_serving.wire.tfs.classify_regress import serialize_examples

FLOAT, INTEGER = DataType.FP32, DataType.INT64
LONG = 2000
ROWS = serialize_examples([{"f": [1.0, 2.0, 3.0, 4.0], "n": [7]}, {"n": [8, 9]}])


def test_a_dense_feature_that_is_missing_takes_its_default() -> None:
    default = np.array([5, 6, 7, 8], np.float32)
    spec = ExampleSpec(dense=[DenseFeature("f", FLOAT, (2, 2), default, "t")])
    assert parse(spec, ROWS)["t"].tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]


def test_a_dense_feature_of_any_length_is_padded_to_the_longest() -> None:
    spec = ExampleSpec(dense=[DenseFeature("n", INTEGER, (-1,), np.array(-1), "t")])
    assert parse(spec, ROWS)["t"].tolist() == [[7, -1], [8, 9]]


def test_a_sparse_feature_gives_indices_values_and_shape() -> None:
    spec = ExampleSpec(sparse=[SparseFeature("n", INTEGER, "i", "v", "s")])
    tensors = parse(spec, ROWS)
    assert tensors["i"].tolist() == [[0, 0], [1, 0], [1, 1]]
    assert tensors["v"].tolist() == [7, 8, 9]
    assert tensors["s"].tolist() == [2, 2]


def test_a_ragged_feature_gives_values_and_splits_of_their_dtype() -> None:
    spec = ExampleSpec(ragged=[RaggedFeature("f", FLOAT, "v", "s", DataType.INT32)])
    tensors = parse(spec, ROWS)
    assert tensors["v"].tolist() == [1, 2, 3, 4]
    assert (tensors["s"].tolist(), tensors["s"].dtype) == ([0, 4, 4], np.int32)


def test_one_example_has_no_batch_dimension() -> None:
    spec = ExampleSpec(
        scalar=True,
        dense=[DenseFeature("f", FLOAT, (4,), None, "t")],
        sparse=[SparseFeature("n", INTEGER, "i", "v", "s")],
    )
    tensors = parse(spec, ROWS[:1])
    assert tensors["t"].shape == (4,)
    assert (tensors["i"].tolist(), tensors["s"].tolist()) == ([[0]], [1])


def test_no_examples_give_empty_tensors() -> None:
    spec = ExampleSpec(
        dense=[DenseFeature("f", FLOAT, (4,), None, "t")],
        sparse=[SparseFeature("n", INTEGER, "i", "v", "s")],
    )
    tensors = parse(spec, [])
    assert tensors["t"].shape == (0, 4)
    assert (tensors["i"].shape, tensors["s"].tolist()) == ((0, 2), [0, 0])


def test_a_feature_that_nothing_reads_is_checked_and_not_given() -> None:
    spec = ExampleSpec(dense=[DenseFeature("f", FLOAT, (4,), None, "")])
    assert parse(spec, ROWS[:1]) == {}
    with pytest.raises(InvalidRequest, match=r"Feature: f .data type: float. is required"):
        parse(spec, ROWS)


@pytest.mark.parametrize("count", [examples.TOGETHER - 2, examples.TOGETHER])
@pytest.mark.parametrize(
    "dense",
    [
        DenseFeature("f", FLOAT, (-1,), None, "t"),
        DenseFeature("f", FLOAT, (LONG,), np.zeros(1, np.float32), "t"),
    ],
    ids=["padded", "default"],
)
def test_padding_stays_within_the_budget(
    dense: DenseFeature, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long Example among many empty ones, of two bytes each, asked for any size of memory."""
    rows = serialize_examples([{"f": [1.0] * LONG}, *[{}] * count])
    spec, held = ExampleSpec(dense=[dense]), BUDGET.held
    size = (count + 1) * LONG * 4
    monkeypatch.setattr(BUDGET, "limit", held + size)
    tensors = parse(spec, rows)
    assert (tensors["t"].shape, BUDGET.held) == ((count + 1, LONG), held + size)
    assert tensors["t"].sum() == LONG
    del tensors
    assert BUDGET.held == held
    monkeypatch.setattr(BUDGET, "limit", held + size - 1)
    with pytest.raises(RequestTooLarge, match="send Examples of like lengths together"):
        parse(spec, rows)


@pytest.mark.parametrize(
    ("spec", "row", "fault"),
    [
        (
            ExampleSpec(dense=[DenseFeature("f", FLOAT, (-1, 2), None, "t")]),
            {"f": [1.0, 2.0, 3.0]},
            "Number of float values is not a multiple of stride length. Saw 3 values but output"
            " shape is: [?,2]",
        ),
        (
            ExampleSpec(sparse=[SparseFeature("f", FLOAT, "i", "v", "s")]),
            {"f": [1]},
            "Data types don't match. Expected type: float, Actual type: int64",
        ),
        (
            ExampleSpec(ragged=[RaggedFeature("f", FLOAT, "v", "s", DataType.INT64)]),
            {"f": [b"x"]},
            "Data types don't match. Expected type: float, Actual type: string",
        ),
    ],
)
def test_faults_are_named_as_tensorflow_names_them(
    spec: ExampleSpec, row: dict[str, list[float] | list[int] | list[bytes]], fault: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(spec, serialize_examples([row]))
    assert f"Name: <unknown>, Key: f, Index: 0.  {fault}" in str(caught.value)


def test_bytes_that_are_no_example_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="Could not parse example input"):
        parse(ExampleSpec(), [b"\xff"])


MANY_KINDS = ExampleSpec(
    dense=[
        DenseFeature("d", FLOAT, (2,), np.array([5, 6], np.float32), "d"),
        DenseFeature("n", INTEGER, (-1,), np.array(-1), "n"),
        DenseFeature("s", DataType.STRING, (-1, 2), None, "s"),
    ],
    sparse=[SparseFeature("n", INTEGER, "i", "v", "z")],
    ragged=[RaggedFeature("t", DataType.STRING, "r", "p", DataType.INT32)],
)
ROW = st.fixed_dictionaries(
    {},
    optional={
        "d": st.tuples(*[st.floats(width=32, allow_nan=False)] * 2).map(list),
        "n": st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=3),
        "s": st.lists(st.binary(max_size=9), max_size=2).map(lambda texts: 2 * texts),
        "t": st.lists(st.binary(max_size=200), max_size=3),
    },
)


@given(st.lists(ROW, min_size=1, max_size=4))
def test_few_examples_are_parsed_as_many_are(rows: list[Features]) -> None:
    """A batch of copies is read by columns; its first rows are what a few rows give."""
    few = serialize_examples(rows)
    copies = -(-examples.TOGETHER // len(few))
    alone, together = parse(MANY_KINDS, few), parse(MANY_KINDS, few * copies)
    for name in ("d", "n", "s"):
        assert alone[name].tolist() == together[name][: len(few)].tolist()
    assert alone["v"].tolist() * copies == together["v"].tolist()
    assert alone["i"].tolist() == together["i"][: len(alone["i"])].tolist()
    assert alone["r"].tolist() * copies == together["r"].tolist()
    assert alone["p"].tolist() == together["p"][: len(few) + 1].tolist()
    assert {name: (array.dtype, array.ndim) for name, array in alone.items()} == {
        name: (array.dtype, array.ndim) for name, array in together.items()
    }

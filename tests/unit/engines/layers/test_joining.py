"""Rows of several requests in one array, and back."""

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.runtime.budget import BUDGET, SMALL
from ie_serving.core.values.tensors import Array
from ie_serving.engines.layers.joining import (
    RowsLost,
    check_rows,
    counted_copies,
    form_of,
    joined,
    pieces,
    rows_of,
    split,
    together,
)


def numbered(rows: int, start: int = 0) -> dict[str, Array]:
    x = np.arange(start, start + rows * 2, dtype=np.float32).reshape(rows, 2)
    return {"x": x, "y": x[:, 0].astype(np.int64)}


@pytest.mark.parametrize(
    ("shapes", "rows"),
    [
        pytest.param([(3, 2), (3,)], 3, id="as many rows"),
        pytest.param([(3, 2), (1, 2)], 0, id="other numbers of rows"),
        pytest.param([(3, 2), ()], 0, id="a scalar"),
        pytest.param([(0, 2)], 0, id="no rows"),
        pytest.param([], 0, id="no inputs"),
    ],
)
def test_rows_are_those_that_all_inputs_have(shapes: list[tuple[int, ...]], rows: int) -> None:
    assert rows_of({str(i): np.zeros(shape) for i, shape in enumerate(shapes)}) == rows


def test_the_form_is_the_shape_of_a_row_in_the_order_of_the_names() -> None:
    inputs = {"b": np.zeros((4, 3, 2)), "a": np.zeros(4)}
    assert form_of(inputs, ["a", "b"]) == ((), (3, 2))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 7))
def test_joined_rows_are_split_again(counts: list[int], missing: int) -> None:
    rows = sum(counts)
    whole = numbered(rows)
    parts = list(split(whole, counts))
    again = joined(parts, rows, rows + missing)
    assert all(len(array) == rows + missing for array in again.values())
    for name, array in again.items():
        assert np.array_equal(array[:rows], whole[name])
        assert array.dtype == whole[name].dtype
        assert (array[rows:] == whole[name][-1]).all()
    for own, part in zip(split(again, counts), parts, strict=True):
        assert all(np.array_equal(own[name], part[name]) for name in part)


def test_one_part_that_needs_no_rows_is_not_copied() -> None:
    inputs = numbered(3)
    assert joined([inputs], 3, 3) is inputs


def test_strings_are_joined_as_they_are() -> None:
    texts = np.array([[b"a\0"], [b"longer"]], np.object_)
    assert joined([{"s": texts}, {"s": texts[:1]}], 3, 4)["s"].tolist() == [
        [b"a\0"],
        [b"longer"],
        [b"a\0"],
        [b"a\0"],
    ]


@given(st.integers(1, 30), st.integers(1, 8))
def test_pieces_make_the_whole(rows: int, most: int) -> None:
    whole = numbered(rows)
    cut = list(pieces(whole, rows, most))
    assert [count for _, count in cut] == [len(piece["x"]) for piece, _ in cut]
    assert all(0 < count <= most for _, count in cut)
    again = together([piece for piece, _ in cut])
    assert all(np.array_equal(again[name], whole[name]) for name in whole)


@pytest.mark.parametrize("shape", [(), (3, 2), (5,)])
def test_outputs_without_the_rows_are_refused(shape: tuple[int, ...]) -> None:
    outputs = {"fine": np.zeros((4, 1)), "y": np.zeros(shape)}
    with pytest.raises(RowsLost, match='output "y"'):
        check_rows(outputs, 4)
    check_rows({"fine": outputs["fine"]}, 4)


LARGE = np.zeros((2, SMALL), np.uint8)


def test_memory_of_a_batch_is_counted_while_anything_refers_to_it() -> None:
    gc.collect()
    before = BUDGET.held
    inputs = joined([{"x": LARGE}, {"x": LARGE}], 4, 5)
    assert BUDGET.held - before == 5 * SMALL
    outputs = counted_copies({"y": LARGE})
    last = list(split(outputs, [1, 1]))[-1]
    assert BUDGET.held - before == 7 * SMALL
    del inputs, outputs
    assert BUDGET.held - before == 2 * SMALL
    whole = together([last, last])
    # Readers may look at the type, as orjson does.
    assert {type(last["y"]), type(whole["y"])} == {np.ndarray}
    del last, whole
    assert BUDGET.held == before


def test_small_batches_are_not_counted() -> None:
    before = BUDGET.held
    held = joined([numbered(2), numbered(2)], 4, 4), counted_copies(numbered(3))
    assert BUDGET.held == before
    del held

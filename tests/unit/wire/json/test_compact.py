"""Large replies of numbers: any JSON reader gets every value, however many pieces were printed."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ie_serving.core.values.tensors import Array
from ie_serving.wire.json.response import PIECE, compact

DTYPES = [np.float32, np.float64, np.int8, np.int64, np.uint64, np.longlong, np.ulonglong, np.bool_]


@st.composite
def arrays(draw: st.DrawFn, least_dims: int = 0) -> Array:
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(hnp.array_shapes(min_dims=least_dims, max_dims=3, min_side=0))
    finite = {"allow_nan": False, "allow_infinity": False} if np.dtype(dtype).kind == "f" else None
    array: Array = draw(hnp.arrays(dtype, shape, elements=finite))
    return array


def check(found: object, array: Array) -> None:
    """The values, bit by bit, and the brackets of the shape."""
    assert np.array(found, array.dtype).reshape(array.shape).tobytes() == array.tobytes()
    assert np.shape(found) == np.shape(array.tolist())


@given(arrays())
def test_one_column_is_printed_and_read_back(array: Array) -> None:
    reply = compact({"y": array}, rows=False)
    assert b" " not in reply
    check(json.loads(reply)["outputs"], array)


@given(arrays(), arrays())
def test_several_columns_are_printed_and_read_back(one: Array, other: Array) -> None:
    reply = json.loads(compact({"a": one, 'b"': other}, rows=False))
    assert list(reply["outputs"]) == ["a", 'b"']
    check(reply["outputs"]["a"], one)
    check(reply["outputs"]['b"'], other)


@given(st.integers(0, 4), st.data())
def test_several_outputs_are_printed_in_rows(rows: int, data: st.DataObject) -> None:
    one = data.draw(hnp.arrays(np.int32, (rows, 2)))
    other = data.draw(hnp.arrays(np.bool_, (rows,)))
    expected = [{"a": a, "b": b} for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    assert json.loads(compact({"a": one, "b": other}, rows=True)) == {"predictions": expected}


@pytest.mark.parametrize(
    "shape",
    [(2 * PIECE + 1,), (3, PIECE), (2, PIECE + 1), (PIECE + 1, 1), (7, 3, 5, PIECE // 64)],
    ids=str,
)
def test_pieces_are_cut_between_rows_and_nothing_is_lost(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    assert json.loads(compact({"y": array}, rows=True)) == {"predictions": array.tolist()}


def test_an_array_that_lies_in_another_order_in_memory_is_written_in_its_order() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    assert compact({"y": array}, rows=True) == b'{"predictions":[[0.0,3.0],[1.0,4.0],[2.0,5.0]]}'


@pytest.mark.parametrize("shape", [(2 * PIECE + 1,), (3, PIECE), (PIECE + 1, 2)])
def test_words_stand_in_their_places_in_every_piece(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype=np.float32)
    array[::3], array[1::7], array[-1] = np.nan, -np.inf, np.inf
    array = array.reshape(shape)
    found = json.loads(compact({"y": array}, rows=True))["predictions"]
    assert np.array_equal(np.array(found, np.float32), array, equal_nan=True)

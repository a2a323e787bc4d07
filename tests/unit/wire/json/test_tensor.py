"""One parsed JSON value as an array: its dtype, its shape, and what is said of one that is none."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import DataType
from ie_serving.wire.json.tensor import MAX_RANK, PIECE, RowCheck, decode_tensor, try_tensor
from tests.tables import named_by

NUMBERS = [dtype for dtype in DataType if dtype.numpy.kind in "fiub"]
INTEGERS = [dtype for dtype in DataType if dtype.numpy.kind in "iu"]
DEEP: Any = 1
for _ in range(MAX_RANK + 1):
    DEEP = [DEEP]


@given(st.data(), st.sampled_from(NUMBERS))
def test_lists_of_numpy_are_read_back(data: st.DataObject, dtype: DataType) -> None:
    """Every dtype, every shape, scalars and empty lists among them."""
    shapes = hnp.array_shapes(min_dims=0, min_side=0)
    finite = {"allow_nan": False, "allow_infinity": False} if dtype.numpy.kind == "f" else None
    array = data.draw(hnp.arrays(dtype.numpy, shapes, elements=finite))
    shape = array.shape[: array.shape.index(0) + 1] if 0 in array.shape else array.shape
    found = decode_tensor(array.tolist(), dtype)
    # An empty list has no elements to tell the dimensions behind it.
    assert (found.dtype, found.shape) == (dtype.numpy, shape)
    assert found.tobytes() == array.tobytes()


@pytest.mark.thinned
@pytest.mark.parametrize(
    "shape", [(2 * PIECE + 1,), (PIECE + 1, 1), (3, PIECE), (5, 2, PIECE)], ids=str
)
@pytest.mark.parametrize("dtype", [DataType.FP32, DataType.INT64, DataType.STRING])
def test_pieces_are_cut_between_rows_and_nothing_is_lost(
    shape: tuple[int, ...], dtype: DataType
) -> None:
    numbers = np.arange(np.prod(shape)).reshape(shape)
    sent = numbers.astype(str) if dtype is DataType.STRING else numbers
    expected = np.char.encode(sent) if dtype is DataType.STRING else sent
    found = decode_tensor(sent.tolist(), dtype)
    assert found.dtype == dtype.numpy
    assert found.tolist() == expected.astype(dtype.numpy).tolist()


@pytest.mark.parametrize("odd", [[1.0, 2.0], [], 1.0, ["x"]], ids=["long", "empty", "flat", "text"])
def test_a_row_of_a_later_piece_has_to_agree_with_the_first(odd: Any) -> None:
    rows: list[Any] = [[0.5]] * (2 * PIECE)
    rows[PIECE + 7] = odd
    with pytest.raises(InvalidRequest):
        decode_tensor(rows, DataType.FP32)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_strings_are_their_utf_8(texts: list[str]) -> None:
    found = decode_tensor(texts, DataType.STRING)
    assert found.tolist() == [text.encode() for text in texts]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_an_integer_reaches_from_the_least_to_the_largest_of_its_dtype(dtype: DataType) -> None:
    limits = np.iinfo(dtype.numpy)
    assert decode_tensor([int(limits.min), int(limits.max)], dtype).tolist() == [
        limits.min,
        limits.max,
    ]
    for value in (int(limits.min) - 1, int(limits.max) + 1):
        with pytest.raises(InvalidRequest, match=f"outside of {limits.min} to {limits.max}"):
            decode_tensor(value, dtype)


@pytest.mark.parametrize(("value", "dtype"), [(1e39, DataType.FP32), (70_000, DataType.FP16)])
def test_a_number_that_a_float_cannot_hold_is_infinite(value: float, dtype: DataType) -> None:
    """As in TensorFlow Serving, which reads a double and casts it."""
    assert decode_tensor([value, -value], dtype).tolist() == [np.inf, -np.inf]


@named_by(
    "value",
    ("value", "dtype", "text"),
    [
        ([1, "2"], DataType.FP32, 'JSON Value: "2" Type: String is not of expected type: float'),
        ([1, True], DataType.FP32, "JSON Value: true Type: True is not of expected type: float"),
        ([1, None], DataType.INT32, "JSON Value: null Type: Null is not of expected type: int32"),
        ([1.0], DataType.INT32, "JSON Value: 1.0 Type: Number is not of expected type: int32"),
        ([0], DataType.BOOL, "JSON Value: 0 Type: Number is not of expected type: bool"),
        (["a", 1], DataType.STRING, "JSON Value: 1 Type: Number is not of expected type: string"),
        ([{"b64": "?"}], DataType.STRING, "Unable to base64 decode"),
        ([{"b64": "AA", "x": 1}], DataType.STRING, "not formatted correctly for base64 data"),
        ([[1, 2], [3]], DataType.FP32, "unexpected size: 1 at level: 1 expected size: 2"),
        ([1, [2]], DataType.FP32, "list at unexpected level: 1 expected < 1"),
        ([[1], 2], DataType.FP32, "JSON Value: 2 found at incorrect level: 2"),
        (DEEP, DataType.FP32, "list at unexpected level: 32 expected < 32"),
    ],
)
def test_the_first_fault_is_named(value: Any, dtype: DataType, text: str) -> None:
    """In TensorFlow Serving's words; and `try_tensor` has no array for it."""
    assert try_tensor(value, dtype) is None
    with pytest.raises(InvalidRequest) as refused:
        decode_tensor(value, dtype)
    assert text in str(refused.value)


@pytest.mark.parametrize("place", [0, 1023, 1024, 4999])
def test_a_fault_is_found_wherever_it_is_among_many(place: int) -> None:
    values: list[Any] = [0] * 5000
    values[place] = "here"
    values[-1] = values[-1] or "and here"
    with pytest.raises(InvalidRequest, match='"here"'):
        decode_tensor(values, DataType.FP32)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        pytest.param([[1, 2], [1]], "Expecting tensor size: 2 but got: 1", id="size"),
        pytest.param([[1, 2], [[1], [2]]], r"Expecting shape \[2\] but got: \[2,1\]", id="shape"),
        pytest.param([1, 2, "x"], "not of expected type: float", id="element"),
        pytest.param([DEEP[0]], "expected < 31", id="no dimension is left for the batch"),
    ],
)
def test_rows_have_to_agree_with_the_first(rows: list[Any], text: str) -> None:
    check = RowCheck(DataType.FP32)
    for row in rows[:-1]:
        check.check(row)
    with pytest.raises(InvalidRequest, match=text):
        check.check(rows[-1])

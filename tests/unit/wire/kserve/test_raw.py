"""Raw tensors of the Open Inference Protocol, and its words for element types."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ie_serving.core.runtime.budget import Budget
from ie_serving.core.values.errors import BudgetFull, InvalidTensor
from ie_serving.core.values.tensors import DataType, strings
from ie_serving.wire.kserve import raw
from ie_serving.wire.kserve.datatypes import BY_NAME, NAME_OF, datatype
from ie_serving.wire.kserve.raw import (
    checked_shape,
    decode_raw,
    encode_raw,
    join_elements,
    split_elements,
)

EXACT = [each for each in DataType if each not in (DataType.STRING, DataType.BF16)]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def test_every_element_type_has_a_word_of_the_protocol() -> None:
    words = "BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 FP32 FP64 BYTES BF16"
    assert set(BY_NAME) == set(words.split())
    assert all(datatype(word, "x") is each for each, word in NAME_OF.items())


@pytest.mark.parametrize(
    "word",
    [
        pytest.param("STRING", id="STRING"),
        pytest.param("fp32", id="lower case"),
        pytest.param("", id="nothing"),
        pytest.param(None, id="None"),
        pytest.param(3, id="a number"),
        pytest.param(["FP32"], id="a list"),
        pytest.param({}, id="an object"),
    ],
)
def test_other_words_are_refused_by_naming_the_input(word: object) -> None:
    with pytest.raises(InvalidTensor, match=r'input "x" has datatype .* expected one of'):
        datatype(word, "x")


@given(st.data())
def test_numbers_come_back_as_they_went(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(EXACT))
    array = data.draw(hnp.arrays(dtype.numpy, SHAPES))
    sent = bytes(encode_raw(array, dtype))
    again = decode_raw(sent, dtype, array.shape, "x")
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert again.tobytes() == array.tobytes()


def test_bf16_is_the_upper_half_of_a_float32() -> None:
    array = np.array([1.5, -2.0, np.inf], np.float32)
    sent = bytes(encode_raw(array, DataType.BF16))
    assert sent == b"\xc0\x3f\x00\xc0\x80\x7f"
    assert decode_raw(sent, DataType.BF16, (3,), "x").tolist() == array.tolist()


def test_an_array_that_is_not_contiguous_is_written_in_row_major_order() -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3).T
    assert bytes(encode_raw(array, DataType.INT16)) == array.tobytes("C")


def test_any_byte_but_0_is_true() -> None:
    assert decode_raw(b"\x00\x01\x07", DataType.BOOL, (3,), "x").tolist() == [False, True, True]


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_elements_of_bytes_come_back_as_they_went(elements: list[bytes]) -> None:
    assert split_elements(join_elements(elements), len(elements), "x") == elements


def test_many_elements_are_counted_for_as_long_as_they_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six bytes become an object of 64: no body may take more than the budget has."""
    budget = Budget(1 << 20)
    monkeypatch.setattr(raw, "BUDGET", budget)
    sent = [b"ab"] * 10_000
    array = decode_raw(join_elements(sent), DataType.STRING, (100, 100), "x")
    assert array.reshape(-1).tolist() == sent
    view = array[:1]
    del array
    assert budget.held == 640_000
    with pytest.raises(BudgetFull):
        decode_raw(join_elements(sent), DataType.STRING, (10_000,), "x")
    del view
    assert budget.held == 0


def test_elements_have_the_form_of_triton() -> None:
    array = strings([b"ab", b"", b"\x00"]).reshape(3, 1)
    sent = encode_raw(array, DataType.STRING)
    assert sent == b"\x02\x00\x00\x00ab\x00\x00\x00\x00\x01\x00\x00\x00\x00"
    assert decode_raw(sent, DataType.STRING, (3, 1), "x").tolist() == array.tolist()


@given(st.binary(max_size=64), st.integers(0, 1 << 70))
def test_nothing_else_is_taken_for_elements(sent: bytes, count: int) -> None:
    try:
        elements = split_elements(sent, count, "x")
    except InvalidTensor:
        return
    assert join_elements(elements) == sent
    assert len(elements) == count


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [
        pytest.param(DataType.FP32, (2, 2), 15, id="too few"),
        pytest.param(DataType.FP32, (2, 2), 17, id="too many"),
        pytest.param(DataType.FP32, (), 0, id="a scalar is one element"),
        pytest.param(DataType.INT8, (1 << 40, 1 << 40), 8, id="more than there is memory"),
        pytest.param(DataType.STRING, (1 << 40,), 8, id="more elements than there is memory"),
        pytest.param(DataType.INT8, (0, 1 << 62, 1 << 62), 0, id="nothing, of an impossible shape"),
        pytest.param(DataType.INT8, (0, 1 << 70), 0, id="nothing, of no shape of numpy"),
    ],
)
def test_bytes_that_do_not_fit_the_shape_are_refused(
    dtype: DataType, shape: tuple[int, ...], size: int
) -> None:
    with pytest.raises(InvalidTensor, match='input "x" has'):
        decode_raw(b"\x00" * size, dtype, shape, "x")


@pytest.mark.parametrize(
    "sizes", [[-1], [2, -3], [1.0], ["1"], [None], [True], [[1]], [1] * 33], ids=str
)
def test_sizes_that_are_no_shape_are_refused(sizes: list[object]) -> None:
    with pytest.raises(InvalidTensor, match='input "x" has'):
        checked_shape(sizes, "x")


def test_a_shape_is_a_tuple_of_sizes() -> None:
    assert checked_shape([2, 0, 3], "x") == (2, 0, 3)

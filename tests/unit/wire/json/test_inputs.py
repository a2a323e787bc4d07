"""Rows and columns of parsed JSON as the inputs of a signature."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.image_form import ImageForm
from ie_serving.core.values.tensors import Array, DataType, TensorSpec
from ie_serving.wire.json.inputs import decode_columns, decode_rows, dtypes_for, without_left_out

ONE = {"x": DataType.FP32}
TWO = {"a": DataType.INT32, "b": DataType.STRING}
BATCHES = hnp.arrays(np.int32, hnp.array_shapes(max_dims=3))


@given(BATCHES)
def test_rows_and_columns_of_the_same_values_are_the_same_tensor(batch: Array) -> None:
    dtypes = {"a": DataType.INT32}
    values = batch.tolist()
    for found in (
        decode_rows(values, dtypes),
        decode_rows([{"a": row} for row in values], dtypes),
        decode_columns(values, dtypes),
        decode_columns({"a": values}, dtypes),
    ):
        assert found["a"].dtype == np.int32
        assert found["a"].shape == batch.shape
        assert (found["a"] == batch).all()


def test_several_inputs_are_taken_by_name() -> None:
    rows = [{"a": [1, 2], "b": "x"}, {"b": {"b64": "eQ=="}, "a": [3, 4]}]
    columns = {"a": [[1, 2], [3, 4]], "b": ["x", "y"], "else": None}
    for found in (decode_rows(rows, TWO), decode_columns(columns, TWO)):
        assert list(found) == ["a", "b"]
        assert found["a"].tolist() == [[1, 2], [3, 4]]
        assert found["b"].tolist() == [b"x", b"y"]


def test_an_object_of_base64_is_a_value_and_names_no_input() -> None:
    (found,) = decode_rows([{"b64": "eA=="}], {"s": DataType.STRING}).values()
    assert found.tolist() == [b"x"]
    (found,) = decode_columns({"b64": "eA=="}, {"s": DataType.STRING}).values()
    assert found.tolist() == b"x"


@pytest.mark.parametrize("place", [0, 1, 1024, 2047, 2999])
def test_the_first_row_at_fault_is_named_wherever_it_is(place: int) -> None:
    rows: list[Any] = [0.5] * 3000
    rows[place:] = ["x"] * (3000 - place)
    with pytest.raises(InvalidRequest, match=f"element: {place} of"):
        decode_rows(rows, ONE)


@pytest.mark.parametrize(
    ("value", "left"),
    [
        pytest.param([{"a": 1}, {"a": 1, "b": "x"}], ["a"], id="rows: the first tells"),
        pytest.param({"a": [1]}, ["a"], id="columns"),
        pytest.param({"b": ["x"]}, ["a", "b"], id="what has no default stays"),
        pytest.param([1], ["a"], id="a plain list names none"),
        pytest.param([], ["a"], id="nothing"),
    ],
)
def test_inputs_with_a_default_may_be_left_out(value: Any, left: list[str]) -> None:
    assert list(without_left_out(value, TWO, {"b"})) == left


# -- images ----------------------------------------------------------------------------------------

B64 = {"b64": "eA=="}
IMAGE = TensorSpec(
    "x",
    DataType.FP32,
    (-1, 4, 4, 3),
    "x:0",
    image=ImageForm("NHWC", ((0, 9), (4, 4), (4, 4), (3, 3)), "BGR"),
)
PLAIN = TensorSpec("n", DataType.FP32, (-1,), "n:0")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(B64, id="a scalar"),
        pytest.param([B64, B64], id="a list"),
        pytest.param({"x": B64}, id="a named scalar"),
        pytest.param({"x": [B64]}, id="a named list"),
        pytest.param([{"x": B64}, {"x": B64}], id="rows by name"),
        pytest.param([{"x": B64, "n": 1}], id="a row beside a number"),
        pytest.param({"x": [B64], "n": [1]}, id="a list beside numbers"),
    ],
)
def test_base64_for_images_is_read_as_strings(value: Any) -> None:
    found = dtypes_for(value, {"x": IMAGE, "n": PLAIN})
    assert found == {"x": DataType.STRING, "n": DataType.FP32}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(1.0, id="a number"),
        pytest.param([[1]], id="a matrix"),
        pytest.param({"x": [1]}, id="a named list"),
        pytest.param([{"x": [[1]]}], id="a row by name"),
        pytest.param([], id="an empty list"),
        pytest.param({}, id="an empty object"),
        pytest.param({"n": 1}, id="another input"),
        pytest.param(["text"], id="a text"),
        pytest.param(None, id="null"),
        pytest.param([{"n": B64}], id="base64 of another input"),
    ],
)
def test_anything_else_is_read_as_numbers(value: Any) -> None:
    assert dtypes_for(value, {"x": IMAGE})["x"] is DataType.FP32


def test_base64_for_inputs_without_images_is_no_number() -> None:
    assert dtypes_for([B64], {"n": PLAIN})["n"] is DataType.FP32

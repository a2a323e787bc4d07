"""Requests that are made up: names, dtypes and shapes are the signature's."""

import json

import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import DataType, Signature, TensorSpec
from ie_serving.wire.clients.sample import (
    MOST_ELEMENTS,
    NestedValue,
    chosen,
    inlined,
    inputs,
    text_of,
)
from tests.tables import named_by


def spec(dtype: DataType, *shape: int) -> dict[str, TensorSpec]:
    return {"x": TensorSpec("x", dtype, shape, "")}


@named_by(
    "dtype shape",
    ("dtype", "shape", "value"),
    [
        (DataType.FP32, (-1, 3), [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]),
        (DataType.BF16, (1,), [1.0]),
        (DataType.INT64, (), 1),
        (DataType.UINT8, (2,), [1, 1]),
        (DataType.BOOL, (1, 1), [[True]]),
        (DataType.STRING, (-1,), ["", ""]),
        (DataType.FP32, (0, 2), []),
    ],
)
def test_values_are_made_by_dtype_and_shape(
    dtype: DataType, shape: tuple[int, ...], value: object
) -> None:
    made = json.loads(text_of(inputs(spec(dtype, *shape), open_size=2)))
    assert json.dumps(made) == json.dumps({"x": value}), "1, 1.0 and true are equal to Python"


def test_an_input_of_any_rank_is_a_list() -> None:
    specs = {"x": TensorSpec("x", DataType.INT32, None, "")}
    assert json.loads(text_of(inputs(specs, open_size=1))) == {"x": [1]}


def test_open_dimensions_keep_to_their_bounds() -> None:
    specs = {"x": TensorSpec("x", DataType.INT32, (-1, -1), "", bounds=((3, 9), (0, 1)))}
    assert json.loads(text_of(inputs(specs, open_size=2))) == {"x": [[1], [1], [1]]}


def test_names_are_quoted_and_ascii() -> None:
    specs = {'a"\u00e9\n': TensorSpec("", DataType.INT32, (), "")}
    text = text_of(inputs(specs, open_size=1))
    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text) == {'a"\u00e9\n': 1}


def test_a_long_value_stays_a_piece() -> None:
    specs = {**spec(DataType.FP32, 300), "n": TensorSpec("n", DataType.INT32, (), "")}
    pieces = inlined(["<", *inputs(specs, open_size=1), ">"])
    assert pieces == ['<{"x": ', NestedValue("1.0", (300,)), ', "n": 1}>']


def test_too_many_elements_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="at most"):
        inputs(spec(DataType.FP32, MOST_ELEMENTS + 1), open_size=1)


def signature(name: str, left_out: str = "") -> Signature:
    return Signature(name, spec(DataType.FP32, 1), {}, left_out=left_out)


@pytest.mark.parametrize(
    ("known", "asked", "expected"),
    [
        (("serving_default", "b"), "", "serving_default"),
        (("serving_default", "b"), "b", "b"),
        (("only",), "", "only"),
    ],
)
def test_the_signature_that_is_named_or_alone_is_chosen(
    known: tuple[str, ...], asked: str, expected: str
) -> None:
    signatures = {name: signature(name) for name in known}
    assert chosen("m", signatures, asked).name == expected


@pytest.mark.parametrize(("known", "asked"), [(("a", "b"), ""), (("a",), "b"), ((), "")])
def test_a_signature_that_is_not_there_has_to_be_chosen(known: tuple[str, ...], asked: str) -> None:
    with pytest.raises(InvalidRequest, match="choose one by signature_name"):
        chosen("m", {name: signature(name) for name in known}, asked)


def test_one_that_is_not_served_is_not_chosen() -> None:
    signatures = {"serving_default": signature("serving_default", "it is odd"), "b": signature("b")}
    with pytest.raises(InvalidRequest, match='no signature "serving_default"'):
        chosen("m", signatures, "")

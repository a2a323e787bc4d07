"""REST replies: TensorFlow Serving's bytes when small, its values when large."""

import base64
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import BY_NUMPY, Array, Signature, TensorSpec
from ie_serving.wire.json.request import Format, parse_predict
from ie_serving.wire.json.response import (
    CUT,
    EXACT_NUMBERS,
    LONGEST_ERROR,
    encode_classifications,
    encode_error,
    encode_predictions,
    encode_regressions,
)
from tests.tables import named_by


def f32(values: object) -> Array:
    return np.array(values, np.float32)


def strings(*values: bytes) -> Array:
    return np.array(values, np.object_)


def specs(outputs: dict[str, Array]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(name, BY_NUMPY[array.dtype], None, name) for name, array in outputs.items()
    }


def reply(form: Format, **outputs: Array) -> str:
    text = encode_predictions(outputs, form, specs(outputs))
    return text.decode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        pytest.param(
            {"a": f32([[2.5, 3.0]]), "b": f32([1]), "s_bytes": strings(b"hi")},
            '{\n    "predictions": [\n        {\n            "a": [2.5, 3.0],\n'
            '            "b": 1.0,\n'
            '            "s_bytes": {\n                "b64": "aGk="\n            }\n        }\n'
            "    ]\n}",
            id="an object a row when there are several outputs",
        ),
        pytest.param({"y": f32([])}, '{\n    "predictions": []\n}', id="no rows"),
        pytest.param(
            {"y_bytes": strings(b"\x00", b"")},
            '{\n    "predictions": [{\n            "b64": "AA=="\n        }, {\n'
            '            "b64": ""\n        }\n    ]\n}',
            id="base64 without a name",
        ),
    ],
)
def test_outputs_are_printed_in_rows(outputs: dict[str, Array], text: str) -> None:
    """Source: MakeRowFormatJsonFromTensors, json_tensor.cc.

    Rows and columns of one output are in `tests/functional/conformance/cases/rest_predict.py`.
    """
    assert reply(Format.ROW, **outputs) == text


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        pytest.param(
            {"a": f32([[1]]), "b": f32([])},
            '{\n    "outputs": {\n        "a": [\n            [\n'
            "                1.0\n            ]\n"
            '        ],\n        "b": []\n    }\n}',
            id="an object of several outputs",
        ),
        pytest.param(
            {"y_bytes": strings(b"hi")},
            '{\n    "outputs": [\n        {\n            "b64": "aGk="\n        }\n    ]\n}',
            id="base64 in a list",
        ),
    ],
)
def test_outputs_are_printed_in_columns(outputs: dict[str, Array], text: str) -> None:
    assert reply(Format.COLUMN, **outputs) == text


@named_by(
    "text",
    ("value", "text"),
    [
        (f32(1 / 3), "0.333333343"),
        (np.array(1 / 3), "0.33333333333333331"),
        (np.array(0.1, np.float16), "0.0999756"),
        (np.array(2**63 - 1), "9223372036854775807"),
        (np.array(2**64 - 1, np.uint64), "18446744073709551615"),
        (np.array(-128, np.int8), "-128"),
        (np.array(True), "true"),
    ],
)
def test_numbers_are_printed_as_by_tensorflow_serving(value: Array, text: str) -> None:
    """Source: WriteDecimal, json_tensor.cc. More: conformance/cases/rest_values.py."""
    assert reply(Format.COLUMN, y=value) == f'{{\n    "outputs": {text}\n}}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(b'a"\\\n\x01\x1f/', r'"a\"\\\n\u0001\u001F/"', id="escapes"),
        pytest.param("é€".encode(), '"é€"', id="UTF-8 stays"),
        pytest.param(b"\xff\xfe", '"\udcff\udcfe"', id="what is no UTF-8 stays too"),
    ],
)
def test_strings_are_written_raw(value: bytes, text: str) -> None:
    assert reply(Format.ROW, s=strings(value)) == f'{{\n    "predictions": [{text}\n    ]\n}}'


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        ({}, "Cannot convert empty tensor map to JSON"),
        ({"y": f32(1)}, "Tensor name: y has no shape information "),
        (
            {"a": f32([1, 2]), "b": f32([1])},
            "Tensor name: b has inconsistent batch size: 1 expecting: 2",
        ),
    ],
)
def test_outputs_that_cannot_be_rows_are_refused(outputs: dict[str, Array], text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        reply(Format.ROW, **outputs)
    assert text in str(caught.value)


NUMERIC = ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "uint64", "bool"]


@st.composite
def numeric_arrays(draw: st.DrawFn) -> Array:
    dtype = draw(st.sampled_from(NUMERIC))
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
    array: Array = draw(hnp.arrays(dtype, shape))
    repeat = draw(st.sampled_from([1, EXACT_NUMBERS + 1]))
    return np.tile(array, (repeat,) + (1,) * (array.ndim - 1))


@given(numeric_arrays(), st.sampled_from(Format), st.booleans())
def test_every_value_survives_in_every_layout(array: Array, form: Format, named: bool) -> None:
    """What is written reads back as the same value, small or large, alone or beside another."""
    outputs = {"a": array, "null": array[:, None]} if named else {"a": array}
    content = json.loads(reply(form, **outputs))
    content = content["predictions" if form is Format.ROW else "outputs"]
    for name, expected in outputs.items():
        got = content
        if named:
            got = [row[name] for row in content] if form is Format.ROW else content[name]
        read = np.array(got, expected.dtype).reshape(expected.shape)
        np.testing.assert_array_equal(read, expected)


@given(numeric_arrays(), st.sampled_from(Format))
def test_a_reply_can_be_sent_back_as_a_request(array: Array, form: Format) -> None:
    if array.size == 0:
        return
    text = encode_predictions({"x": array}, form, specs({"x": array}))
    body = text.replace(b"predictions", b"instances").replace(b"outputs", b"inputs")
    arrays, read_form = parse_predict(body).decode(Signature("s", specs({"x": array}), {}))
    assert read_form is form
    np.testing.assert_array_equal(arrays["x"], array)


@given(st.lists(st.binary(max_size=8), min_size=1), st.sampled_from([1, EXACT_NUMBERS]))
def test_bytes_survive_as_base64(values: list[bytes], repeat: int) -> None:
    content = json.loads(reply(Format.ROW, y_bytes=strings(*values * repeat)))
    got = [base64.b64decode(row["b64"]) for row in content["predictions"]]
    assert got == values * repeat


def test_a_large_reply_has_no_white_space_and_the_words_for_what_is_not_finite() -> None:
    values = f32([1, np.nan, np.inf, -np.inf, 0.1] * EXACT_NUMBERS)
    row = "1.0,NaN,Infinity,-Infinity,0.1"
    assert reply(Format.ROW, y=values) == f'{{"predictions":[{",".join([row] * EXACT_NUMBERS)}]}}'


def test_the_largest_exact_reply_is_printed_prettily() -> None:
    assert reply(Format.ROW, y=np.zeros(EXACT_NUMBERS, np.int8)).startswith("{\n")
    assert reply(Format.ROW, y=np.zeros(EXACT_NUMBERS + 1, np.int8)).startswith('{"predictions"')


def test_classifications_are_printed() -> None:
    results = [[(b"car", 0.2), (b"bike", 0.7)], [(b"", math.nan)]]
    text = '{\n    "results": [[["car", 0.2], ["bike", 0.7]], [["", NaN]]\n    ]\n}'
    assert encode_classifications(results).decode() == text


def test_regressions_are_printed() -> None:
    assert encode_regressions([3.5, 4]) == b'{\n    "results": [3.5, 4.0]\n}'
    assert encode_regressions(f32([[0.1]])) == b'{\n    "results": [0.1]\n}'


def test_empty_results_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="Cannot convert empty ClassificationResults to JSON"):
        encode_classifications([])
    with pytest.raises(InvalidRequest, match="Cannot convert empty RegressionResults to JSON"):
        encode_regressions([])


def test_an_error_that_quotes_a_whole_body_is_cut() -> None:
    text = json.loads(encode_error("no " + '"' * 1_000_000))["error"]
    assert len(text) == LONGEST_ERROR + len(CUT)
    assert text.endswith(f'"{CUT}')


few = hnp.array_shapes(min_dims=1, max_dims=3, max_side=5)


@given(
    st.sampled_from([np.float32, np.float64, np.int64, np.uint8, np.bool_]).flatmap(
        lambda dtype: hnp.arrays(dtype, few)
    ),
    st.sampled_from(list(Format)),
)
def test_the_short_way_writes_what_the_general_way_writes(array: Array, form: Format) -> None:
    """Only what lies in memory as it is read takes the short way."""
    scattered = np.repeat(array, 2, axis=-1)[..., ::2]
    assert reply(form, y=array) == reply(form, y=scattered)
    assert reply(form, y=array, z=array[:, None]) == reply(form, y=scattered, z=array[:, None])
    row, apart = array[None], scattered[None]
    assert reply(form, y=row, z=row[:, 0]) == reply(form, y=apart, z=row[:, 0])

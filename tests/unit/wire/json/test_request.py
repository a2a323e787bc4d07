"""REST request bodies: which are taken, as what, and TensorFlow Serving's words for the rest."""

import base64
import json
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec
from ie_serving.wire.json.request import Format, parse_predict
from tests.tables import named_by


def signature(**dtypes: DataType) -> Signature:
    specs = {name: TensorSpec(name, dtype, None, name) for name, dtype in dtypes.items()}
    return Signature("serving_default", specs, {})


X = signature(x=DataType.FP32)
TWO = signature(a=DataType.INT32, b=DataType.FP32)


def decode(body: bytes | str, asked: Signature = X) -> dict[str, Array]:
    raw = body.encode() if isinstance(body, str) else body
    return parse_predict(raw).decode(asked)[0]


def fault(body: bytes | str, asked: Signature = X) -> str:
    with pytest.raises(InvalidRequest) as caught:
        decode(body, asked)
    return str(caught.value)


@named_by(
    "body",
    ("body", "shape"),
    [
        ('{"instances": [1, 2.5]}', (2,)),
        ('{"instances": [[1, 2], [3, 4], [5, 6]]}', (3, 2)),
        ('{"instances": [[], []]}', (2, 0)),
        ('{"instances": [{"x": [1, 2]}, {"x": [3, 4]}]}', (2, 2)),
        ('{"instances": [{"x": 1}]}', (1,)),
        ('{"inputs": 1}', ()),
        ('{"inputs": []}', (0,)),
        ('{"inputs": [[1], [2]]}', (2, 1)),
        ('{"inputs": {"x": [[1], [2]]}}', (2, 1)),
        ('{"inputs": {"x": 3, "other": "let be"}}', ()),
        ('{"inputs": [[[1]]], "ignored": [[{"y": null}]]}', (1, 1, 1)),
        ('{"instances": [NaN, -Infinity]}', (2,)),
        ('{"instances": [1]} garbage', (1,)),
        ('{"instances": [1], "instances": [1, 2]}', (1,)),
        ('{"inputs": {"x": 1, "x": [1]}}', ()),
    ],
)
def test_the_nesting_is_the_shape(body: str, shape: tuple[int, ...]) -> None:
    array = decode(body)["x"]
    assert (array.shape, array.dtype) == (shape, np.float32)


def test_several_inputs_are_read_from_rows_and_columns() -> None:
    row = decode('{"instances": [{"a": 1, "b": [2]}, {"b": [3], "a": 4}]}', TWO)
    assert row["a"].tolist() == [1, 4]
    assert row["b"].tolist() == [[2], [3]]
    column = decode('{"inputs": {"a": [1, 4], "b": [[2]], "c": 5}}', TWO)
    assert column["a"].tolist() == [1, 4]
    assert column["b"].tolist() == [[2]]


def test_the_format_and_the_signature_name_are_read() -> None:
    body = parse_predict(b'{"signature_name": "s", "instances": [1]}')
    assert body.signature_name == "s"
    assert body.decode(X)[1] is Format.ROW
    body = parse_predict(b'{"inputs": [1]}')
    assert body.signature_name == ""
    assert body.decode(X)[1] is Format.COLUMN


@pytest.mark.parametrize("dtype", list(DataType))
def test_every_dtype_is_read(dtype: DataType) -> None:
    value = {DataType.BOOL: "true", DataType.STRING: '"hé"'}.get(dtype, "7")
    array = decode(f'{{"instances": [[{value}]]}}', signature(x=dtype))["x"]
    expected = {DataType.BOOL: True, DataType.STRING: "hé".encode()}.get(dtype, 7)
    assert (array.dtype, array.tolist()) == (dtype.numpy, [[expected]])


def test_strings_and_base64_are_read() -> None:
    body = b'{"instances": ["a\\u0000", {"b64": "/+8="}, {"b64": "/+8"}, "\xff"]}'
    array = decode(body, signature(x=DataType.STRING))["x"]
    assert array.tolist() == [b"a\0", b"\xff\xef", b"\xff\xef", b"\xff"]


def test_a_zero_byte_in_a_name_is_a_byte_like_any_other() -> None:
    with pytest.raises(InvalidRequest, match="does not have named input: x\x00"):
        decode('{"instances": [{"x\\u0000": 1}]}')
    with pytest.raises(InvalidRequest, match="Missing named input: x"):
        decode('{"inputs": {"x\\u0000": 1}}')


def test_a_base64_object_is_data_even_for_an_input_of_that_name() -> None:
    asked = signature(b64=DataType.STRING)
    assert decode('{"inputs": {"b64": "aGk="}}', asked)["b64"].tolist() == b"hi"


@named_by(
    "text",
    ("text", "value"),
    [("1e300", math.inf), ("-1e300", -math.inf), ("1e-300", 0.0), ("16777217", 16777216.0)],
)
def test_floats_round_to_what_the_dtype_has(text: str, value: float) -> None:
    assert decode(f'{{"instances": [{text}]}}')["x"].tolist() == [value]


@pytest.mark.parametrize("dtype", [d for d in DataType if d.numpy.kind in "iu"])
def test_integers_in_range_are_read_and_others_refused(dtype: DataType) -> None:
    info = np.iinfo(dtype.numpy)
    low, high = int(info.min), int(info.max)
    asked = signature(x=dtype)
    assert decode(f'{{"instances": [{low}, {high}]}}', asked)["x"].tolist() == [low, high]
    for value in (low - 1, high + 1):
        text = fault(f'{{"instances": [{value}]}}', asked)
        assert "Type: Number is not of expected type: " + dtype.word in text


PREFIX = "Failed to process element: {} of 'instances' list. Error: INVALID_ARGUMENT: "


@named_by(
    "body",
    ("body", "text"),
    [
        (
            '{"signature_name": 5}',
            'JSON Value: {\n    "signature_name": 5\n} not formatted correctly.'
            " 'signature_name' key must be a string value.",
        ),
        (
            '{"inputs": 1, "instances": [1]}',
            'JSON Value: {\n    "inputs": 1,\n    "instances": [1]\n} Not formatted correctly'
            " expecting only one of 'inputs' or 'instances' keys to exist ",
        ),
        (
            '{"instances": []}',
            "JSON Value: {\n    \"instances\": []\n} No values in 'instances' array",
        ),
        (
            '{"instances": [{"x": 1}, {"x": "a"}]}',
            "Failed to process element: 1 key: x of 'instances' list. Error: INVALID_ARGUMENT:"
            ' JSON Value: "a" Type: String is not of expected type: float',
        ),
        (
            '{"instances": [{}]}',
            "Failed to process element: 0 of 'instances' list. JSON object: {} keys must be equal"
            " to: x",
        ),
        (
            '{"inputs": [[1, 2], [3, [4]]]}',
            "Encountered list at unexpected level: 2 expected < 2",
        ),
        (
            '{"inputs": [[1, 2], [[3, 4], []]]}',
            "Encountered list at unexpected level: 2 expected < 2",
        ),
        (
            '{"instances": [[1, 2], [3]]}',
            PREFIX.format(1) + "Expecting tensor size: 2 but got: 1",
        ),
        (
            '{"instances": [[1, 2], [[3], [4]]]}',
            PREFIX.format(1) + "Expecting shape [2] but got: [2,1]",
        ),
        (
            '{"instances": [1, {"b64": "aGk="}]}',
            PREFIX.format(1) + 'JSON Value: {\n    "b64": "aGk="\n} Type: Object is not of'
            " expected type: float",
        ),
    ],
)
def test_a_body_is_refused_in_tensorflow_servings_words(body: str, text: str) -> None:
    """Whole texts; more are in `tests/functional/conformance/cases`, `rest_*.py`."""
    assert fault(body) == text


@pytest.mark.parametrize(
    ("asked", "body", "text"),
    [
        (signature(), '{"inputs": 1}', "Failed to get input map for signature: DEFAULT"),
        (
            signature(x=DataType.UINT8),
            '{"inputs": 300}',
            "JSON Value: 300 Type: Number is not of expected type: uint8: it lies outside of 0 to"
            " 255",
        ),
        (
            signature(x=DataType.STRING),
            '{"inputs": {"x": {"b64": 5}}}',
            'JSON Value: {\n    "b64": 5\n} not formatted correctly for base64 data',
        ),
    ],
)
def test_a_body_is_refused_by_the_signature_that_is_asked(
    asked: Signature, body: str, text: str
) -> None:
    assert text in fault(body, asked)


def test_an_error_shows_256_bytes_of_a_value() -> None:
    text = fault(json.dumps(["é" * 10_000]))
    assert text.startswith('JSON Value: ["éé')
    assert len(text.encode()) < 300


@pytest.mark.parametrize("levels", [33, 70, 5_000, 500_000])
@pytest.mark.parametrize("key", ["instances", "inputs"])
def test_nesting_beyond_any_tensor_is_refused(levels: int, key: str) -> None:
    body = f'{{"{key}": {"[" * levels}1{"]" * levels}}}'
    assert "Encountered list at unexpected level" in fault(body)


def test_nesting_in_an_ignored_key_is_let_be() -> None:
    body = f'{{"z": {"[" * 500_000}{"]" * 500_000}, "instances": [1]}}'
    assert decode(body)["x"].tolist() == [1]


def test_a_body_is_decoded_while_another_one_is_held() -> None:
    bodies = [parse_predict(f'{{"instances": [{n}]}}'.encode()) for n in range(5)]
    decoded = [body.decode(X)[0]["x"].tolist() for body in bodies]
    assert decoded == [[0], [1], [2], [3], [4]]


ODD = {
    "ragged at the end": b'{"instances": [' + b"[1.5,2.5]," * 25_000 + b"[1.5]]}",
    "a list among numbers": b'{"inputs": [' + b"1.5," * 60_000 + b"[1.5]]}",
    "NaN everywhere": b'{"inputs": [' + b"NaN," * 60_000 + b'"a"]}',
    "a string among objects": b'{"instances": [' + b'{"x":1},' * 25_000 + b'{"x":""}]}',
    "open brackets": b'{"inputs": ' + b"[" * 250_000,
    "backslashes": b'{"inputs": "' + b"\\" * 250_001,
}


@pytest.mark.parametrize("body", ODD.values(), ids=ODD)
@pytest.mark.timeout(120)
def test_odd_bodies_take_time_and_memory_in_proportion(body: bytes) -> None:
    """0.25 MB each; the bounds are wide, what they exclude grows with the square."""
    tracemalloc.start()
    fault(body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * len(body)


@given(hnp.arrays(np.float32, hnp.array_shapes(max_dims=4)))
def test_every_float_is_read_as_it_was_written(array: Array) -> None:
    got = decode(json.dumps({"instances": array.tolist()}))["x"]
    np.testing.assert_array_equal(got, array)


@given(st.binary())
def test_base64_of_any_bytes_is_read(data: bytes) -> None:
    text = base64.b64encode(data).decode()
    for form in (text, text.rstrip("=")):
        array = decode(json.dumps({"inputs": {"b64": form}}), signature(x=DataType.STRING))["x"]
        assert array.tolist() == data


def test_a_body_of_very_many_inputs_is_not_for_the_event_loop() -> None:
    """To list 300,000 names took it 40 ms."""
    body = parse_predict(
        json.dumps({"inputs": {"x": [1], **dict.fromkeys("abcdefghijklmnopq")}}).encode()
    )
    assert body.decode_at_once(X) is None
    few = parse_predict(b'{"inputs": {"x": [1], "other": 1}}')
    assert few.decode_at_once(X) is not None

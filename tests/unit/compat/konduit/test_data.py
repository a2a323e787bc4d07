"""Data of Konduit Serving that no client means well, and inputs that are written so."""

import base64
import json
import tracemalloc
from typing import Any

import numpy as np
import pytest

from ie_serving.compat.konduit.data import NUMBERS, SHAPE, TYPE, decode
from ie_serving.compat.konduit.routes import data_of
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.image_form import ImageForm
from ie_serving.core.values.tensors import DataType, Signature, TensorSpec
from ie_serving.wire.json.request import Format, parse_at_once


def nested(depth: int, before: str = "[", after: str = "]") -> bytes:
    return (before * depth + "1" + after * depth).encode()


def array(**changed: object) -> bytes:
    found = {TYPE: "FLOAT", SHAPE: [1], NUMBERS: "AAAAAA=="}
    return json.dumps(
        {"x": found | {f"@{name}": value for name, value in changed.items()}}
    ).encode()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(b'{"x": ' + nested(700) + b"}", "too deep", id="lists"),
        pytest.param(nested(700, '{"x":', "}"), "too deep", id="objects"),
        pytest.param(nested(100_000), "too deep", id="very deep lists"),
        pytest.param(array(NDArrayShape=[1] * 100), "expected as many", id="rank"),
        pytest.param(array(NDArrayShape=[0, 2**70], NDArrayDataBase64=""), "0 bytes", id="size"),
        pytest.param(array(NDArrayShape="1" * 1000), "as many as .{,130}$", id="a long shape"),
        pytest.param(array(NDArrayType="F" * 1000), "@NDArrayType is .{,102};", id="a long type"),
    ],
)
def test_a_malicious_body_is_refused(body: bytes, text: str) -> None:
    with pytest.raises(InvalidRequest, match=text):
        decode(body)


def test_places_take_no_more_than_the_body() -> None:
    body = nested(150, f'{{"{"k" * 10_000}":', "}")
    tracemalloc.start()
    try:
        decode(body)
        assert tracemalloc.get_traced_memory()[1] < 8 * len(body)
    finally:
        tracemalloc.stop()


def test_a_field_of_a_form_that_is_too_deep_is_refused() -> None:
    form = b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\n%b\r\n--b--\r\n'
    with pytest.raises(InvalidRequest, match="too deep"):
        data_of(form % nested(100_000), b"multipart/form-data; boundary=b")


ARRAY = {"@NDArrayType": "FLOAT", "@NDArrayShape": [3], "@NDArrayDataBase64": "AAAAAD+AAABAAAAA"}
"""Of the documentation of Konduit Serving, "JSON format"."""
PNG = b"\x89PNG"
IMAGE = {"@ImageFormat": "PNG", "@ImageData": base64.b64encode(PNG).decode()}
BYTES = {"@BytesBase64": "AAEC"}
FORM = ImageForm("NHWC", ((0, 9), (4, 4), (4, 4), (3, 3)), "BGR")
X = TensorSpec("x", DataType.FP32, (-1,), "x:0")
N = TensorSpec("n", DataType.INT64, (), "n:0")
S = TensorSpec("s", DataType.STRING, (-1,), "s:0")
PICTURE = TensorSpec("p", DataType.FP32, (-1, 4, 4, 3), "p:0", image=FORM)


def decoded(body: Any, *specs: TensorSpec) -> dict[str, Any]:
    signature = Signature("serving_default", {spec.name: spec for spec in specs}, {})
    parsed = parse_at_once(json.dumps(body).encode())
    assert parsed is not None
    assert parsed.decode_at_once(signature) is None
    arrays, form = parsed.decode(signature)
    assert form is Format.COLUMN
    return {name: array.tolist() for name, array in arrays.items()}


@pytest.mark.parametrize("body", [{"inputs": {"x": ARRAY}}, {"x": ARRAY}, {"myKey": ARRAY}])
def test_an_array_of_konduit_is_an_input_with_and_without_inputs_around_it(body: Any) -> None:
    assert decoded(body, X) == {"x": [0.0, 1.0, 2.0]}


def test_an_array_of_konduit_keeps_its_dtype() -> None:
    parsed = parse_at_once(json.dumps({"x": {**ARRAY, "@NDArrayType": "INT32"}}).encode())
    assert parsed is not None
    arrays, _ = parsed.decode(Signature("serving_default", {"x": X}, {}))
    assert arrays["x"].dtype == np.int32


@pytest.mark.parametrize(
    ("value", "expected"), [(IMAGE, [PNG]), ([IMAGE, IMAGE], [PNG, PNG]), (BYTES, [b"\0\1\2"])]
)
@pytest.mark.parametrize("spec", [S, PICTURE])
def test_images_and_bytes_are_rows(value: Any, expected: list[bytes], spec: TensorSpec) -> None:
    assert decoded({spec.name: value}, spec) == {spec.name: expected}


def test_plain_values_are_inputs_beside_arrays_and_unknown_names_are_ignored() -> None:
    assert decoded({"n": 3, "x": ARRAY, "other": "let be"}, N, X) == {"n": 3, "x": [0, 1, 2]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param({"x": ARRAY}, "Missing named input: n", id="a missing input"),
        pytest.param(
            {"n": 1, "x": {**ARRAY, "@NDArrayType": "FLAOT"}}, "expected one of", id="another type"
        ),
        pytest.param(
            {"n": 1, "x": {**ARRAY, "@NDArrayShape": [4]}}, "expected as many", id="another shape"
        ),
        pytest.param(
            {"n": 1, "x": {**ARRAY, "@NDArrayDataBase64": "*"}}, "expected base64", id="no base64"
        ),
        pytest.param(
            {"n": 1, "x": {"@cx": 1, "@cy": 2, "@h": 1, "@w": 1}},
            "expected an array, or images",
            id="a box",
        ),
        pytest.param(
            {"n": 1, "x": "@home"}, "Missing 'inputs' or 'instances' key", id="a text for numbers"
        ),
        pytest.param({"n": 1}, "Missing 'inputs' or 'instances' key", id="one input alone"),
        pytest.param(
            {"inputs": {"n": 1, "x": "@home"}},
            "is not of expected type: float",
            id="a text for numbers by name",
        ),
    ],
)
def test_an_input_that_cannot_be_decoded_is_refused(body: Any, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        decoded(body, N, X)

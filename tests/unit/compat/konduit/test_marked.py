"""Bodies of Predict whose inputs are Konduit's data."""

import base64
import json
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.image_form import ImageForm
from ie_serving.core.values.tensors import DataType, Signature, TensorSpec
from ie_serving.wire.json.request import Format, parse_at_once

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
def test_an_array(body: Any) -> None:
    assert decoded(body, X) == {"x": [0.0, 1.0, 2.0]}


def test_an_array_keeps_its_dtype() -> None:
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


def test_plain_values_stand_beside_them() -> None:
    assert decoded({"n": 3, "x": ARRAY, "other": "let be"}, N, X) == {"n": 3, "x": [0, 1, 2]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"x": ARRAY}, "Missing named input: n"),
        ({"n": 1, "x": {**ARRAY, "@NDArrayType": "FLAOT"}}, "expected one of"),
        ({"n": 1, "x": {**ARRAY, "@NDArrayShape": [4]}}, "are no array"),
        ({"n": 1, "x": {**ARRAY, "@NDArrayDataBase64": "*"}}, "not base64"),
        ({"n": 1, "x": {"@cx": 1, "@cy": 2, "@h": 1, "@w": 1}}, "expected an array, or images"),
        ({"n": 1, "x": "@home"}, "Missing 'inputs' or 'instances' key"),
        ({"n": 1}, "Missing 'inputs' or 'instances' key"),
        ({"inputs": {"n": 1, "x": "@home"}}, "is not of expected type: float"),
    ],
)
def test_what_is_no_data_is_refused(body: Any, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        decoded(body, N, X)

"""Replies that are no JSON objects, and the types that ask for them."""

import json

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array
from ie_serving.wire.form import Form, encode_raw, encode_texts, form_of


def strings(*values: bytes) -> Array:
    return np.array(values, object)


@pytest.mark.parametrize(
    ("mime_type", "form"),
    [
        ("", Form.JSON),
        ("application/json", Form.JSON),
        ("image/png", Form.RAW),
        ("IMAGE/JPEG", Form.RAW),
        ("image/*", Form.RAW),
        ("application/octet-stream", Form.RAW),
        ("text/plain; charset=utf-8", Form.TEXTS),
    ],
)
def test_forms_by_type(mime_type: str, form: Form) -> None:
    assert form_of(mime_type) is form


@pytest.mark.parametrize(
    "mime_type", ["png", "image/", "image/png\r\nx: y", "image/\u00e9", "a/b/c"]
)
def test_what_is_no_type_is_refused(mime_type: str) -> None:
    with pytest.raises(InvalidRequest, match="expected a type"):
        form_of(mime_type)


@pytest.mark.parametrize("array", [strings(b"\0\xff"), np.array(b"\0\xff", object)])
def test_the_bytes_of_one_output(array: Array) -> None:
    assert encode_raw({"y": array}) == b"\0\xff"


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ({}, "there are none"),
        ({"a": strings(b"1"), "b": strings(b"2")}, "there are a, b"),
        ({"a": strings(b"1", b"2")}, "not the bytes of one file"),
        ({"a": np.float32([1])}, "not the bytes of one file"),
    ],
)
def test_what_is_not_one_file(outputs: dict[str, Array], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        encode_raw(outputs)


def test_texts_are_one_list() -> None:
    outputs = {"a": strings(b"x", b'"'), "b": strings(b"\xff")}
    assert json.loads(encode_texts(outputs)) == ["x", '"', "\ufffd"]
    with pytest.raises(InvalidRequest, match="holds no texts"):
        encode_texts({"a": np.float32([1])})

"""Forms become inputs, and replies have the types that forms ask for."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.image_form import ImageForm
from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec
from ie_serving.wire.form import ReplyForm, encode_raw, encode_texts, form_of, parse_form
from ie_serving.wire.json.request import Format
from tests.tables import named_by
from tests.unit.wire.test_multipart import TYPE, Field, written

NUMBERS = TensorSpec("n", DataType.FP32, (-1, 2), "n:0")
IMAGE = TensorSpec(
    "x",
    DataType.FP32,
    (-1, 4, 4, 3),
    "x:0",
    image=ImageForm("NHWC", ((0, 9), (4, 4), (4, 4), (3, 3)), "BGR"),
)
MIME: Field = ("out_mime_type", False, b"image/png")
TEXT = TensorSpec("s", DataType.STRING, (-1,), "s:0")


def decoded(specs: list[TensorSpec], *fields: Field) -> dict[str, np.ndarray]:
    signature = Signature("serving_default", {spec.name: spec for spec in specs}, {})
    body = parse_form(written(*fields), TYPE)
    assert body.decode_at_once(signature) is None
    arrays, form = body.decode(signature)
    assert form is Format.ROW
    return arrays


def test_files_of_one_input_are_a_batch() -> None:
    arrays = decoded([IMAGE], ("x", True, b"one"), ("x", True, b"two\0"))
    assert arrays["x"].tolist() == [b"one", b"two\0"]


def test_with_one_input_a_file_may_have_any_name() -> None:
    assert decoded([IMAGE], ("image", True, b"1"))["x"].tolist() == [b"1"]


def test_numbers_come_as_json_beside_files() -> None:
    arrays = decoded([IMAGE, NUMBERS], ("n", False, b"[[1, 2.5]]"), ("x", True, b"1"))
    assert arrays["n"].tolist() == [[1, 2.5]]
    assert arrays["n"].dtype == np.float32


def test_an_image_may_be_sent_as_json_numbers_too() -> None:
    values = np.zeros((1, 4, 4, 3)).tolist()
    assert decoded([IMAGE], ("x", False, str(values).encode()))["x"].shape == (1, 4, 4, 3)


def test_fields_and_files_are_strings_where_the_input_takes_them() -> None:
    assert decoded([TEXT], ("s", False, b"a"), ("s", True, b"b"))["s"].tolist() == [b"a", b"b"]


def test_a_signature_is_named_by_a_field() -> None:
    body = parse_form(written(("signature_name", False, b"other"), ("x", True, b"1")), TYPE)
    assert body.signature_name == "other"
    assert parse_form(written(("x", True, b"1")), TYPE).signature_name == ""


@pytest.mark.parametrize(
    ("specs", "field", "phrase"),
    [
        pytest.param(
            [IMAGE, NUMBERS],
            ("y", True, b"1"),
            'a field "y"; the inputs are n, x',
            id="a file of another name",
        ),
        pytest.param(
            [IMAGE],
            ("y", False, b"1"),
            'a field "y"; the inputs are x',
            id="a field of another name",
        ),
        pytest.param(
            [NUMBERS], ("n", True, b"1"), "takes numbers, and no images", id="a file for numbers"
        ),
        pytest.param([NUMBERS], ("n", False, b"[1"), "JSON Parse error", id="JSON that is cut"),
        pytest.param(
            [NUMBERS],
            ("n", False, b'["a"]'),
            "is not of expected type: float",
            id="texts for numbers",
        ),
        pytest.param(
            [replace(IMAGE, image=None)],
            ("x", True, b"1"),
            "takes numbers, and no images",
            id="a file for an array",
        ),
    ],
)
def test_a_field_that_fits_no_input_is_refused(
    specs: list[TensorSpec], field: Field, phrase: str
) -> None:
    with pytest.raises(InvalidRequest, match=phrase):
        decoded(specs, field)


def test_two_fields_of_json_for_one_input_are_refused() -> None:
    with pytest.raises(InvalidRequest, match='2 fields "n"'):
        decoded([NUMBERS], ("n", False, b"[1]"), ("n", False, b"[1]"))


def test_outputs_and_the_form_of_the_reply_are_asked_for_by_fields() -> None:
    fields: list[Field] = [("x", True, b"1"), ("out_filter", False, b"a, b"), MIME]
    body = parse_form(written(*fields, ("out_filter", False, b"c")), TYPE)
    assert (body.outputs, body.media_type) == (("a", "b", "c"), "image/png")
    signature = Signature("serving_default", {"x": TEXT}, {})
    assert body.decode(signature)[1] is ReplyForm.RAW
    plain = parse_form(written(("x", True, b"1"), ("out_mime_type", False, b"text/plain")), TYPE)
    assert (plain.outputs, plain.media_type) == ((), "")
    assert plain.decode(signature)[1] is ReplyForm.TEXTS


def test_a_file_is_an_input_whatever_its_name() -> None:
    spec = replace(TEXT, name="out_filter")
    assert decoded([spec], ("out_filter", True, b"a"))["out_filter"].tolist() == [b"a"]


def test_for_a_model_that_takes_any_files_are_strings_and_the_rest_says_what_it_is() -> None:
    any_inputs = Signature("serving_default", {}, {}, is_open=True, behind={"n": NUMBERS})
    fields: list[Field] = [("f", True, b"one"), ("n", False, b"[[1, 2]]"), ("i", False, b"7")]
    arrays, form = parse_form(written(*fields), TYPE).decode(any_inputs)
    assert form is Format.ROW and arrays["f"].tolist() == [b"one"]
    assert arrays["n"].dtype == np.float32 and arrays["i"].dtype == np.int64


def strings(*values: bytes) -> Array:
    return np.array(values, object)


@named_by(
    "mime_type",
    ("mime_type", "form"),
    [
        ("", ReplyForm.JSON),
        ("application/json", ReplyForm.JSON),
        ("image/png", ReplyForm.RAW),
        ("IMAGE/JPEG", ReplyForm.RAW),
        ("image/*", ReplyForm.RAW),
        ("application/octet-stream", ReplyForm.RAW),
        ("text/plain; charset=utf-8", ReplyForm.TEXTS),
    ],
)
def test_forms_by_type(mime_type: str, form: ReplyForm) -> None:
    assert form_of(mime_type) is form


@pytest.mark.parametrize(
    "mime_type", ["png", "image/", "image/png\r\nx: y", "image/\u00e9", "a/b/c"]
)
def test_a_mime_type_that_is_malformed_is_refused(mime_type: str) -> None:
    with pytest.raises(InvalidRequest, match="expected a type"):
        form_of(mime_type)


@pytest.mark.parametrize("array", [strings(b"\0\xff"), np.array(b"\0\xff", object)])
def test_a_raw_reply_is_the_bytes_of_the_only_output(array: Array) -> None:
    assert encode_raw({"y": array}) == b"\0\xff"


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        pytest.param({}, "there are none", id="none"),
        pytest.param(
            {"a": strings(b"1"), "b": strings(b"2")}, "there are a, b", id="several outputs"
        ),
        pytest.param({"a": strings(b"1", b"2")}, "not the bytes of one file", id="several rows"),
        pytest.param({"a": np.float32([1])}, "not the bytes of one file", id="numbers"),
    ],
)
def test_a_raw_reply_of_none_or_several_outputs_or_rows_is_refused(
    outputs: dict[str, Array], words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        encode_raw(outputs)


def test_a_reply_of_texts_is_one_list_of_all_outputs() -> None:
    outputs = {"a": strings(b"x", b'"'), "b": strings(b"\xff")}
    assert json.loads(encode_texts(outputs)) == ["x", '"', "\ufffd"]
    with pytest.raises(InvalidRequest, match="holds no texts"):
        encode_texts({"a": np.float32([1])})

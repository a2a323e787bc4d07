"""Bodies of POST /predict, and the replies to them."""

from typing import Any

import numpy as np
import pytest

from ie_serving.compat.kibernetika.predict_body import FormRequest, parse
from ie_serving.compat.kibernetika.predict_route import ReplyForm, encode
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import SERVING_DEFAULT, Signature
from tests.tables import named_by

ANY = Signature(SERVING_DEFAULT, {}, {}, is_open=True)
KIND = b"multipart/form-data; boundary=b"


def form(*fields: tuple[str, bytes, bool]) -> FormRequest:
    parts = []
    for name, data, is_file in fields:
        file = b'; filename="f"' if is_file else b""
        disposition = b'Content-Disposition: form-data; name="%b"%b' % (name.encode(), file)
        parts.append(b"--b\r\n" + disposition + b"\r\n\r\n" + data + b"\r\n")
    return parse(b"".join(parts) + b"--b--\r\n", KIND)


def arrays(asked: FormRequest) -> dict[str, Any]:
    return {
        name: (str(array.dtype), array.tolist()) for name, array in asked.decode(ANY)[0].items()
    }


def test_json_names_dtypes_by_their_numbers() -> None:
    asked = parse(
        b'{"inputs": {"a": {"dtype": 1, "data": [[1, 2]]}, "b": {"dtype": 9, "data": 7},'
        b' "c": {"dtype": 7, "data": ["x"]}, "d": {"dtype": 17, "data": [65535]}},'
        b' "out_filter": ["y", "z"], "out_mime_type": "image/png"}',
        b"application/json",
    )
    assert arrays(asked) == {
        "a": ("float32", [[1.0, 2.0]]),
        "b": ("int64", 7),
        "c": ("object", [b"x"]),
        "d": ("uint16", [65535]),
    }
    assert (asked.outputs, asked.mime_type, asked.form) == (("y", "z"), "image/png", ReplyForm.RAW)


@named_by(
    "name data",
    ("name", "data", "is_file", "result"),
    [
        ("float_x", b"1,2", False, ("float32", [1.0, 2.0])),
        ("double_x", b"inf", False, ("float64", [float("inf")])),
        ("int_x", b"-1", False, ("int32", [-1])),
        ("int8_x", b"1", False, ("int8", [1])),
        ("uint16_x", b"65535", False, ("uint16", [65535])),
        ("bool_x", b"true,0", False, ("bool", [True, False])),
        ("string_x", b"a, b", False, ("object", [b"a", b"b"])),
        ("bytes_x", b"a", False, ("object", [b"a"])),
        ("byte_x", b"\x00\xff", True, ("object", b"\x00\xff")),
        ("string_x", b"\x00\xff", True, ("object", b"\x00\xff")),
        ("bytes_x", b"\x00\xff", True, ("object", [b"\x00\xff"])),
        ("strings_x", b"a,b", True, ("object", [b"a,b"])),
        ("uint8_x", b"\x00\xff", True, ("uint8", [0, 255])),
        ("float_x", b"\x01", True, ("float32", [1.0])),
    ],
)
def test_fields_say_their_types(name: str, data: bytes, is_file: bool, result: Any) -> None:
    assert arrays(form((name, data, is_file))) == {"x": result}


def test_fields_may_repeat_and_names_have_underscores() -> None:
    asked = form(
        ("int_a_b", b"1", False), ("int_a_b", b"2,3", False), ("out_filters", b"y,z", False)
    )
    assert arrays(asked) == {"a_b": ("int32", [1, 2, 3])} and asked.outputs == ("y", "z")


@named_by(
    "name data",
    ("name", "data", "text"),
    [
        ("bool_x", b"maybe", "expected bool, got 'maybe'"),
        ("int8_x", b"300", "expected int8, got '300'"),
        ("float_x", b"one", "expected float, got 'one'"),
        ("complex_x", b"1", 'field "complex_x": expected TYPE_INPUT'),
        ("x", b"1", 'field "x": expected TYPE_INPUT'),
        ("raw_input", b"yes", "raw_input is not supported"),
    ],
)
def test_wrong_fields_are_refused(name: str, data: bytes, text: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        form((name, data, False))
    assert text in str(raised.value)


@named_by(
    "body",
    ("body", "text"),
    [
        (b"[]", 'expected {"inputs"'),
        (b'{"inputs": {"x": 1}}', 'input "x": expected {"dtype"'),
        (b'{"inputs": {"x": {"dtype": true, "data": 1}}}', "dtype True given; expected one of"),
        (b'{"inputs": {}, "out_filter": "y"}', "must be a list of names"),
        (b'{"inputs": {}, "out_mime_type": 1}', "must be a text"),
    ],
)
def test_wrong_json_is_refused(body: bytes, text: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse(body, b"")
    assert text in str(raised.value)


OUTPUTS = {
    "n": np.float32([[1.5, np.inf]]),
    "t": np.array(["\u00fc".encode(), b'"'], object),
    "raw": np.array(b"\xff", object),
    "ok": np.bool_([True]),
}


def test_a_reply_has_each_output_by_name() -> None:
    assert encode(OUTPUTS, ReplyForm.JSON).decode() == (
        '{"n":[[1.5,Infinity]],"t":["\u00fc","\\""],"raw":{"b64":"/w=="},"ok":[true]}'
    ).replace("Infinity", _infinity())


def _infinity() -> str:
    """As TensorFlow Serving's REST API writes it."""
    from ie_serving.wire.json.number_text import floats

    return floats(np.float32([np.inf]))[0]


def test_other_forms_ask_for_what_has_them() -> None:
    assert encode({"t": OUTPUTS["t"]}, ReplyForm.TEXTS).decode() == '["\u00fc","\\""]'
    assert encode({"raw": OUTPUTS["raw"]}, ReplyForm.RAW) == b"\xff"
    for outputs, form_, text in (
        (OUTPUTS, ReplyForm.RAW, "name one in out_filter"),
        ({"n": OUTPUTS["n"]}, ReplyForm.RAW, "is not the bytes of one file"),
        ({"n": OUTPUTS["n"]}, ReplyForm.TEXTS, "holds no texts"),
    ):
        with pytest.raises(InvalidRequest, match=text):
            encode(outputs, form_)

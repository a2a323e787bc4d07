"""Data of Konduit Serving that no client means well."""

import json
import tracemalloc

import pytest

from ie_serving.compat.konduit.data import NUMBERS, SHAPE, TYPE, decode
from ie_serving.compat.konduit.routes import data_of
from ie_serving.core.values.errors import InvalidRequest


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
        pytest.param(array(NDArrayShape=[1] * 100), "4 bytes of FLOAT are no array", id="rank"),
        pytest.param(array(NDArrayShape=[0, 2**70], NDArrayDataBase64=""), "0 bytes", id="size"),
        pytest.param(array(NDArrayShape="1" * 1000), "no array of .{,130}$", id="a long shape"),
        pytest.param(array(NDArrayType="F" * 1000), "@NDArrayType is .{,102};", id="a long type"),
    ],
)
def test_what_is_refused(body: bytes, text: str) -> None:
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

"""Number texts: TensorFlow Serving's rule, whichever way they are printed."""

import re
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.tensors import Array, DataType, TensorSpec
from ie_serving.wire.json.number_text import any_floats, are_long, floats, is_short
from ie_serving.wire.json.number_text import texts_of as one_by_one
from ie_serving.wire.json.request import Format
from ie_serving.wire.json.response import encode_predictions
from tests.tables import named_by


def tensorflow_text(value: np.floating[Any]) -> str:
    """Write a number by TensorFlow Serving's rule, step by step."""
    short = f"{float(value):.6g}"
    same = value.dtype.type(float(short)) == value
    text = short if same else format(float(value), ".9g" if value.dtype == np.float32 else ".17g")
    return text if "." in text or "e" in text else text + ".0"


tenths = st.tuples(st.integers(-(10**7), 10**7), st.integers(-1, 10)).map(
    lambda pair: pair[0] / 10 ** pair[1]
)
any_float32 = st.one_of(
    st.integers(0, 2**32 - 1).map(lambda bits: np.uint32(bits).view(np.float32)),
    st.floats(-1e7, 1e7, width=32).map(np.float32),
    tenths.map(np.float32),
    st.tuples(st.integers(-130, 127), st.integers(0, 3)).map(
        lambda pair: (
            np.float32(2.0 ** pair[0])
            .view(np.uint32)
            .__add__(np.uint32(pair[1] & 3))
            .view(np.float32)
        )
    ),
).filter(lambda value: bool(np.isfinite(value)))
any_float64 = st.one_of(
    st.integers(0, 2**64 - 1).map(lambda bits: np.uint64(bits).view(np.float64)),
    st.floats(-1e7, 1e7).map(np.float64),
    tenths.map(np.float64),
).filter(lambda value: bool(np.isfinite(value)))
any_float = any_float32 | any_float64


def texts_of(values: Array, form: Format) -> list[str]:
    """Encode a reply and give the texts of its numbers."""
    specs = {"y": TensorSpec("y", DataType.FP32, None, "y")}
    reply = encode_predictions({"y": values}, form, specs)
    return re.findall(r"[^\s\[\],]+", reply.decode().partition(":")[2].rstrip("}\n ]"))


@given(any_float, st.sampled_from(list(Format)))
def test_any_number_has_tensorflow_serving_s_text(value: np.floating[Any], form: Format) -> None:
    """Alone and beside a number with more digits, which is written another way."""
    for values in ([value], [value, value.dtype.type(1 / 3)]):
        array = np.array(values)
        assert texts_of(array, form) == [tensorflow_text(each) for each in array]


@given(st.lists(any_float32, min_size=1, max_size=9), st.booleans())
def test_many_numbers_at_once_have_the_same_texts(
    values: list[np.float32], all_plain: bool
) -> None:
    """More than are printed one by one, with and without such as take an exponent."""
    if all_plain:
        values = [v for v in values if v == 0 or 1e-4 <= abs(v) <= 999_999]
    array = np.array([*values, *([np.float32(1 / 3)] * 21)])
    expected = [tensorflow_text(each) for each in array]
    assert texts_of(array, Format.ROW) == expected
    assert texts_of(array[:, None], Format.COLUMN) == expected


@given(st.lists(any_float, min_size=1, max_size=30))
def test_all_ways_write_the_same(values: list[np.floating[Any]]) -> None:
    for dtype in (np.float32, np.float64):
        array = np.array([value for value in values if value.dtype == dtype])
        if not array.size:
            continue
        expected = any_floats(array)
        assert floats(array) == expected
        text = orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)
        assert [each.decode() for each in one_by_one(text, array)] == expected


@named_by(
    "text",
    ("text", "short"),
    [
        (b"[1.5,-0.25]", True),
        (b"[[0.12345],[123456]]", True),
        (b"[0.123456]", False),
        (b"[1.0,0.1234567]", False),
        (b"[0.00001]", False),
        (b"[1e10]", False),
        (b"[null]", False),
    ],
)
def test_a_text_is_short_by_its_digits(text: bytes, short: bool) -> None:
    assert is_short(text) is short


@pytest.mark.parametrize("last", ["0.5", "1e30", "12.0", "null"])
@pytest.mark.parametrize("first", ["1.2345678", "0.12345678", "12.345678", "-123456.789"])
def test_a_text_is_looked_through_once(first: str, last: str) -> None:
    """By an expression with several ways to read one of these numbers it would never end."""
    numbers = [first] * 60
    assert are_long(f"[{','.join(numbers)}]".encode())
    assert not are_long(f"[{','.join([*numbers, last])}]".encode())
    assert not is_short(f"[{','.join([*numbers, last])}]".encode())

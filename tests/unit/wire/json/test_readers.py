"""Whichever reader of the chain takes a body, the arrays and the errors are the same.

The chain and what is equal in it stand above `ie_serving/wire/json/request.py`. Here every reader
gets the same document, each alone. Reader 4 is the standard that the others are held to: it takes
every document there is.
"""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec
from ie_serving.wire.json import request, slices
from ie_serving.wire.json.buffers import parse_strictly
from ie_serving.wire.json.document import object_of, plain
from ie_serving.wire.json.rapidjson.document import parse_document
from ie_serving.wire.json.request import (
    Format,
    PredictBody,
    SlicedBody,
    body_of,
    parse_at_once,
    parse_predict,
)

FEW = 24
"""Bytes of a slice here, so that small documents have several."""


def signature(**dtypes: DataType) -> Signature:
    specs = {name: TensorSpec(name, dtype, None, name) for name, dtype in dtypes.items()}
    return Signature("serving_default", specs, {})


def by_slices(body: bytes) -> PredictBody | SlicedBody:
    """Ask the whole chain, reader 1 among it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request, "SLICED", 1)
        return parse_predict(body)


def by_values(body: bytes) -> PredictBody:
    """Give reader 3 what simdjson parsed, as Python values."""
    document = object_of(parse_strictly(body), body)
    return body_of(body, {name: plain(document[name]) for name in dict.fromkeys(document)})


def by_dialect(body: bytes) -> PredictBody:
    """Ask reader 4 first."""
    return body_of(body, object_of(parse_document(body), body))


class AtOnce:
    """Reads on the event loop what can be read there, as the data plane does with large bodies."""

    def __init__(self, body: bytes) -> None:
        self._body = parse_at_once(body) or parse_predict(body)
        self.signature_name = self._body.signature_name

    def decode(self, asked: Signature) -> tuple[dict[str, Array], Format]:
        return self._body.decode_at_once(asked) or self._body.decode(asked)


Body = PredictBody | SlicedBody | AtOnce

READERS: dict[str, Callable[[bytes], Body]] = {
    "1 slices": by_slices,
    "2 buffers": parse_predict,
    "2 at once": AtOnce,
    "3 values": by_values,
    "4 dialect": by_dialect,
}


def outcome(parse: Callable[[bytes], Body], body: bytes, asked: Signature) -> object:
    """Everything that a caller can see of a body: its error, or arrays to the last bit.

    Texts are compared, since NaN is not equal to itself.
    """
    try:
        read = parse(body)
        arrays, form = read.decode(asked)
    except InvalidRequest as error:
        return str(error)
    seen = {
        name: (
            array.dtype,
            array.shape,
            array.tolist() if array.dtype == object else array.tobytes(),
        )
        for name, array in arrays.items()
    }
    return read.signature_name, form, seen


def assert_all_agree(body: bytes, asked: Signature) -> None:
    expected = outcome(by_dialect, body, asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "SLICE", FEW)
        for name, parse in READERS.items():
            assert outcome(parse, body, asked) == expected, name


DAMAGES = [("", ""), ("]", ""), ("[", "[["), ("]", "]]"), (",", ""), (",", "],["), ("1", "[1]")]
DAMAGES += [("1", '"1"'), ("1", "1.0"), ("1", "true"), ("1", "-0"), ("[", "[[],"), ("], [", ",")]
DAMAGES += [("1", "NaN"), ("1", "1e400"), ("1", "1e39"), ("1", "null"), ("}", "}x"), ("1", "01")]

FRAMES = [
    '{"instances":%s}',
    '{"inputs":%s}',
    '{"inputs":{"x":%s}}',
    '{"signature_name":"s","instances":%s}',
    '{"inputs":{"x":%s},"signature_name":"s"}',
    '{"other":["[",{"x":1}],"inputs":%s}',
    '{"instances":[{"x":%s}]}',
    '{"instances":[{"x":%s,"x":1}]}',
    '{"instances":[{"x":1,"x":%s}]}',
    '{"instances":[{"x":%s}], "other":[]}',
]
WRONG_FRAMES = ['{"instances":[{"x":%s,"y":[1]}]}', '{"instances":[{}, {"x":%s}]}']


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, Signature]:
    """Bodies that are nearly right: regular arrays in which something may be replaced."""
    dtype = draw(st.sampled_from(list(DataType)))
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3))
    values = draw(st.lists(elements(dtype, draw), min_size=27, max_size=27))
    text = json.dumps(np.array(values, object)[: math.prod(shape)].reshape(shape).tolist())
    old, new = draw(st.sampled_from(DAMAGES))
    text = text.replace(old, new, 1) if old else text
    return (draw(st.sampled_from(FRAMES + WRONG_FRAMES)) % text).encode(), signature(x=dtype)


def elements(dtype: DataType, draw: st.DrawFn) -> st.SearchStrategy[Any]:
    if dtype is DataType.STRING:
        return st.text(max_size=3) | st.just({"b64": "aGk="})
    if dtype is DataType.BOOL:
        return st.booleans()
    if draw(st.booleans()):
        return st.integers(0, 100)
    return (
        st.integers(-5, 300)
        | st.integers(2**31 - 1, 2**64)
        | st.floats(width=32, allow_nan=False, allow_infinity=False)
        | st.floats(allow_nan=False, allow_infinity=False)
    )


@given(bodies())
def test_all_readers_agree_on_one_input(case: tuple[bytes, Signature]) -> None:
    assert_all_agree(*case)


@given(st.lists(st.tuples(st.integers(-9, 9), st.floats(-9, 9)), min_size=1), st.data())
def test_all_readers_agree_on_several_inputs(
    rows: list[tuple[int, float]], data: st.DataObject
) -> None:
    as_rows = {"instances": [{"a": a, "b": [b]} for a, b in rows]}
    as_columns = {"inputs": {"a": [a for a, _ in rows], "b": [[b] for _, b in rows], "c": 1}}
    text = json.dumps(data.draw(st.sampled_from([as_rows, as_columns])))
    old, new = data.draw(st.sampled_from([*DAMAGES, ('"a"', '"b"'), ('"a": ', '"a":1,"a":')]))
    body = (text.replace(old, new, 1) if old else text).encode()
    assert_all_agree(body, signature(a=DataType.INT32, b=DataType.FP32))


@pytest.mark.thinned
@pytest.mark.parametrize("text", ["[1.5, 2]", "[[1], [2]]", "[[[1, 2], [3, 4]]]", "[[[[7]]]]"])
@pytest.mark.parametrize("frame", FRAMES)
def test_all_readers_agree_on_what_is_right(frame: str, text: str) -> None:
    body = (frame % text).encode()
    assert_all_agree(body, signature(x=DataType.FP32))
    assert isinstance(outcome(parse_predict, body, signature(x=DataType.FP32)), tuple)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[1]",
        b"{}",
        b'{"instances": [1], "inputs": [1]}',
        b'{"instances": [1], "instances": [2]}',
        b'{"signature_name": 5, "instances": [1]}',
        b'{"signature_name": "a", "signature_name": "b", "instances": [1]}',
        b'{"signature\\u005fname": "a", "inst\\u0061nces": [1]}',
        b'{"instances": [' + b"[" * 31 + b"1" + b"]" * 31 + b"]}",
        b'{"instances": [' + b"[" * 32 + b"1" + b"]" * 32 + b"]}",
        b'{"inputs": {"x": 1, "x": [1]}}',
        b'{"inputs": {"x\\u0000": 1}}',
    ],
)
def test_all_readers_agree_on_what_is_unusual(body: bytes) -> None:
    assert_all_agree(body, signature(x=DataType.FP32))

"""Large bodies in slices give what the whole document gives, or are left to it."""

import json
import re
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import BY_NUMPY, Signature, TensorSpec
from ie_serving.wire.json import request, slices
from ie_serving.wire.json.request import Format, SlicedBody, parse_predict
from ie_serving.wire.json.slices import sliced

FEW = 24
"""Bytes of a slice here."""


@pytest.fixture(autouse=True, scope="module")
def _small_slices() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "SLICE", FEW)
        patch.setattr(request, "SLICED", 1)
        yield


def signature(dtype: Any = np.float32, *names: str) -> Signature:
    specs = {
        name: TensorSpec(name, BY_NUMPY[np.dtype(dtype)], None, name) for name in names or ("x",)
    }
    return Signature("serving_default", specs, {}, "tensorflow/serving/predict")


def decoded(body: bytes, wanted: Signature) -> Any:
    """Give arrays and format, or the error's text."""
    try:
        arrays, form = parse_predict(body).decode(wanted)
    except InvalidRequest as error:
        return str(error)
    return {name: (a.dtype, a.shape, a.tolist()) for name, a in arrays.items()}, form


def whole(body: bytes, wanted: Signature) -> Any:
    """Decode as one document."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request, "SLICED", len(body) + 1)
        return decoded(body, wanted)


def spaced(value: Any, data: st.DataObject) -> bytes:
    """Write JSON with white space wherever it may be."""
    gaps = iter(data.draw(st.lists(st.sampled_from(["", " ", "\n", "\t "]), max_size=40)))
    text = json.dumps(value)
    return re.sub(r" ?([\[\],{}:]) ?", lambda m: next(gaps, "") + m[1], text).encode()


shapes = hnp.array_shapes(min_dims=1, max_dims=4, max_side=6)


@given(
    st.data(),
    st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.uint8]),
    st.sampled_from(["instances", "inputs", "named"]),
    st.sampled_from([None, "before", "after"]),
)
def test_slices_give_what_the_document_gives(
    data: st.DataObject, dtype: Any, key: str, name: str | None
) -> None:
    array = data.draw(hnp.arrays(dtype, shapes))
    if array.dtype.kind == "f":
        array = np.nan_to_num(array, posinf=1.5, neginf=-1.5)
    body: dict[str, Any] = {key: array.tolist()}
    if key == "named":
        body = {"inputs": {"x": array.tolist()}}
    if name:
        named = {"signature_name": "serving_default"}
        body = named | body if name == "before" else body | named
    text = spaced(body, data)
    asked = parse_predict(text)
    assert isinstance(asked, SlicedBody)
    assert asked.signature_name == ("serving_default" if name else "")
    assert decoded(text, signature(dtype)) == whole(text, signature(dtype))


@pytest.mark.parametrize(
    "body",
    [
        b'{"instances": [], "inputs": []}',
        b'{"instances": [1], "instances": [2]}',
        b'{"signature_name": "a", "instances": [1], "signature_name": "b"}',
        b'{"instances": {"x": [1]}}',
        b'{"x": [1]}',
        b'{"inputs": {"x": [1]}, "inputs": [1]}',
        b'{"inputs": {"x": [1], "y": [2]}}',
        b'{"inputs": {"x": [1]}',
        b"[1]",
        b"",
    ],
)
def test_an_unusual_body_is_read_whole(body: bytes) -> None:
    found = sliced(body)
    assert found is None or found.read(BY_NUMPY[np.dtype(np.float32)]) is None


def test_rows_that_are_objects_are_read_whole() -> None:
    body = orjson.dumps({"instances": [{"a": [1.5], "b": [2.5]}] * 9})
    arrays, form = parse_predict(body).decode(signature(np.float32, "a", "b"))
    assert form is Format.ROW
    assert arrays["b"].tolist() == [[2.5]] * 9

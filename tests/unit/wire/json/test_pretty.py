"""Small replies: TensorFlow Serving's white space, and the same values in every layout."""

import base64
import json
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ie_serving.core.values.tensors import BY_NUMPY, Array, TensorSpec
from ie_serving.wire.json.pretty import (
    DENSE,
    LINES,
    ONE_LINE,
    ColumnLayout,
    encoded,
    quoted,
    write_columns,
    write_rows,
)

LAYOUTS = pytest.mark.parametrize("layout", [LINES, ONE_LINE, DENSE])
INTS = hnp.arrays(np.int32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))


def specs(outputs: Mapping[str, Array]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(name, BY_NUMPY[array.dtype], None, name) for name, array in outputs.items()
    }


def columns(layout: ColumnLayout, **outputs: Array) -> str:
    return write_columns(outputs, specs(outputs), layout)


def rows(layout: ColumnLayout, **outputs: Array) -> str:
    return write_rows(outputs, specs(outputs), layout)


@LAYOUTS
@given(INTS, INTS)
def test_columns_hold_the_values(layout: ColumnLayout, one: Array, other: Array) -> None:
    assert json.loads(columns(layout, a=one)) == {"outputs": one.tolist()}
    both = {"a": one.tolist(), "b": other.tolist()}
    assert json.loads(columns(layout, a=one, b=other)) == {"outputs": both}


@LAYOUTS
@given(st.integers(0, 3), st.data())
def test_rows_hold_the_values(layout: ColumnLayout, count: int, data: st.DataObject) -> None:
    one = data.draw(hnp.arrays(np.int8, (count, 2)))
    other = data.draw(hnp.arrays(np.bool_, (count,)))
    assert json.loads(rows(layout, a=one)) == {"predictions": one.tolist()}
    expected = [{"a": a, "b": b} for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    assert json.loads(rows(layout, a=one, b=other)) == {"predictions": expected}


@given(hnp.arrays(np.float32, 3, elements={"allow_nan": False, "allow_infinity": False}))
def test_floats_are_read_back_bit_by_bit(array: Array) -> None:
    found = np.array(json.loads(columns(DENSE, y=array))["outputs"], np.float32)
    assert found.tobytes() == array.tobytes()


@given(st.binary())
def test_bytes_come_back_as_they_are(value: bytes) -> None:
    """Also those that are no UTF-8; only what JSON cannot hold is escaped."""
    text = quoted(value)
    if value.isascii():
        assert json.loads(text) == value.decode("ascii")
    found = json.loads(text).encode("utf-8", "surrogateescape")
    assert found == value
    assert encoded(text) == text.encode("utf-8", "surrogateescape")


@given(st.lists(st.binary(), min_size=1, max_size=3))
def test_outputs_whose_name_ends_in_bytes_are_base64(values: list[bytes]) -> None:
    array = np.array([*values, None], np.object_)[:-1]
    found = json.loads(columns(DENSE, y_bytes=array))["outputs"]
    assert [list(entry) for entry in found] == [["b64"]] * len(values)
    assert [base64.b64decode(entry["b64"]) for entry in found] == values


X = np.array([[1, 2], [3, 4]], np.int32)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(columns(DENSE, x=X), '{"outputs":[[1,2],[3,4]]}', id="dense column"),
        pytest.param(rows(DENSE, x=X), '{"predictions":[[1,2],[3,4]]}', id="dense rows"),
        pytest.param(rows(ONE_LINE, x=X[:0]), '{\n    "predictions": []\n}', id="no rows"),
    ],
)
def test_white_space(text: str, expected: str) -> None:
    assert text == expected

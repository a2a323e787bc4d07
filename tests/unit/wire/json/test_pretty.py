"""Small replies: TensorFlow Serving's white space, and the same values in every layout."""

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


def specs(outputs: Mapping[str, Array]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(name, BY_NUMPY[array.dtype], None, name) for name, array in outputs.items()
    }


def columns(layout: ColumnLayout, **outputs: Array) -> str:
    return write_columns(outputs, specs(outputs), layout)


def rows(layout: ColumnLayout, **outputs: Array) -> str:
    return write_rows(outputs, specs(outputs), layout)


@LAYOUTS
@given(st.integers(0, 3), st.data())
def test_rows_hold_the_values(layout: ColumnLayout, count: int, data: st.DataObject) -> None:
    one = data.draw(hnp.arrays(np.int8, (count, 2)))
    other = data.draw(hnp.arrays(np.bool_, (count,)))
    assert json.loads(rows(layout, a=one)) == {"predictions": one.tolist()}
    expected = [{"a": a, "b": b} for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    assert json.loads(rows(layout, a=one, b=other)) == {"predictions": expected}


@given(st.binary())
def test_bytes_come_back_as_they_are(value: bytes) -> None:
    """Also those that are no UTF-8; only what JSON cannot hold is escaped."""
    text = quoted(value)
    if value.isascii():
        assert json.loads(text) == value.decode("ascii")
    found = json.loads(text).encode("utf-8", "surrogateescape")
    assert found == value
    assert encoded(text) == text.encode("utf-8", "surrogateescape")


X = np.array([[1, 2], [3, 4]], np.int32)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(columns(DENSE, x=X), '{"outputs":[[1,2],[3,4]]}', id="dense column"),
        pytest.param(rows(DENSE, x=X), '{"predictions":[[1,2],[3,4]]}', id="dense rows"),
        pytest.param(rows(ONE_LINE, x=X[:0]), '{\n    "predictions": []\n}', id="no rows"),
    ],
)
def test_white_space_is_that_of_tensorflow_serving(text: str, expected: str) -> None:
    assert text == expected

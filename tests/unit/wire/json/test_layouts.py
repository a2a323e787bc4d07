"""Shapes by brackets and commas: remembered where they tell the shape, and nowhere else."""

import json
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ie_serving.core.values.tensors import Array, DataType
from ie_serving.wire.json.buffers import (
    ELSE,
    MOST,
    SHAPES,
    Lazy,
    parse_strictly,
    read_array,
    remember,
)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    SHAPES.clear()
    yield
    SHAPES.clear()


def read(body: bytes) -> Array | None:
    document = parse_strictly(body)
    found = document["inputs"]
    return read_array(found if not hasattr(found, "keys") else found["x"], DataType.FP32, body)


def layout_of(body: bytes) -> bytes:
    return body.translate(None, ELSE)


def known(body: bytes) -> object:
    return SHAPES.get(layout_of(body))


@pytest.mark.parametrize(
    "body",
    [
        b'{"inputs": [[1, 2], [3, 4]]}',
        b'{"inputs": {"x": [[1, 2], [3, 4]]}}',
        b'{"signature_name": "other", "inputs": [[1, 2], [3, 4]]}',
        b'{"inputs": [[1, 2], [3, 4]], "signature_name": "other"}',
    ],
)
def test_a_remembered_layout_gives_the_same_array(body: bytes) -> None:
    first = read(body)
    assert known(body) == (2, 2)
    second = read(body.replace(b"4", b"5"))
    assert first is not None and second is not None
    assert second.tolist() == [[1, 2], [3, 5]]
    assert first.dtype == second.dtype


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"inputs": [[], []]}', id="a list of none looks as a list of one"),
        pytest.param(b'{"inputs": [1, 2], "a [": 0, "b ]": 0}', id="brackets in a name"),
        pytest.param(b'{"inputs": [[1, 2], [3]]}', id="ragged"),
        pytest.param(b'{"other": [0], "inputs": [1, 2]}', id="another array"),
    ],
)
def test_a_body_whose_layout_tells_no_shape_is_not_remembered(body: bytes) -> None:
    read(body)
    assert known(body) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(b'{"inputs": [[1], [2]]}', b'{"inputs": [[1], []]}', id="an empty list"),
        pytest.param(
            b'{"inputs": [[1, 2], [3, 4], [5, 6]]}',
            b'{"a [[ , ]": 0, "inputs": [1, 2], "b [ , ] ]": 0}',
            id="a list within it, the rest in names",
        ),
        pytest.param(b'{"inputs": [[1, 2]]}', b'{"inputs": [["1", 2]]}', id="a string"),
        pytest.param(b'{"inputs": [[1, 2]]}', b'{"inputs": [[null, 2]]}', id="null"),
    ],
)
def test_another_body_of_the_same_layout_is_no_such_array(first: bytes, second: bytes) -> None:
    assert read(first) is not None
    assert layout_of(first) == layout_of(second)
    shape = known(first)
    found = read(second)
    assert found is None or found.shape != shape


def test_after_the_most_all_are_forgotten() -> None:
    for size in range(1, MOST + 2):
        remember(b"[%b]" % (b"," * (size - 1)), [size])
    assert known(b"[]") is None
    assert known(b"[%b]" % (b"," * MOST)) == (MOST + 1,)


STRUCTURE = st.recursive(
    st.integers(0, 9) | st.sampled_from([None, "[", "],[", {"[": 0}]),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=8,
)
NAMES = st.text("[],x", max_size=6)


@given(
    shape=arrays.array_shapes(min_dims=1, max_dims=4, max_side=3),
    others=st.lists(
        st.tuples(STRUCTURE, st.lists(st.tuples(NAMES, STRUCTURE), max_size=2)), max_size=4
    ),
)
def test_with_a_memory_the_answer_is_that_without(
    shape: tuple[int, ...], others: list[tuple[object, list[tuple[str, object]]]]
) -> None:
    SHAPES.clear()
    bodies = [json.dumps({"inputs": np.zeros(shape).tolist()}).encode()]
    for value, around in others:
        names = [(name, each) for name, each in around if name != "inputs"]
        at = len(names) // 2
        pairs = [*names[:at], ("inputs", value), *names[at:]]
        bodies.append(json.dumps(dict(pairs)).encode())
    for body in bodies:
        kept = _read_alone(body)
        again = _read(body)
        assert (kept is None) == (again is None)
        if kept is not None and again is not None:
            assert kept.tolist() == again.tolist()
            assert kept.shape == again.shape


def _read(body: bytes) -> Array | None:
    array: Lazy = parse_strictly(body)["inputs"]
    return read_array(array, DataType.FP32, body)


def _read_alone(body: bytes) -> Array | None:
    """Read without what is remembered, and leave that as it is."""
    kept = dict(SHAPES)
    SHAPES.clear()
    try:
        return _read(body)
    finally:
        SHAPES.clear()
        SHAPES.update(kept)

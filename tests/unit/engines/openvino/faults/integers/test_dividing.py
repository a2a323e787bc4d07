"""Quotients and remainders are exact at all magnitudes, and a divisor of 0 is refused."""

from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.tensors import Array
from tests.unit.engines.openvino.faults.integers.graphs import (
    DTYPES,
    INT32,
    answer,
    any_magnitude,
    assert_exact,
    constant,
    held,
    pairs,
    served,
    types,
)


def quotient(a: Array, b: Array) -> Array:
    """Cut, as C++ and so TensorFlow and ONNX do, in Python's integers."""
    wide = [
        abs(int(x)) // abs(int(y)) * (-1 if (x < 0) != (y < 0) else 1)
        for x, y in zip(a, b, strict=True)
    ]
    return np.array(wide, np.int64).astype(a.dtype)


DIVIDE: dict[str, tuple[Any, Any]] = {
    "Divide": (op.divide, quotient),
    "Mod": (op.mod, np.fmod),
    "FloorMod": (op.floor_mod, np.mod),
}
BY_NAME = pytest.mark.parametrize("name", DIVIDE)


@DTYPES
def test_quotients_and_remainders_are_exact(dtype: type, fixed: bool) -> None:
    a, b = pairs(dtype)
    # -2**31 / -1 is 2**31, which 64-bit types have and OpenVINO's 32 bits do not.
    fits = (b != 0) & ((a != INT32.min) | (b.astype(np.int64) != -1))
    a, b = a[fits], b[fits]
    assert_exact(DIVIDE, a, b, fixed=fixed)


@given(
    st.sampled_from(sorted(DIVIDE)),
    st.lists(
        st.tuples(any_magnitude, any_magnitude.filter(bool)),
        min_size=1,
        max_size=100,
    ),
)
def test_exact_at_all_magnitudes(name: str, numbers: list[tuple[int, int]]) -> None:
    build, expected = DIVIDE[name]
    a, b = np.array(numbers, np.int32).T
    assert np.array_equal(served(build, a, b), expected(a, b))


@BY_NAME
def test_exact_beside_every_multiple(name: str) -> None:
    """Where a rounded quotient is an integer and the quotient is not, or the other way round."""
    build, expected = DIVIDE[name]
    random = np.random.default_rng(13)
    b = (random.integers(1, 2**31, 100_000) >> random.integers(0, 31, 100_000)).clip(1)
    a = random.integers(0, 2**31, 100_000) // b * b + random.integers(-2, 3, 100_000)
    signs = random.choice([-1, 1], (2, 100_000))
    a, b = ((n * sign).clip(INT32.min, INT32.max) for n, sign in zip((a, b), signs, strict=True))
    a, b = a.astype(np.int32), b.astype(np.int32)
    assert np.array_equal(served(build, a, b), expected(a, b))


def test_the_quotient_that_wraps_around_in_int32_is_refused_of_int64() -> None:
    for dtype, refused in ((np.int32, False), (np.int64, True)):
        a, b = np.array([-(2**31)], dtype), np.array([-1], dtype)
        output, causes = answer(op.divide, a, b)
        assert ("do not fit into 32 bits" in "".join(causes)) == refused
        assert output[0] == -(2**31)


@BY_NAME
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64])
def test_a_divisor_of_0_is_refused(name: str, dtype: type) -> None:
    a, b = np.array([5, 6], dtype), np.array([2, 0], dtype)
    _, causes = answer(DIVIDE[name][0], a, b)
    assert len(causes) == 1
    assert causes[0].startswith("Integer division by zero in ")


@BY_NAME
def test_small_numbers_are_divided_as_before(name: str) -> None:
    """As of 16 bits, and by a constant: nothing is added."""
    build, expected = DIVIDE[name]
    x = held(np.int16)
    divisor = constant(-7, np.int16)
    assert types(lambda n: build(n, divisor), x) == [name]
    output = served(lambda n: build(n, divisor), x)
    assert np.array_equal(output, expected(x, np.full_like(x, -7)))

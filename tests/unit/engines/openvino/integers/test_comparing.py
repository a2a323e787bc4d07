"""Comparisons, extremes and choices of integers are exact, alone and behind other operations."""

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.engines.openvino.integers.graphs import (
    NUMBERS,
    any_magnitude,
    constant,
    held,
    pairs,
    served,
    types,
)

FIXED = pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "open"])
DTYPES = pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
)
COMPARE: dict[str, tuple[Any, Any]] = {
    "Equal": (op.equal, np.equal),
    "NotEqual": (op.not_equal, np.not_equal),
    "Less": (op.less, np.less),
    "LessEqual": (op.less_equal, np.less_equal),
    "Greater": (op.greater, np.greater),
    "GreaterEqual": (op.greater_equal, np.greater_equal),
}
BY_NAME = pytest.mark.parametrize("name", COMPARE)
AXIS = np.array([0], np.int64)


@FIXED
@DTYPES
@BY_NAME
def test_comparisons_are_exact(name: str, dtype: type, fixed: bool) -> None:
    build, expected = COMPARE[name]
    a, b = pairs(dtype)
    assert np.array_equal(served(build, a, b, fixed=fixed), expected(a, b))


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(sorted(COMPARE)),
    st.lists(st.tuples(any_magnitude, any_magnitude), min_size=1, max_size=50),
)
def test_comparisons_are_exact_at_all_magnitudes(name: str, numbers: list[Any]) -> None:
    build, expected = COMPARE[name]
    a, b = np.array(numbers, np.int32).T
    assert np.array_equal(served(build, a, b), expected(a, b))


@BY_NAME
@pytest.mark.parametrize("limit", [0, 1, 2**24 - 1, 1 - 2**24])
def test_a_comparison_with_a_small_number_stays_as_it_is(name: str, limit: int) -> None:
    """As `x == 0` of masks: rounding moves no number past one below 2**24."""
    build, expected = COMPARE[name]
    x = held(np.int32)
    with_limit = lambda node: build(node, constant(limit))  # noqa: E731
    assert types(with_limit, x) == [name]
    assert np.array_equal(served(with_limit, x), expected(x, limit))


@BY_NAME
@pytest.mark.parametrize("limit", [2**31, 2**40, 2**63 - 1, -(2**31) - 1, -(2**63)])
def test_a_comparison_with_what_does_not_fit_into_32_bits(name: str, limit: int) -> None:
    """OpenVINO cuts such a constant to the end of int32, which a request may hold."""
    build, expected = COMPARE[name]
    x = held(np.int64)
    output = served(lambda node: build(node, constant(limit, np.int64)), x)
    assert np.array_equal(output, expected(x, np.int64(limit)))


@FIXED
@DTYPES
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("keep", [True, False])
def test_the_greatest_and_the_least(name: str, dtype: type, fixed: bool, keep: bool) -> None:
    reduce = op.reduce_max if name == "max" else op.reduce_min
    numbers = held(dtype)
    x = np.stack([numbers, numbers[::-1], np.roll(numbers, 3)])
    for axes in ([0], [1], [0, 1]):
        output = served(lambda n, to=axes: reduce(n, op.constant(to), keep), x, fixed=fixed)
        assert np.array_equal(output, getattr(x, name)(axis=tuple(axes), keepdims=keep))


def test_the_greatest_of_nothing_is_that_of_tensorflow() -> None:
    x = np.zeros((2, 0), np.int32)
    columns = np.array([1], np.int64)
    most, least = (served(lambda n, f=f: f(n, columns), x) for f in (op.reduce_max, op.reduce_min))
    assert most.tolist() == [-(2**31)] * 2
    assert least.tolist() == [2**31 - 1] * 2


LIMITS = [(-(2**24) - 1, 2**31 - 2), (0, 2**24 + 1), (-5, 5), (-(2**31), 2**31 - 1)]


@FIXED
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_limits_are_exact(limits: tuple[int, int], dtype: type, fixed: bool) -> None:
    """Also by Maximum and Minimum, of which the plugin makes a Clamp of floats."""
    low, high = limits
    x = held(dtype)
    expected = np.clip(x, low, high)
    by_clamp = served(lambda n: op.clamp(n, float(low), float(high)), x, fixed=fixed)
    assert np.array_equal(by_clamp, expected)
    a, b = constant(low, dtype), constant(high, dtype)
    by_both = served(lambda n: op.minimum(op.maximum(n, a), b), x, fixed=fixed)
    assert np.array_equal(by_both, expected)


@FIXED
@DTYPES
def test_relu_rounding_and_booleans(dtype: type, fixed: bool) -> None:
    x = held(dtype)
    assert np.array_equal(served(op.floor, x, fixed=fixed), x)
    assert np.array_equal(served(op.ceiling, x, fixed=fixed), x)
    assert np.array_equal(served(op.relu, x, fixed=fixed), np.maximum(x, 0))
    assert np.array_equal(served(lambda n: op.convert(n, "boolean"), x, fixed=fixed), x != 0)


FRONT: dict[str, Callable[[Any], Any]] = {
    "mod": lambda s: op.mod(s, constant(7)),
    "relu": op.relu,
    "power": lambda s: op.power(s, constant(2)),
    "select": lambda s: op.select(op.less(s, constant(3)), constant(1), constant(0)),
    "negative": op.negative,
    "sign": op.sign,
}
BEHIND: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "maximum": (op.maximum, np.maximum),
    "minimum": (op.minimum, np.minimum),
    "less": (op.less, np.less),
    "equal": (op.equal, np.equal),
    "select": (
        lambda s, big: op.select(op.less(s, constant(1)), big, constant(5)),
        lambda s, big: np.where(s < 1, big, 5),
    ),
}


@FIXED
@pytest.mark.parametrize("front", FRONT)
@pytest.mark.parametrize("behind", BEHIND)
def test_what_is_fused_stays_exact(front: str, behind: str, fixed: bool) -> None:
    """The plugin fuses neighbours into one kernel, and computes all of it as float32."""
    build, expected = BEHIND[behind]
    small = np.array([3, -2, 5, 1, -7] * len(NUMBERS), np.int32)
    big = np.repeat(held(np.int32), 5)
    output = served(lambda s, b: build(FRONT[front](s), b), small, big, fixed=fixed)
    first = served(FRONT[front], small, fixed=fixed)
    assert np.array_equal(output, expected(first, big))

"""Comparisons of integers, and arithmetic behind what the plugin computes as float32."""

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.tensors import Array
from tests.unit.engines.openvino.faults.integers.graphs import (
    DTYPES,
    NUMBERS,
    any_magnitude,
    assert_exact,
    constant,
    held,
    pairs,
    refused,
    served,
    served_each,
    types,
)

# Comparisons, extremes and choices of integers are exact, alone and behind other operations.

COMPARE: dict[str, tuple[Any, Any]] = {
    "Equal": (op.equal, np.equal),
    "NotEqual": (op.not_equal, np.not_equal),
    "Less": (op.less, np.less),
    "LessEqual": (op.less_equal, np.less_equal),
    "Greater": (op.greater, np.greater),
    "GreaterEqual": (op.greater_equal, np.greater_equal),
}
AXIS = np.array([0], np.int64)


@DTYPES
def test_comparisons_are_exact(dtype: type, fixed: bool) -> None:
    a, b = pairs(dtype)
    assert_exact(COMPARE, a, b, fixed=fixed)


@given(
    st.sampled_from(sorted(COMPARE)),
    st.lists(st.tuples(any_magnitude, any_magnitude), min_size=1, max_size=50),
)
def test_comparisons_are_exact_at_all_magnitudes(name: str, numbers: list[Any]) -> None:
    build, expected = COMPARE[name]
    a, b = np.array(numbers, np.int32).T
    assert np.array_equal(served(build, a, b), expected(a, b))


def with_limit(limit: int, dtype: type) -> dict[str, Callable[[Any], Any]]:
    return {
        name: lambda node, build=build: build(node, constant(limit, dtype))
        for name, (build, _) in COMPARE.items()
    }


@pytest.mark.parametrize("limit", [0, 1, 2**24 - 1, 1 - 2**24])
def test_a_comparison_with_a_small_number_stays_as_it_is(limit: int) -> None:
    """As `x == 0` of masks: rounding moves no number past one below 2**24."""
    x = held(np.int32)
    builds = with_limit(limit, np.int32)
    for name, output in served_each(builds, x).items():
        assert types(builds[name], x) == [name]
        assert np.array_equal(output, COMPARE[name][1](x, limit)), name


@pytest.mark.parametrize("limit", [2**31, 2**40, 2**63 - 1, -(2**31) - 1, -(2**63)])
def test_a_comparison_with_what_does_not_fit_into_32_bits(limit: int) -> None:
    """OpenVINO cuts such a constant to the end of int32, which a request may hold."""
    x = held(np.int64)
    for name, output in served_each(with_limit(limit, np.int64), x).items():
        assert np.array_equal(output, COMPARE[name][1](x, np.int64(limit))), name


REDUCE: dict[str, Any] = {
    f"{name} {axes} {keep}": (name, axes, keep)
    for name in ("max", "min")
    for axes in ((0,), (1,), (0, 1))
    for keep in (True, False)
}


@DTYPES
def test_the_greatest_and_the_least_are_exact(dtype: type, fixed: bool) -> None:
    numbers = held(dtype)
    x = np.stack([numbers, numbers[::-1], np.roll(numbers, 3)])
    builds = {
        case: lambda n, name=name, axes=axes, keep=keep: getattr(op, f"reduce_{name}")(
            n, op.constant(list(axes)), keep
        )
        for case, (name, axes, keep) in REDUCE.items()
    }
    for case, output in served_each(builds, x, fixed=fixed).items():
        name, axes, keep = REDUCE[case]
        assert np.array_equal(output, getattr(x, name)(axis=axes, keepdims=keep)), case


def test_the_greatest_of_nothing_is_that_of_tensorflow() -> None:
    x = np.zeros((2, 0), np.int32)
    columns = np.array([1], np.int64)
    most, least = (served(lambda n, f=f: f(n, columns), x) for f in (op.reduce_max, op.reduce_min))
    assert most.tolist() == [-(2**31)] * 2
    assert least.tolist() == [2**31 - 1] * 2


LIMITS = [(-(2**24) - 1, 2**31 - 2), (0, 2**24 + 1), (-5, 5), (-(2**31), 2**31 - 1)]


@pytest.mark.parametrize(
    ("dtype", "fixed"), [(np.int32, True), (np.int32, False), (np.int64, False)]
)
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_limits_are_exact(limits: tuple[int, int], dtype: type, fixed: bool) -> None:
    """Also by Maximum and Minimum, of which the plugin makes a Clamp of floats."""
    low, high = limits
    x = held(dtype)
    a, b = constant(low, dtype), constant(high, dtype)
    builds: dict[str, Callable[[Any], Any]] = {
        "clamp": lambda n: op.clamp(n, float(low), float(high)),
        "both": lambda n: op.minimum(op.maximum(n, a), b),
    }
    for name, output in served_each(builds, x, fixed=fixed).items():
        assert np.array_equal(output, np.clip(x, low, high)), name


@DTYPES
def test_relu_rounding_and_booleans_are_exact(dtype: type, fixed: bool) -> None:
    x = held(dtype)
    boolean = lambda n: op.convert(n, "boolean")  # noqa: E731
    builds = {"floor": op.floor, "ceiling": op.ceiling, "relu": op.relu, "boolean": boolean}
    outputs = served_each(builds, x, fixed=fixed)
    expected = {"floor": x, "ceiling": x, "relu": np.maximum(x, 0), "boolean": x != 0}
    for name, output in outputs.items():
        assert np.array_equal(output, expected[name]), name


FRONT: dict[str, Callable[[Any], Any]] = {
    "mod": lambda s: op.mod(s, constant(7)),
    "relu": op.relu,
    "power": lambda s: op.power(s, constant(2)),
    "select": lambda s: op.select(op.less(s, constant(3)), constant(1), constant(0)),
    "negative": op.negative,
    "sign": op.sign,
}
_FIRST: dict[str, Callable[[Any], Any]] = {
    "mod": lambda s: np.fmod(s, 7),
    "relu": lambda s: np.maximum(s, 0),
    "power": lambda s: s**2,
    "select": lambda s: np.where(s < 3, 1, 0),
    "negative": np.negative,
    "sign": np.sign,
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


@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "open"])
@pytest.mark.parametrize("front", FRONT)
def test_fused_operations_stay_exact(front: str, fixed: bool) -> None:
    """The plugin fuses neighbours into one kernel, and computes all of it as float32."""
    small = np.array([3, -2, 5, 1, -7] * len(NUMBERS), np.int32)
    big = np.repeat(held(np.int32), 5)
    first = FRONT[front]
    # Each has neighbours of its own: what several read is not fused with any.
    for name, (build, expected) in BEHIND.items():
        output = served(lambda s, b, build=build: build(first(s), b), small, big, fixed=fixed)
        assert np.array_equal(output, expected(_FIRST[front](small), big)), name


# Arithmetic behind an operation that the plugin computes as float32 is exact all the same.

LARGE = 82374765
ROWS = np.array([[1, 2, 3], [4, 5, 6], [-3, -4, -9]])
WEIGHTS = np.array([[3, 1], [5, 7], [1, 1]])


def reduced(name: str) -> Callable[[Any], Any]:
    return lambda n: getattr(op, f"reduce_{name}")(n, constant([1], np.int64), True)


FLOATED: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "matmul": (lambda n: op.matmul(n, constant(WEIGHTS), False, False), lambda x: x @ WEIGHTS),
    "einsum": (lambda n: op.einsum([n, constant(WEIGHTS)], "ab,bc->ac"), lambda x: x @ WEIGHTS),
    "l1": (reduced("l1"), lambda x: np.abs(x).sum(1, keepdims=True)),
    "sum": (reduced("sum"), lambda x: x.sum(1, keepdims=True)),
    "max": (reduced("max"), lambda x: x.max(1, keepdims=True)),
    "product": (reduced("prod"), lambda x: x.prod(1, keepdims=True)),
}
BEHIND_FLOATED: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "at once": (lambda n: op.add(n, constant(LARGE)), lambda x: x + LARGE),
    "reshaped": (
        lambda n: op.add(op.reshape(n, constant([-1], np.int64), False), constant(LARGE)),
        lambda x: x.reshape(-1) + LARGE,
    ),
    "transposed": (
        lambda n: op.subtract(op.transpose(n, constant([1, 0], np.int64)), constant(LARGE)),
        lambda x: x.T - LARGE,
    ),
    "joined": (
        lambda n: op.add(op.concat([n, n], 1), constant(LARGE)),
        lambda x: np.concatenate([x, x], 1) + LARGE,
    ),
}


@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "open"])
@pytest.mark.parametrize("behind", BEHIND_FLOATED)
@pytest.mark.parametrize("front", FLOATED)
def test_arithmetic_behind_is_exact(front: str, behind: str, fixed: bool) -> None:
    """Also behind what only moves numbers, past which the plugin takes arithmetic."""
    (first, expected), (second, then) = FLOATED[front], BEHIND_FLOATED[behind]
    # A model each: what several outputs read is not fused with any.
    output = served(lambda n: second(first(n)), ROWS.astype(np.int32), fixed=fixed)
    assert np.array_equal(output, then(expected(ROWS)))


@DTYPES
def test_sums_of_magnitudes_keep_the_bits_of_their_type(dtype: type, fixed: bool) -> None:
    """Those of 8 bits stayed at the end of their type, those of 16 went on with 32."""
    most = 127 if np.iinfo(dtype).min < 0 else 255
    x = np.array([[most, most, 3], [1, 2, 3]]).astype(dtype)
    expected = np.abs(x.astype(np.int64)).sum(1, keepdims=True).astype(dtype)
    assert np.array_equal(served(reduced("l1"), x, fixed=fixed), expected)
    if np.iinfo(dtype).bits == 16:  # 98,000 of them
        x = np.full((1, 3), 32700, dtype)
        assert served(reduced("l1"), x, fixed=fixed) == np.array(3 * 32700).astype(dtype)


# Integers that become doubles, which the plugin computes as float32, and back.

TO_DOUBLE = lambda n: op.convert(n, "f64")  # noqa: E731
WIDE = [np.int32, np.int64, np.uint32, np.uint64]


def tripled(n: Any) -> Any:
    """Give `cast(cast(n, float64) * 3.0, int64)`."""
    three = constant(3.0, np.float64)
    return op.convert(op.multiply(op.convert(n, "f64"), three), "i64")


@pytest.mark.parametrize("dtype", WIDE)
def test_an_integer_that_a_float32_does_not_hold_is_refused_as_double(dtype: type) -> None:
    x = held(dtype)
    exact = x.astype(np.float32).astype(np.float64) == x.astype(np.float64)
    assert refused(TO_DOUBLE, x) == (~exact).tolist()
    assert served(TO_DOUBLE, x[exact]).tolist() == x[exact].tolist()


def test_a_double_that_may_be_rounded_is_refused_as_integer() -> None:
    x = np.array([16777217, 2**23, 5592405, -5592405], np.int32)
    assert refused(tripled, x) == [True, True, False, False]
    assert served(tripled, x[2:]).tolist() == [16777215, -16777215]


def test_small_integers_become_doubles_without_a_flag() -> None:
    assert types(TO_DOUBLE, np.zeros(3, np.int16)) == ["Convert"]
    small = lambda n: op.convert(op.bitwise_and(n, constant(255)), "f64")  # noqa: E731
    assert types(small, np.zeros(3, np.int32)) == ["BitwiseAnd", "Convert"]


@pytest.mark.parametrize("dtype", [np.int16, np.int32])
def test_products_are_exact_with_arithmetic_behind(dtype: type) -> None:
    """The plugin fuses what is behind a product, and computes both as float32."""
    x = np.array([4533, 14295, -8686, 28778], dtype)
    for more in (0, 1):
        build = lambda n: op.add(  # noqa: E731
            op.reduce_prod(n, constant([0]), False),
            constant(more, dtype),  # noqa: B023
        )
        expected = np.prod(x, dtype=dtype) + dtype(more)
        assert served(build, x) == expected


@pytest.mark.parametrize("name", ["max", "min", "sum", "mean"])
def test_arithmetic_behind_a_reduction_of_small_numbers_is_exact(name: str) -> None:
    def build(n: Any) -> Any:
        found = getattr(op, f"reduce_{name}")(op.convert(n, "i32"), constant([0]), False)
        larger = op.multiply(op.add(found, constant(1)), constant(7001))
        return op.add(larger, constant(16777217))

    x = np.array([4533, 14295, -8686, 28778], np.int16)
    found = {"max": 28778, "min": -8686, "sum": 38920, "mean": 9730}[name]
    assert served(build, x) == (found + 1) * 7001 + 16777217

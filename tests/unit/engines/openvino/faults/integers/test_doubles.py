"""Integers that become doubles, which the plugin computes as float32, and back."""

from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest

from tests.unit.engines.openvino.faults.integers.graphs import (
    constant,
    held,
    refused,
    served,
    types,
)

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

"""Sums, means and products of many integers are exact, or refused."""

from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.engines.openvino.faults.integers.graphs import (
    answer,
    any_magnitude,
    constant,
    held,
    refused,
    served,
    served_each,
    types,
    wrapped,
)

ALL = [np.int8, np.uint8, np.int16, np.uint16, np.int32]


def reduce(name: str, axes: list[int], keep: bool = False) -> Any:
    build = getattr(op, f"reduce_{name}")
    return lambda n: build(n, constant(axes, np.int64), keep)


SUMS = {f"{axes} {keep}": (axes, keep) for axes in ([0], [1], [-1, 0]) for keep in (True, False)}


@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "open"])
@pytest.mark.parametrize("dtype", ALL)
def test_sums_wrap_around(dtype: type, fixed: bool) -> None:
    numbers = held(dtype)
    x = np.stack([numbers, numbers[::-1], np.roll(numbers, 3)])
    builds = {case: reduce("sum", axes, keep) for case, (axes, keep) in SUMS.items()}
    for case, output in served_each(builds, x, fixed=fixed).items():
        axes, keep = SUMS[case]
        expected = np.asarray(x.astype(object).sum(axis=tuple(axes), keepdims=keep), object)
        flat = wrapped(expected.reshape(-1).tolist(), dtype)
        assert np.array_equal(output.reshape(-1), flat), case
        assert output.shape == expected.shape, case


def mean(row: list[int]) -> int:
    total = sum(row)
    return abs(total) // len(row) * (-1 if total < 0 else 1)


SUM_AND_MEAN = [(reduce("sum", [1]), sum), (reduce("mean", [1]), mean)]


@given(st.lists(any_magnitude, min_size=1, max_size=40))
def test_sums_and_means_of_all_magnitudes(row: list[int]) -> None:
    """Of 64 bits they are refused where a sum on the way leaves 32."""
    x = np.array([row], np.int64)
    on_the_way = np.cumsum(x[0])
    leaves = bool((np.abs(on_the_way + 0.5) > 2**31).any())
    for build, expected in SUM_AND_MEAN:
        output, causes = answer(build, x)
        assert bool(causes) == leaves
        assert leaves or output.tolist() == [expected(row)]


def test_means_are_cut() -> None:
    x = np.array([[1, 2], [-1, -2], [2**24 + 1, 2**24 + 2], [-(2**24) - 1, 0]], np.int32)
    assert served(reduce("mean", [1]), x).tolist() == [mean(row) for row in x.tolist()]


def test_of_nothing_the_sum_is_0_and_the_mean_refused() -> None:
    x = np.zeros((2, 0), np.int32)
    assert served(reduce("sum", [1]), x).tolist() == [0, 0]
    assert refused(reduce("mean", [1]), x) == [True, True]


def test_cumulative_sums_are_refused_where_they_leave_32_bits() -> None:
    cumulate = lambda n: op.cum_sum(n, constant(1, np.int64))  # noqa: E731
    inside = np.array([[2**31 - 1, -1, 1], [-(2**31), 5, -5]], np.int64)
    assert np.array_equal(served(cumulate, inside), np.cumsum(inside, 1))
    beyond = np.array([[2**31 - 1, 1, -1], [-(2**31), -1, 0]], np.int64)
    assert all(refused(cumulate, beyond))


@pytest.mark.parametrize("reverse", [True, False])
def test_cumulative_sums_of_others_only(reverse: bool) -> None:
    build = lambda n: op.cum_sum(n, constant(1, np.int64), True, reverse)  # noqa: E731
    assert all(refused(build, np.array([[2**31 - 1, 1, 2**31 - 1]], np.int64)))
    assert served(build, np.array([[1, 2, 3]], np.int64)).tolist() == (
        [[5, 3, 0]] if reverse else [[0, 1, 3]]
    )


def test_products_of_many() -> None:
    x = np.array([[2**15, 3, -5], [2**20, 2**9, 1]], np.int64)
    assert served(reduce("prod", [1]), x).tolist() == np.prod(x, 1).tolist()
    assert all(refused(reduce("prod", [1]), np.array([[2**20, 2**11, 1]], np.int64)))


def test_matrices_are_refused_where_they_may_be_rounded() -> None:
    """By the magnitudes, since what is added up may cancel."""
    multiply = lambda a, b: op.matmul(a, b, False, False)  # noqa: E731
    a = np.array([[[4095, -7]]], np.int32)
    b = np.array([[[4096], [3]]], np.int32)
    assert served(multiply, a, b).tolist() == (a @ b).tolist()
    assert all(refused(multiply, a * 2, b))


def test_a_sum_of_a_mask_stays_as_it_is() -> None:
    mask = lambda n: op.convert(op.not_equal(n, constant(0)), "i32")  # noqa: E731
    kept = types(lambda n: op.reduce_sum(mask(n), constant([1]), False), np.ones((2, 3), np.int32))
    assert kept == ["NotEqual", "Convert", "ReduceSum"]

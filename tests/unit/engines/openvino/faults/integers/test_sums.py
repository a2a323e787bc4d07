"""Sums, means and products of many integers are exact, or refused, scattered ones as well."""

from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array
from ie_serving.engines.openvino.faults.integers.exact import EXACT, exact_integers
from tests.unit.engines.openvino.faults.integers.graphs import (
    answer,
    any_magnitude,
    constant,
    graph,
    held,
    refused,
    served,
    served_each,
    types,
    wrapped,
)

# Sums, means and products of many integers are exact, or refused.

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


def test_products_of_many_are_exact_or_refused() -> None:
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


# Sums that are scattered, or of segments, are exact, or refused.

PLACES = 3


def rows(data: Any, places: Any, values: Any, way: str = "sum") -> Any:
    column = op.unsqueeze(places, constant(1))
    return op.scatter_nd_update(data, column, values, way)


def elements(data: Any, places: Any, values: Any) -> Any:
    return op.scatter_elements_update(data, places, values, constant(0), "sum", True)


def segments(data: Any, places: Any, values: Any) -> Any:
    both = op.concat([data, values], 0)
    own = op.range(constant(0), constant(PLACES), constant(1), "i32")
    where = op.concat([own, op.convert(places, "i32")], 0)
    order = op.topk(where, op.squeeze(op.shape_of(where, "i32")), 0, "min", "value", stable=True)
    order = order.outputs()
    return op.embedding_segments_sum(both, order[1], order[0], constant(PLACES))


def without(data: Any, places: Any, values: Any) -> Any:
    return rows(data, places, values, "sub")


BUILDS = {"rows": rows, "elements": elements, "segments": segments, "without": without}
NUMBERS = st.lists(st.tuples(st.integers(0, PLACES - 1), any_magnitude), min_size=1, max_size=40)


def expected(name: str, data: list[int], numbers: list[tuple[int, int]]) -> list[int]:
    sums = list(data)
    for place, value in numbers:
        sums[place] += -value if name == "without" else value
    return sums


@given(
    st.sampled_from(sorted(BUILDS)),
    st.lists(any_magnitude, min_size=PLACES, max_size=PLACES),
    NUMBERS,
)
def test_sums_that_fit_are_exact_and_others_refused(
    name: str, data: list[int], numbers: list[tuple[int, int]]
) -> None:
    """Whatever left 32 bits on the way."""
    sums = expected(name, data, numbers)
    fits = all(-(2**31) <= each < 2**31 for each in sums)
    places, values = np.array(numbers, np.int64).T
    output, causes = answer(BUILDS[name], np.array(data), places, values)
    assert bool(causes) != fits
    assert not fits or output.tolist() == sums


def test_more_numbers_than_pieces_are_added_up_for_are_refused() -> None:
    few, many = np.zeros(1000, np.int64), np.zeros(1 << 20, np.int64)
    data = np.array([1, 2, 3])
    assert served(rows, data, few, few).tolist() == [1, 2, 3]
    assert answer(rows, data, many, many)[1]


@pytest.mark.parametrize("dtype", [np.int8, np.uint16])
def test_those_of_few_bits_wrap_around(dtype: type) -> None:
    most = np.iinfo(dtype).max
    data: Array = np.array([most, 0, 5], dtype)
    read = lambda *nodes: op.convert(rows(*nodes), "i32")  # noqa: E731
    found = served(read, data, np.array([0, 1]), np.array([2, 3], dtype))
    assert found.tolist() == (data + np.array([2, 3, 0], dtype)).astype(np.int32).tolist()


def test_ones_that_are_counted_stay_as_they_are() -> None:
    count = lambda places: rows(  # noqa: E731
        constant([0] * PLACES, np.int64),
        places,
        op.broadcast(constant(1, np.int64), op.shape_of(places)),
    )
    assert types(count, np.array([1, 1]))[-1] == "ScatterNDUpdate"
    assert types(count, np.array([1, 1])).count("ScatterNDUpdate") == 1


def test_an_operation_that_nothing_makes_exact_is_refused_by_name() -> None:
    cases = {
        "ReduceL2": lambda n: op.reduce_l2(n, constant([0]), False),
        "PRelu": lambda n: op.prelu(n, constant([2])),
        "ScatterNDUpdate": lambda n: rows(n, constant([0]), constant([2]), "prod"),
    }
    for name, build in cases.items():
        with pytest.raises(LoadFailed, match=f'does not compute {name} ".*" of i32 exactly'):
            exact_integers(graph(build, [np.array([1, 2], np.int32)]), EXACT)


def test_products_of_matrices_by_other_names() -> None:
    """Their magnitudes tell, as those of a MatMul."""
    x = np.array([4095, -7], np.int32)
    for equation, factors in (("i,i->", 2), ("i->", 1), ("i,i,i->", 3)):
        build = lambda n, e=equation, f=factors: op.einsum([n] * f, e)  # noqa: E731
        small = np.array([3, -200], np.int32)
        assert served(build, small).tolist() == sum(int(v) ** factors for v in small)
        large = np.array([2**24, -(2**24) + 3], np.int32)
        assert answer(build, large)[1], equation
    build = lambda n: op.reduce_l1(n, constant([0]), False)  # noqa: E731
    assert served(build, x).tolist() == 4102
    assert answer(build, np.array([2**24, 1], np.int32))[1]


def quantized(size: int) -> Any:
    weights = constant(np.full((size, 1), 127), np.int32)
    return lambda n: op.matmul(op.convert(n, "i32"), weights, False, False)


def test_sums_of_quantized_factors_are_left_alone_only_where_they_become_floats() -> None:
    x = np.full((1, 1000), 127, np.int8)
    assert served(quantized(1000), x).tolist() == [[127 * 127 * 1000]]
    assert answer(quantized(2000), np.full((1, 2000), 127, np.int8))[1]
    real = lambda n: op.convert(quantized(2000)(n), "f32")  # noqa: E731
    assert types(real, x).count("MatMul") == 1

"""Arithmetic of integers: results wrap around, are exact, or are refused."""

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
    DTYPES,
    INT32,
    answer,
    any_magnitude,
    assert_exact,
    constant,
    fits,
    graph,
    held,
    pairs,
    refused,
    served,
    served_each,
    types,
    wrapped,
)

# Results that wrap around do so in their own type, and those that do not fit are refused.

NARROW = [np.int8, np.uint8, np.int16, np.uint16, np.int32]
WIDE = [np.uint32, np.int64, np.uint64]
COMPUTE: dict[str, tuple[Any, Any]] = {
    "add": (op.add, lambda a, b: a + b),
    "subtract": (op.subtract, lambda a, b: a - b),
    "multiply": (op.multiply, lambda a, b: a * b),
    "squared difference": (op.squared_difference, lambda a, b: (a - b) ** 2),
    "abs": (lambda a, _: op.abs(a), lambda a, _: abs(a)),
    "cube": (lambda a, _: cube(a), lambda a, _: a**3),
}
BUILDS = {name: build for name, (build, _) in COMPUTE.items()}
BY_NAME = pytest.mark.parametrize("name", COMPUTE)


def cube(node: Any) -> Any:
    return op.power(node, op.convert(constant(3), node.get_element_type()))


def exactly(name: str, a: Array, b: Array) -> list[int]:
    compute = COMPUTE[name][1]
    return [compute(int(x), int(y)) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("dtype", NARROW)
def test_results_wrap_around_as_those_of_tensorflow(dtype: type) -> None:
    """Before, those of 8 bits stayed at their ends, and some were wrong without that."""
    a, b = pairs(dtype)
    for fixed in (True, False) if dtype in (np.int8, np.int32) else (True,):
        for name, output in served_each(BUILDS, a, b, fixed=fixed).items():
            assert np.array_equal(output, wrapped(exactly(name, a, b), dtype)), name


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_readers_of_results_see_them_wrapped_around(dtype: type) -> None:
    """Before, results of 16 bits went on with 32."""
    a, b = pairs(dtype)
    builds = {
        name: lambda x, y, build=build: op.convert(build(x, y), "i32")
        for name, build in BUILDS.items()
    }
    for name, output in served_each(builds, a, b).items():
        assert np.array_equal(output, wrapped(exactly(name, a, b), dtype).astype(np.int32)), name


@BY_NAME
@pytest.mark.parametrize("dtype", WIDE)
def test_results_that_fit_are_exact_and_the_rest_refused(name: str, dtype: type) -> None:
    a, b = pairs(dtype)
    values = exactly(name, a, b)
    inside = fits(values, dtype)
    expected = np.array([value for value in values if fits([value], dtype)[0]], dtype)
    assert np.array_equal(served(COMPUTE[name][0], a[inside], b[inside]), expected)
    if not inside.all():  # a third of them: each alone
        assert all(refused(COMPUTE[name][0], a[~inside][::3], b[~inside][::3]))


@given(
    st.sampled_from(sorted(COMPUTE)),
    st.lists(st.tuples(any_magnitude, any_magnitude), min_size=1, max_size=30),
)
def test_refused_at_all_magnitudes(name: str, numbers: list[tuple[int, int]]) -> None:
    a, b = np.array(numbers, np.int64).T
    inside = fits(exactly(name, a, b), np.int64)
    assert refused(COMPUTE[name][0], a, b) == (~inside).tolist()


def test_exponents_of_a_request_are_exact_or_refused() -> None:
    base = np.array([2, -3, 0, 0, 7, -1, 1, 46340], np.int32)
    exponent = np.array([30, 19, 0, 5, 11, 31, 30, 2], np.int32)
    expected = [int(x) ** int(y) for x, y in zip(base, exponent, strict=True)]
    assert served(op.power, base, exponent).tolist() == expected
    assert all(refused(op.power, np.array([2, 2]), np.array([-1, 32])))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.uint32])
def test_shifts_to_the_left(dtype: type) -> None:
    a = np.array([1, 3, 2**20, 2**30, 0], dtype)
    b = np.array([4, 29, 10, 0, 31], dtype)
    assert served(op.bitwise_left_shift, a, b).tolist() == [16, 3 << 29, 2**30, 2**30, 0]
    a, b = np.array([1, 3, 2**20], dtype), np.array([31, 30, 11], dtype)
    assert all(refused(op.bitwise_left_shift, a, b))


@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "open"])
@pytest.mark.parametrize("source", [np.int32, np.int64, np.int16, np.uint16])
def test_conversions_keep_the_bits_of_their_type(source: type, fixed: bool) -> None:
    """And keep them for what reads them, where the plugin goes on with 32 bits."""
    x = held(source)
    builds = {
        target: lambda n, to=target: op.convert(op.convert(n, to), "i32")
        for target in ("i8", "u8", "i16", "u16", "i32", "i64")
    }
    for target, output in served_each(builds, x, fixed=fixed).items():
        dtype = np.dtype({"i": "int", "u": "uint"}[target[0]] + target[1:])
        assert np.array_equal(output, x.astype(dtype).astype(np.int32)), target


@pytest.mark.parametrize(("target", "least"), [("i64", -(2.0**31)), ("u32", 0), ("u64", 0)])
def test_reals_that_do_not_fit_are_refused(target: str, least: float) -> None:
    convert = lambda n: op.convert(n, target)  # noqa: E731
    x = np.array([least, 0.5, 16777217.0, 2**31 - 128], np.float32)
    assert served(convert, x).tolist() == x.astype(np.int64).tolist()
    beyond = np.array([2**31, 1e12, np.inf, -np.inf, np.nan, least - 300], np.float32)
    assert all(refused(convert, beyond))


def test_negative_numbers_are_none_of_types_without_a_sign() -> None:
    assert all(refused(lambda n: op.convert(n, "u32"), np.array([-1, -(2**31)], np.int32)))


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(op.add, id="add"),
        pytest.param(op.floor_mod, id="floor_mod"),
        pytest.param(op.maximum, id="maximum"),
        pytest.param(
            lambda n, beyond: op.select(op.less(n, constant(1, np.int64)), n, beyond), id="select"
        ),
        pytest.param(
            lambda n, beyond: op.concat([n, op.unsqueeze(beyond, constant(0))], 0), id="concat"
        ),
        pytest.param(
            lambda n, beyond: op.pad(n, constant([1]), constant([1]), "constant", beyond), id="pad"
        ),
        pytest.param(
            lambda n, beyond: op.gather(op.unsqueeze(beyond, constant(0)), n, constant(0)),
            id="gather",
        ),
        pytest.param(
            lambda n, beyond: op.add(n, op.broadcast(beyond, op.shape_of(n))), id="broadcast"
        ),
    ],
)
def test_a_constant_beyond_32_bits_cannot_be_computed_with(build: Any) -> None:
    with pytest.raises(LoadFailed, match="a constant that does not fit into 32 bits"):
        served(lambda n: build(n, constant(2**40, np.int64)), held(np.int64))


def test_the_end_of_int64_may_stand_for_what_is_not_to_be_found() -> None:
    """As in `reduce_min(where(x > 1, x, int64.max))`; where nothing is found it is refused."""
    least = np.iinfo(np.int64)
    for end, reduce, extreme in ((least.max, op.reduce_min, min), (least.min, op.reduce_max, max)):

        def build(n: Any, end: int = end, reduce: Any = reduce) -> Any:
            chosen = op.greater(n, constant(1, np.int64))
            return reduce(op.select(chosen, n, constant(end, np.int64)), constant([0]), False)

        assert served(build, np.array([1, 7, 2**31 - 2])).tolist() == extreme(7, 2**31 - 2)
        assert refused(build, np.array([1, 0])) == [True, True]


def test_the_end_of_int64_may_end_a_slice() -> None:
    def build(n: Any) -> Any:
        first = op.gather(n, constant([0]), constant(0))
        ends = op.concat([first, constant([2**63 - 1], np.int64)], 0)
        start = constant([0, 0], np.int64)
        rows = op.unsqueeze(n, constant(1))
        return op.slice(rows, start, ends, constant([1, 1], np.int64))

    assert served(build, np.array([2, 5, 6])).tolist() == [[2], [5]]


def test_an_operation_that_cannot_leave_its_type_stays_as_it_is() -> None:
    x = held(np.int16).astype(np.int64)
    small = lambda n: op.add(op.floor_mod(n, constant(9, np.int64)), constant(1, np.int64))  # noqa: E731
    assert types(lambda n: small(op.convert(op.convert(n, "i16"), "i64")), x)[-2:] == [
        "FloorMod",
        "Add",
    ]
    assert types(lambda n: op.add(n, constant(1)), held(np.int32)) == ["Add"]


# Quotients and remainders are exact at all magnitudes, and a divisor of 0 is refused.


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
BY_KIND = pytest.mark.parametrize("name", DIVIDE)


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
def test_divisions_are_exact_at_all_magnitudes(name: str, numbers: list[tuple[int, int]]) -> None:
    build, expected = DIVIDE[name]
    a, b = np.array(numbers, np.int32).T
    assert np.array_equal(served(build, a, b), expected(a, b))


@BY_KIND
def test_divisions_are_exact_beside_every_multiple(name: str) -> None:
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
    for dtype, is_refused in ((np.int32, False), (np.int64, True)):
        a, b = np.array([-(2**31)], dtype), np.array([-1], dtype)
        output, causes = answer(op.divide, a, b)
        assert ("do not fit into 32 bits" in "".join(causes)) == is_refused
        assert output[0] == -(2**31)


@BY_KIND
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64])
def test_a_divisor_of_0_is_refused(name: str, dtype: type) -> None:
    a, b = np.array([5, 6], dtype), np.array([2, 0], dtype)
    _, causes = answer(DIVIDE[name][0], a, b)
    assert len(causes) == 1
    assert causes[0].startswith("Integer division by zero in ")


@BY_KIND
def test_small_numbers_are_divided_as_before(name: str) -> None:
    """As of 16 bits, and by a constant: nothing is added."""
    build, expected = DIVIDE[name]
    x = held(np.int16)
    divisor = constant(-7, np.int16)
    assert types(lambda n: build(n, divisor), x) == [name]
    output = served(lambda n: build(n, divisor), x)
    assert np.array_equal(output, expected(x, np.full_like(x, -7)))


# Bitwise operations: on what 32 bits hold they are exact, and no constant is cut in them.

X = held(np.int64)
BEYOND = 2**40 + 5


def halved(node: Any) -> Any:
    return op.bitwise_right_shift(node, op.convert(constant(1), node.get_element_type()))


@DTYPES
def test_bits_of_integers_are_inverted(dtype: type, fixed: bool) -> None:
    assert np.array_equal(served(op.bitwise_not, held(dtype), fixed=fixed), ~held(dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64])
def test_readers_of_inverted_bits_see_them_inverted(dtype: type) -> None:
    """Before, an uint16 went on with 32 bits, and a negative number."""
    x = held(dtype)
    assert np.array_equal(served(lambda n: halved(op.bitwise_not(n)), x), ~x >> 1)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_an_unsigned_integer_that_is_inverted_and_computed_with_is_refused(dtype: type) -> None:
    model = graph(lambda n: halved(op.bitwise_not(n)), [held(dtype)])
    with pytest.raises(LoadFailed, match="BitwiseNot"):
        exact_integers(model, EXACT)


@pytest.mark.parametrize("mask", [2**32 - 1, 2**31, BEYOND, 2**63 - 1, -(2**40) + 77])
def test_a_mask_beyond_32_bits(mask: int) -> None:
    """Of a negative number it leaves more than 32 bits hold; of others the plugin cut it."""

    def build(node: Any) -> Any:
        return op.bitwise_and(node, constant(mask, np.int64))

    assert refused(build, X) == (X < 0).tolist()
    assert np.array_equal(served(build, X[X >= 0]), X[X >= 0] & mask)


def test_a_mask_of_several_numbers() -> None:
    mask = constant([BEYOND, 7, 2**32 - 1, -1], np.int64)
    x = np.array([[12, -3, 2**31 - 1, -(2**31)]], np.int64)
    output, causes = answer(lambda node: op.bitwise_and(mask, node), x)
    assert (output.tolist(), causes) == ([[4, 5, 2**31 - 1, -(2**31)]], [])


@pytest.mark.parametrize("name", ["or", "xor", "right_shift"])
def test_other_constants_beyond_32_bits_fail_the_version(name: str) -> None:
    build = getattr(op, f"bitwise_{name}")
    model = graph(lambda node: build(constant(BEYOND, np.int64), node), [X])
    with pytest.raises(LoadFailed, match="does not fit into 32 bits"):
        exact_integers(model, EXACT)

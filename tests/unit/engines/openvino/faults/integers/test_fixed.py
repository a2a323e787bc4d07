"""What follows from shapes and constants alone, enters loops, or is only moved.

Sizes are small, but what fills tensors need not be.
"""

from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array
from ie_serving.engines.openvino.faults.integers.exact import EXACT, exact_integers
from tests.unit.engines.openvino.faults.integers.graphs import constant, graph, refused, served

ROWS = np.zeros(1000, np.float32)
LARGE = 2**24 + 1


def places(x: Any, kind: type) -> Any:
    size = op.gather(op.shape_of(x, ov.Type(kind)), constant(0), constant(0))
    return op.range(constant(0, kind), size, constant(1, kind), ov.Type(kind))


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_hashes_of_places_are_exact(kind: type) -> None:
    def build(x: Any) -> Any:
        spread = op.multiply(places(x, kind), constant(40503, kind))
        return op.floor_mod(spread, constant(65537, kind))

    assert np.array_equal(served(build, ROWS), np.arange(1000) * 40503 % 65537)


def test_tensors_that_are_filled_with_large_numbers_differ() -> None:
    def build(x: Any) -> Any:
        full, other = (op.broadcast(constant(n), op.shape_of(x)) for n in (LARGE, LARGE - 1))
        return op.equal(full, other)

    assert not served(build, ROWS).any()


@pytest.mark.parametrize("x", [[5, -6], [-5, 7]])
def test_a_constant_that_is_made_of_constants(x: list[int]) -> None:
    """OpenVINO folds 10**6 * 10**6 at load, without wrapping around, and cuts it then."""
    million = constant(10**6, np.int64)
    model = graph(lambda n: op.add(n, op.multiply(million, million)), [np.array(x, np.int64)])
    with pytest.raises(LoadFailed, match="does not fit into 32 bits"):
        exact_integers(model, EXACT)


WIDE = np.array([[2**40, 3, -5], [7, 8, 9]], np.int64)
INDICES = constant([[0, 0, 1]], np.int64)
ONE = constant(1, np.int64)


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda wide: op.bitwise_and(wide, wide), id="and"),
        pytest.param(lambda wide: op.bitwise_or(wide, wide), id="or"),
        pytest.param(lambda wide: op.bitwise_xor(wide, ONE), id="xor"),
        pytest.param(op.bitwise_not, id="not"),
        pytest.param(lambda wide: op.bitwise_left_shift(wide, ONE), id="left"),
        pytest.param(lambda wide: op.bitwise_right_shift(wide, ONE), id="right"),
        pytest.param(lambda wide: op.squared_difference(wide, ONE), id="squares"),
        pytest.param(lambda wide: op.cum_sum(wide, ONE), id="sums"),
        pytest.param(lambda wide: op.reduce_l2(wide, ONE), id="norms"),
        pytest.param(lambda wide: op.unique(wide).output(0), id="unique"),
        pytest.param(lambda wide: op.gather_elements(wide, INDICES, 0), id="elements"),
        pytest.param(lambda wide: op.gather_nd(wide, constant([[0, 0]])), id="places"),
        pytest.param(lambda wide: op.roll(wide, constant([1]), constant([0])), id="rolled"),
        pytest.param(lambda wide: op.reverse_sequence(wide, constant([1, 2]), 0, 1), id="back"),
        pytest.param(lambda wide: op.bucketize(wide, constant([1, 5], np.int64)), id="buckets"),
        pytest.param(lambda wide: op.search_sorted(op.constant(WIDE), wide), id="searched"),
        pytest.param(lambda wide: op.embedding_bag_packed(wide, constant([[0, 1]])), id="bags"),
    ],
)
def test_constants_beyond_32_bits_that_openvino_does_not_fold_are_refused(build: Any) -> None:
    """It cuts them when the model is compiled, and a request's answer would come of that."""
    made = op.convert(build(op.constant(WIDE)), "f32")
    model = graph(lambda x: op.add(op.reduce_max(x, constant(0)), made), [ROWS])
    with pytest.raises(LoadFailed, match=r"fit into 32 bits|exactly"):
        exact_integers(model, EXACT)


def test_an_output_that_is_a_constant_beyond_32_bits_fails_the_version() -> None:
    model = graph(lambda _: constant([2**40], np.int64), [ROWS])
    with pytest.raises(LoadFailed, match="does not fit into 32 bits"):
        exact_integers(model, EXACT)


def over(given: Any, step: Any, *, sliced: bool) -> Any:
    """Give the graph of a loop over rows of its input, whose body is given something more."""

    def build(x: Any) -> Any:
        row, more = op.parameter([1], x.get_element_type()), op.parameter([1], ov.Type.i32)
        if not sliced:
            more = op.parameter([1], given.get_element_type())
        body = ov.Model(
            [op.result(op.constant(np.array(True))), op.result(step(row, more))], [row, more]
        )
        rows = op.gather(op.shape_of(x), constant(0), constant(0))
        loop = op.loop(rows, op.constant(np.array(True)))
        loop.set_function(body)
        loop.set_special_body_ports([-1, 0])
        loop.set_sliced_input(row, x.output(0), 0, 1, 1, -1, 0)
        if sliced:
            loop.set_sliced_input(more, given.output(0), 0, 1, 1, -1, 0)
        else:
            loop.set_invariant_input(more, given.output(0))
        return loop.get_concatenated_slices(body.get_results()[1].output(0), 0, 1, 1, -1, 0)

    return build


def test_rows_of_a_constant_in_a_loop_are_exact() -> None:
    table = np.array([LARGE, LARGE + 2, 2**31 - 1, 12345], np.int32)

    def step(row: Any, each: Any) -> Any:
        return op.add(op.floor_mod(each, constant([7])), row)

    x: Array = np.zeros(4, np.int32)
    build = over(op.constant(table), step, sliced=True)
    assert np.array_equal(served(build, x), table % 7)


def test_a_constant_beyond_32_bits_does_not_enter_a_loop() -> None:
    limit = constant([2**40], np.int64)
    model = graph(over(limit, op.less, sliced=False), [np.array([1, 2], np.int64)])
    with pytest.raises(LoadFailed, match="does not fit into 32 bits"):
        exact_integers(model, EXACT)


@pytest.mark.parametrize("kind", [np.uint32, np.int64, np.uint64])
def test_reals_that_are_converted_like_another_tensor(kind: type) -> None:
    """As `CastLike` of ONNX."""

    def build(x: Any) -> Any:
        return op.convert_like(x, constant(0, kind))

    x = np.array([7, 3e9, 70000, np.nan], np.float32)
    assert refused(build, x) == [False, True, False, True]
    assert served(build, x[[0, 2]]).tolist() == [7, 70000]


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_pictures_of_large_integers_are_not_resized(kind: type) -> None:
    """OpenVINO resizes reals; of small integers those are the same."""

    def build(x: Any) -> Any:
        sizes, axes = constant([2], np.int64), constant([2], np.int64)
        picture = op.reshape(x, constant([1, 1, 1], np.int64), False)
        return op.interpolate(picture, sizes, "nearest", "sizes", axes=axes)

    x = np.array([2**24 - 1, 1 - 2**24, LARGE, -LARGE], kind)
    assert refused(build, x) == [False, False, True, True]
    assert served(build, x[:1]).tolist() == [[[2**24 - 1] * 2]]


SEARCH: dict[str, Any] = {
    "bucketize": op.bucketize,
    "bucketize without": lambda x, limits: op.bucketize(x, limits, with_right_bound=False),
    "sorted": lambda x, limits: op.search_sorted(limits, x),
    "sorted right": lambda x, limits: op.search_sorted(limits, x, True),
}
ENDS = np.array([-(2**31), -(2**31) + 1, -5, 100, LARGE, 2**31 - 2, 2**31 - 1], np.int64)


@pytest.mark.parametrize("name", SEARCH)
def test_places_among_constants_beyond_32_bits_are_exact_or_refused(name: str) -> None:
    """They are cut to the ends of int32, which differ from all numbers but those ends."""
    limits = [-(2**40), -(2**33), -5, 100, 2**33, 2**40]
    side = "right" if name in ("bucketize without", "sorted right") else "left"

    def build(x: Any) -> Any:
        return SEARCH[name](x, constant(limits, np.int64))

    assert refused(build, ENDS) == [True, *[False] * 5, True]
    assert served(build, ENDS[1:-1]).tolist() == np.searchsorted(limits, ENDS[1:-1], side).tolist()


@pytest.mark.parametrize("fixed", [True, False])
def test_reals_become_booleans(fixed: bool) -> None:
    """As a `Cast` of ONNX: before, no such model was served."""
    x = np.array([0.0, 1.5, -0.25], np.float32)
    output = served(lambda node: op.convert(node, "boolean"), x, fixed=fixed)
    assert output.tolist() == [False, True, True]

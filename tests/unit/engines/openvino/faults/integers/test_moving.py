"""What only moves integers leaves all their bits, and what it fills up with, too."""

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest

from ie_serving.core.values.tensors import Array
from tests.unit.engines.openvino.faults.integers.graphs import (
    assert_exact,
    constant,
    held,
    served,
    types,
)

LARGE = np.array(
    [[2**24 + 1, 2**31 - 1, -(2**31), 5], [-(2**24) - 3, 2**30 + 1, 7, 2**25 + 3]], np.int32
)
BOTH = pytest.mark.parametrize("fixed", [True, False])
KINDS = pytest.mark.parametrize("kind", [np.int32, np.int64])


def places(*numbers: Any) -> Any:
    return constant(list(numbers), np.int64)


def like(x: Any, number: int) -> Any:
    return op.convert(constant(number), x.get_element_type())


def replaced(x: Array) -> Array:
    return np.array([x[0], [2**24 + 9] * 4], x.dtype)


MOVES: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "broadcast": (lambda x: op.broadcast(x, places(3, 2, 4)), lambda x: np.stack([x] * 3)),
    "concat": (lambda x: op.concat([x, x], 1), lambda x: np.concatenate([x, x], 1)),
    "gather": (lambda x: op.gather(x, places(1, 0, 1), constant(0)), lambda x: x[[1, 0, 1]]),
    "gather elements": (
        lambda x: op.gather_elements(x, constant([[0, 3], [1, 2]]), 1),
        lambda x: np.take_along_axis(x, np.array([[0, 3], [1, 2]]), 1),
    ),
    "gather nd": (lambda x: op.gather_nd(x, places([0, 1], [1, 3])), lambda x: x[[0, 1], [1, 3]]),
    "pad": (
        lambda x: op.pad(x, places(0, 1), places(0, 2), "constant", like(x, 2**24 + 1)),
        lambda x: np.pad(x, ((0, 0), (1, 2)), constant_values=2**24 + 1),
    ),
    "pad backwards": (
        lambda x: op.pad(x, places(0, -1), places(0, 2), "constant", like(x, -(2**31))),
        lambda x: np.pad(x[:, 1:], ((0, 0), (0, 2)), constant_values=-(2**31)),
    ),
    "pad by edges": (
        lambda x: op.pad(x, places(0, 1), places(0, 1), "edge"),
        lambda x: np.pad(x, ((0, 0), (1, 1)), mode="edge"),
    ),
    "pad by mirrors": (
        lambda x: op.pad(x, places(0, 1), places(0, 1), "reflect", like(x, 2**24 + 1)),
        lambda x: np.pad(x, ((0, 0), (1, 1)), mode="reflect"),
    ),
    "reverse sequence": (
        lambda x: op.reverse_sequence(x, constant([4, 2]), 0, 1),
        lambda x: np.stack([x[0, ::-1], x[1, [1, 0, 2, 3]]]),
    ),
    "roll": (lambda x: op.roll(x, places(3), places(1)), lambda x: np.roll(x, 3, 1)),
    "scatter": (
        lambda x: op.scatter_update(
            x, places(1), op.broadcast(like(x, 2**24 + 9), places(1, 4)), constant(0)
        ),
        replaced,
    ),
    "scatter elements": (
        lambda x: op.scatter_elements_update(
            x, places([1] * 4), op.broadcast(like(x, 2**24 + 9), places(1, 4)), constant(0)
        ),
        replaced,
    ),
    "slice": (
        lambda x: op.slice(x, places(3), places(-9), places(-1), places(1)),
        lambda x: x[:, ::-1],
    ),
    "split": (lambda x: op.split(x, constant(1), 2).output(1), lambda x: x[:, 2:]),
    "tile": (lambda x: op.tile(x, places(1, 2)), lambda x: np.tile(x, 2)),
    "transpose": (lambda x: op.transpose(x, places(1, 0)), lambda x: x.T),
}


@BOTH
@KINDS
def test_operations_that_move_integers_keep_all_bits(kind: type, fixed: bool) -> None:
    assert_exact(MOVES, LARGE.astype(kind), fixed=fixed)


@KINDS
def test_the_values_of_one_hot_are_exact(kind: type) -> None:
    def build(x: Any) -> Any:
        return op.one_hot(x, constant(3), like(x, 2**24 + 1), like(x, -(2**31)), -1)

    expected = np.where(np.eye(3, dtype=bool)[[2, 0]], 2**24 + 1, -(2**31))
    assert np.array_equal(served(build, np.array([2, 0], kind)), expected)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16])
def test_few_bits_move_as_they_are(kind: type) -> None:
    x = held(kind)

    def build(node: Any) -> Any:
        picture = op.unsqueeze(node, constant(0))
        padded = op.pad(picture, places(0, 1), places(0, 1), "constant", like(node, 100))
        return op.reverse_sequence(padded, constant([len(x) + 2]), 0, 1)

    assert np.array_equal(served(build, x)[0], np.pad(x, 1, constant_values=100)[::-1])
    assert not {"BitwiseXor", "BitwiseOr"} & set(types(build, x))

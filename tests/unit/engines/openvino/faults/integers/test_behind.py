"""Arithmetic behind an operation that the plugin computes as float32 is exact all the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest

from ie_serving.core.values.tensors import Array
from tests.unit.engines.openvino.faults.integers.graphs import (
    DTYPES,
    constant,
    served,
)

LARGE = 82374765
ROWS = np.array([[1, 2, 3], [4, 5, 6], [-3, -4, -9]])
WEIGHTS = np.array([[3, 1], [5, 7], [1, 1]])


def reduced(name: str) -> Callable[[Any], Any]:
    return lambda n: getattr(op, f"reduce_{name}")(n, constant([1], np.int64), True)


FRONT: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "matmul": (lambda n: op.matmul(n, constant(WEIGHTS), False, False), lambda x: x @ WEIGHTS),
    "einsum": (lambda n: op.einsum([n, constant(WEIGHTS)], "ab,bc->ac"), lambda x: x @ WEIGHTS),
    "l1": (reduced("l1"), lambda x: np.abs(x).sum(1, keepdims=True)),
    "sum": (reduced("sum"), lambda x: x.sum(1, keepdims=True)),
    "max": (reduced("max"), lambda x: x.max(1, keepdims=True)),
    "product": (reduced("prod"), lambda x: x.prod(1, keepdims=True)),
}
BEHIND: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
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
@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("front", FRONT)
def test_arithmetic_behind_is_exact(front: str, behind: str, fixed: bool) -> None:
    """Also behind what only moves numbers, past which the plugin takes arithmetic."""
    (first, expected), (second, then) = FRONT[front], BEHIND[behind]
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

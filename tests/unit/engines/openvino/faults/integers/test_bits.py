"""Bitwise operations: on what 32 bits hold they are exact, and no constant is cut in them."""

from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.faults.integers.exact import EXACT, exact_integers
from tests.unit.engines.openvino.faults.integers.graphs import (
    DTYPES,
    answer,
    constant,
    graph,
    held,
    refused,
    served,
)

X = held(np.int64)
BEYOND = 2**40 + 5


def halved(node: Any) -> Any:
    return op.bitwise_right_shift(node, op.convert(constant(1), node.get_element_type()))


@DTYPES
def test_what_is_inverted(dtype: type, fixed: bool) -> None:
    assert np.array_equal(served(op.bitwise_not, held(dtype), fixed=fixed), ~held(dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64])
def test_what_reads_it_sees_it_inverted(dtype: type) -> None:
    """Before, an uint16 went on with 32 bits, and a negative number."""
    x = held(dtype)
    assert np.array_equal(served(lambda n: halved(op.bitwise_not(n)), x), ~x >> 1)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_what_has_no_sign_is_not_inverted_for_others_to_compute_with(dtype: type) -> None:
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

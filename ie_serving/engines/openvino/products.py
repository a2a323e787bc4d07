"""Sizes that two operands of a product share, held together where a request's values decide one.

The CPU plugin reads as many numbers as its weights have, whatever the other operand brings.
Measured with OpenVINO 2026.4 in FP32: five values that were chosen from a request, times 784
weights, were answered with the sum of the 784 numbers that lay in memory from the five on, another
request's among them; with more rows the process ended. So a Reshape to the size that is wanted
stands in front of such an operand, and refuses numbers that do not fit. Sizes that follow from the
shapes of inputs are checked before (`shape_inference.py`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import openvino as ov
import openvino.opset15 as op

from ie_serving.core.errors import LoadFailed
from ie_serving.engines.openvino.graphs.constants import int64
from ie_serving.engines.openvino.graphs.flags import title


class _Size(NamedTuple):
    """One dimension of one input of an operation, counted from the front."""

    number: int
    place: int


Shared = tuple[_Size, _Size]
"""Two dimensions that have to be equal."""


def hold_products(pairs: Iterable[tuple[ov.Node, ov.Node]]) -> None:
    """Let operations refuse operands that do not fit together. Changes the graph of the first ones.

    Args:
        pairs: each operation, and the same one of a copy whose inputs have fixed shapes.

    Raises:
        LoadFailed: values decide how many dimensions an operand has.
    """
    for node, twin in pairs:
        shared = _SHARED.get(node.get_type_name())
        if shared is not None and _is_decided_by_values(twin):
            for one, other in shared(node, _ranks(node, twin)):
                _hold(node, twin, one, other)


def _is_decided_by_values(twin: ov.Node) -> bool:
    return any(twin.get_input_partial_shape(i).is_dynamic for i in range(twin.get_input_size()))


def _ranks(node: ov.Node, twin: ov.Node) -> list[int]:
    shapes = [twin.get_input_partial_shape(i) for i in range(twin.get_input_size())]
    if any(shape.rank.is_dynamic for shape in shapes):
        raise LoadFailed(
            f"{title(node)} multiplies tensors of which the values of a request decide how many"
            " dimensions they have, which OpenVINO's CPU plugin does not check: reshape them to a"
            " known number of dimensions in the model"
        )
    return [shape.rank.get_length() for shape in shapes]


def _hold(node: ov.Node, twin: ov.Node, one: _Size, other: _Size) -> None:
    """Reshape the operand whose size values decide to the size of the other one."""
    if _dimension(twin, one).is_static:
        one, other = other, one
    if _dimension(twin, one).is_static:
        return
    rank = twin.get_input_partial_shape(one.number).rank.get_length()
    kept = int64([0])
    pattern = [_wanted(node, other) if place == one.place else kept for place in range(rank)]
    held = op.reshape(node.input_value(one.number), op.concat(pattern, 0), True)
    held.set_friendly_name(f"{node.get_friendly_name()}/operand_{one.number}")
    node.input(one.number).replace_source_output(held.output(0))


def _dimension(node: ov.Node, size: _Size) -> ov.Dimension:
    return node.get_input_partial_shape(size.number)[size.place]


def _wanted(node: ov.Node, size: _Size) -> ov.Node:
    """Give a size, shape (1,). In the graph itself: what its copy knows was chosen for a try."""
    known = _dimension(node, size)
    if known.is_static:
        return int64([known.get_length()])
    shape = op.shape_of(node.input_value(size.number), "i64")
    return op.gather(shape, int64([size.place]), int64(0))


def _of_matmul(node: ov.Node, ranks: list[int]) -> Iterator[Shared]:
    attributes = node.get_attributes()
    first = max(ranks[0] - (2 if attributes["transpose_a"] else 1), 0)
    second = max(ranks[1] - (1 if attributes["transpose_b"] else 2), 0)
    yield _Size(0, first), _Size(1, second)


def _of_attention(_: ov.Node, ranks: list[int]) -> Iterator[Shared]:
    """Query and key have one width, key and value one length."""
    yield _Size(0, ranks[0] - 1), _Size(1, ranks[1] - 1)
    yield _Size(1, ranks[1] - 2), _Size(2, ranks[2] - 2)


def _of_einsum(node: ov.Node, ranks: list[int]) -> Iterator[Shared]:
    """Give each label's first place with each of its others; `...` stands for what is left."""
    equation = str(node.get_attributes()["equation"]).replace(" ", "")
    first: dict[str, _Size] = {}
    for number, (term, rank) in enumerate(
        zip(equation.split("->")[0].split(","), ranks, strict=True)
    ):
        before, _, behind = term.partition("...")
        places = [*range(len(before)), *range(rank - len(behind), rank)]
        for label, place in zip(before + behind, places, strict=True):
            size = _Size(number, place)
            if (known := first.setdefault(label, size)) != size:
                yield known, size


_SHARED: "Mapping[str, Callable[[ov.Node, list[int]], Iterator[Shared]]]" = MappingProxyType(
    {"MatMul": _of_matmul, "Einsum": _of_einsum, "ScaledDotProductAttention": _of_attention}
)

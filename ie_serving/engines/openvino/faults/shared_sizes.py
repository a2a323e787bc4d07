"""Checks that two operands agree in a shared size where the values of a request decide one of them.

The CPU plugin reads as many numbers as its weights have, even if the other operand has fewer.
Measured with OpenVINO 2026.4 in FP32: a product of five values selected by a request and 784
weights summed the 784 numbers that followed in memory, another request's among them; with more rows
the process ended. So a Reshape to the required size is put before such an operand; it refuses other
sizes. The same holds for the batches of a `Gather`, which gave rows of another batch or none, for
lengths of `CTCGreedyDecoderSeqLen`, for the batch indices of regions, and for the scales of a
normalization. Sizes that follow from input shapes are checked before an inference
(`running/shape_inference.py`), except the indices of `ScatterElementsUpdate`, which are held here.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.graphs.constants import int64, known_input
from ie_serving.engines.openvino.graphs.rules import Rule, Rules
from ie_serving.engines.openvino.graphs.walk import title

Hold: TypeAlias = Callable[[ov.Node, ov.Node], None]
"""Makes an operation refuse operands of unequal sizes; also gets its double in a copy."""
_PRODUCT = "a_product_reads_beyond_its_operand"


class _Size(NamedTuple):
    """One dimension of one input of an operation, counted from the front."""

    number: int
    dimension: int


SharedSize = tuple[_Size, _Size]
"""Two dimensions that must be equal."""


def hold_sizes(pairs: Iterable[tuple[ov.Node, ov.Node]]) -> None:
    """Make operations refuse operands of unequal sizes. Changes the graph of the first ones.

    Args:
        pairs: each operation, and the same one of a copy whose inputs have fixed shapes.

    Raises:
        LoadFailed: the values of a request decide the rank of an operand.
    """
    for node, twin in pairs:
        for _, rule in RULES.of(node):
            rule.do(node, twin)


def _sharing(shared: Callable[[ov.Node, ov.Node], Iterator[SharedSize]]) -> Hold:
    def hold(node: ov.Node, twin: ov.Node) -> None:
        if _is_decided_by_values(twin):
            for one, other in shared(node, twin):
                _hold(node, twin, one, other)

    return hold


def _is_decided_by_values(twin: ov.Node) -> bool:
    return any(twin.get_input_partial_shape(i).is_dynamic for i in range(twin.get_input_size()))


def _ranks(node: ov.Node, twin: ov.Node) -> list[int]:
    shapes = [twin.get_input_partial_shape(i) for i in range(twin.get_input_size())]
    if any(shape.rank.is_dynamic for shape in shapes):
        raise LoadFailed(
            f"{title(node)} combines tensors whose ranks depend on the values of a request, which"
            " OpenVINO's CPU plugin does not check: reshape them to known ranks in the model"
        )
    return [shape.rank.get_length() for shape in shapes]


def _hold(node: ov.Node, twin: ov.Node, one: _Size, other: _Size) -> None:
    """Reshape the operand whose size depends on values to the size of the other operand."""
    if _dimension(twin, one).is_static:
        one, other = other, one
    if _dimension(twin, one).is_static:
        return
    rank = twin.get_input_partial_shape(one.number).rank.get_length()
    kept = int64([0])
    pattern = [
        _size_node(node, other) if dimension == one.dimension else kept for dimension in range(rank)
    ]
    is_known = _dimension(node, other).is_static
    _insist(node, one.number, op.concat(pattern, 0), rank, is_known=is_known)


def _insist(
    node: ov.Node, number: int, pattern: ov.Node, rank: int, *, is_known: bool = False
) -> None:
    """Refuse an operand whose sizes differ from `pattern`."""
    given = node.input_value(number)
    if is_known:
        held = op.reshape(given, pattern, True)
    else:
        # The compile turns a single unknown size into -1, which accepts any. It has to keep both of
        # two unknown sizes: the second is 1, computed so that the compile cannot fold it.
        size = op.gather(op.shape_of(given, "i64"), int64([0]), int64(0))
        one = op.subtract(op.add(size, int64([1])), size)
        held = op.squeeze(op.reshape(given, op.concat([pattern, one], 0), True), int64([rank]))
    held.set_friendly_name(f"{node.get_friendly_name()}/operand_{number}")
    node.input(number).replace_source_output(held.output(0))


def _hold_indices(node: ov.Node, twin: ov.Node) -> None:
    """Bound the shape of a scatter's indices by that of its data, except along the axis."""
    data, dimensions = (node.get_input_partial_shape(number) for number in range(2))
    axis = known_input(node, 3)
    rank = _ranks(node, twin)[1]
    if axis is not None and data.is_static and dimensions.is_static:
        along = int(axis.item()) % rank
        if all(
            dimensions[at].get_length() <= data[at].get_length()
            for at in range(rank)
            if at != along
        ):
            return
    own, whole = (op.shape_of(node.input_value(number), "i64") for number in (1, 0))
    scattered = op.convert(op.reshape(node.input_value(3), int64([1]), False), "i64")
    here = op.equal(int64(list(range(rank))), op.floor_mod(scattered, int64([rank])))
    _insist(node, 1, op.select(here, own, op.minimum(own, whole)), rank)


def _dimension(node: ov.Node, size: _Size) -> ov.Dimension:
    return node.get_input_partial_shape(size.number)[size.dimension]


def _size_node(node: ov.Node, size: _Size) -> ov.Node:
    """Give a size, shape (1,), from the graph itself: the copy has input sizes chosen for a try."""
    known = _dimension(node, size)
    if known.is_static:
        return int64([known.get_length()])
    shape = op.shape_of(node.input_value(size.number), "i64")
    return op.gather(shape, int64([size.dimension]), int64(0))


def _of_matmul(node: ov.Node, twin: ov.Node) -> Iterator[SharedSize]:
    ranks, attributes = _ranks(node, twin), node.get_attributes()
    first = max(ranks[0] - (2 if attributes["transpose_a"] else 1), 0)
    second = max(ranks[1] - (1 if attributes["transpose_b"] else 2), 0)
    yield _Size(0, first), _Size(1, second)


def _of_attention(node: ov.Node, twin: ov.Node) -> Iterator[SharedSize]:
    """Pair the widths of query and key, and the lengths of key and value."""
    ranks = _ranks(node, twin)
    yield _Size(0, ranks[0] - 1), _Size(1, ranks[1] - 1)
    yield _Size(1, ranks[1] - 2), _Size(2, ranks[2] - 2)


def _of_einsum(node: ov.Node, twin: ov.Node) -> Iterator[SharedSize]:
    """Pair each label's first dimension with its others; `...` stands for the other dimensions."""
    equation = str(node.get_attributes()["equation"]).replace(" ", "")
    first: dict[str, _Size] = {}
    for number, (term, rank) in enumerate(
        zip(equation.split("->")[0].split(","), _ranks(node, twin), strict=True)
    ):
        before, _, behind = term.partition("...")
        dimensions = [*range(len(before)), *range(rank - len(behind), rank)]
        for label, dimension in zip(before + behind, dimensions, strict=True):
            size = _Size(number, dimension)
            if (known := first.setdefault(label, size)) != size:
                yield known, size


def _of_gather(node: ov.Node, twin: ov.Node) -> Iterator[SharedSize]:
    """Pair batch dimensions of data and indices; a negative `batch_dims` counts from the end."""
    if count := int(node.get_attributes().get("batch_dims", 0)):  # most have none
        rank = _ranks(node, twin)[1]
        for dimension in range(count if count >= 0 else count + rank):
            yield _Size(0, dimension), _Size(1, dimension)


def _of_cuts(node: ov.Node, twin: ov.Node) -> Iterator[SharedSize]:
    """Pair the numbers of begins, ends and steps."""
    for number in range(2, node.get_input_size()):
        yield _Size(1, 0), _Size(number, 0)


def _hold_sizes(*shared: SharedSize) -> Hold:
    """Hold the given sizes, for any attributes and ranks."""

    def of_all(node: ov.Node, twin: ov.Node) -> Iterator[SharedSize]:
        _ranks(node, twin)
        yield from shared

    return _sharing(of_all)


RULES: Rules[Hold] = Rules(
    (
        Rule(_PRODUCT, "CTCGreedyDecoderSeqLen", _hold_sizes((_Size(0, 0), _Size(1, 0)))),
        Rule(_PRODUCT, "Einsum", _sharing(_of_einsum)),
        Rule("a_gather_reads_beyond_the_shorter_batch", "Gather GatherND", _sharing(_of_gather)),
        Rule(
            _PRODUCT,
            "GroupNormalization",
            _hold_sizes((_Size(0, 1), _Size(1, 0)), (_Size(0, 1), _Size(2, 0))),
        ),
        Rule(_PRODUCT, "MatMul", _sharing(_of_matmul)),
        Rule(_PRODUCT, "ROIAlign", _hold_sizes((_Size(1, 0), _Size(2, 0)))),
        Rule(_PRODUCT, "ScaledDotProductAttention", _sharing(_of_attention)),
        Rule("ends_of_other_axes_end_the_process", "Slice StridedSlice", _sharing(_of_cuts)),
        Rule("a_scatter_writes_behind_its_rows", "ScatterElementsUpdate", _hold_indices),
    )
)

"""Sizes that two operands share, held together where a request's values decide one.

The CPU plugin reads as many numbers as its weights have, whatever the other operand brings.
Measured with OpenVINO 2026.4 in FP32: five values that were chosen from a request, times 784
weights, were answered with the sum of the 784 numbers that lay in memory from the five on, another
request's among them; with more rows the process ended. So a Reshape to the size that is wanted
stands in front of such an operand, and refuses numbers that do not fit. So it is with the batches
of a `Gather`, which answered with rows of another batch or with none, with lengths for
`CTCGreedyDecoderSeqLen`, with places of regions, and with the scales of a normalization. Sizes that
follow from the shapes of inputs are checked before (`running/shape_inference.py`); but that of
indices that `ScatterElementsUpdate` writes beyond its data by, which nothing checks.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.graphs.constants import int64, known_input
from ie_serving.engines.openvino.graphs.flags import title
from ie_serving.engines.openvino.graphs.rules import Rule, Rules


class _Size(NamedTuple):
    """One dimension of one input of an operation, counted from the front."""

    number: int
    place: int


Shared = tuple[_Size, _Size]
"""Two dimensions that have to be equal."""
Hold: TypeAlias = Callable[[ov.Node, ov.Node], None]
"""Lets an operation refuse operands that do not fit together, by the same one of a copy."""


def hold_sizes(pairs: Iterable[tuple[ov.Node, ov.Node]]) -> None:
    """Let operations refuse operands that do not fit together. Changes the graph of the first ones.

    Args:
        pairs: each operation, and the same one of a copy whose inputs have fixed shapes.

    Raises:
        LoadFailed: values decide how many dimensions an operand has.
    """
    for node, twin in pairs:
        for _, rule in _RULES.of(node):
            rule.do(node, twin)


def _sharing(shared: Callable[[ov.Node, ov.Node], Iterator[Shared]]) -> Hold:
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
            f"{title(node)} puts tensors together of which the values of a request decide how many"
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
    is_known = _dimension(node, other).is_static
    _insist(node, one.number, op.concat(pattern, 0), rank, is_known=is_known)


def _insist(
    node: ov.Node, number: int, pattern: ov.Node, rank: int, *, is_known: bool = False
) -> None:
    """Let an operand have the sizes of `pattern`; what has others is refused."""
    given = node.input_value(number)
    if is_known:
        held = op.reshape(given, pattern, True)
    else:
        # The compile turns one size that it does not know into -1, which takes any. Of two it has
        # to keep both: the second is 1, made so that it cannot see that.
        size = op.gather(op.shape_of(given, "i64"), int64([0]), int64(0))
        one = op.subtract(op.add(size, int64([1])), size)
        held = op.squeeze(op.reshape(given, op.concat([pattern, one], 0), True), int64([rank]))
    held.set_friendly_name(f"{node.get_friendly_name()}/operand_{number}")
    node.input(number).replace_source_output(held.output(0))


def _hold_places(node: ov.Node, twin: ov.Node) -> None:
    """Let the indices of a scatter reach no farther than its data, but along the axis."""
    data, places = (node.get_input_partial_shape(number) for number in range(2))
    axis = known_input(node, 3)
    rank = _ranks(node, twin)[1]
    if axis is not None and data.is_static and places.is_static:
        along = int(axis.item()) % rank
        if all(
            places[at].get_length() <= data[at].get_length() for at in range(rank) if at != along
        ):
            return
    own, whole = (op.shape_of(node.input_value(number), "i64") for number in (1, 0))
    scattered = op.convert(op.reshape(node.input_value(3), int64([1]), False), "i64")
    here = op.equal(int64(list(range(rank))), op.floor_mod(scattered, int64([rank])))
    _insist(node, 1, op.select(here, own, op.minimum(own, whole)), rank)


def _dimension(node: ov.Node, size: _Size) -> ov.Dimension:
    return node.get_input_partial_shape(size.number)[size.place]


def _wanted(node: ov.Node, size: _Size) -> ov.Node:
    """Give a size, shape (1,). In the graph itself: what its copy knows was chosen for a try."""
    known = _dimension(node, size)
    if known.is_static:
        return int64([known.get_length()])
    shape = op.shape_of(node.input_value(size.number), "i64")
    return op.gather(shape, int64([size.place]), int64(0))


def _of_matmul(node: ov.Node, twin: ov.Node) -> Iterator[Shared]:
    ranks, attributes = _ranks(node, twin), node.get_attributes()
    first = max(ranks[0] - (2 if attributes["transpose_a"] else 1), 0)
    second = max(ranks[1] - (1 if attributes["transpose_b"] else 2), 0)
    yield _Size(0, first), _Size(1, second)


def _of_attention(node: ov.Node, twin: ov.Node) -> Iterator[Shared]:
    """Query and key have one width, key and value one length."""
    ranks = _ranks(node, twin)
    yield _Size(0, ranks[0] - 1), _Size(1, ranks[1] - 1)
    yield _Size(1, ranks[1] - 2), _Size(2, ranks[2] - 2)


def _of_einsum(node: ov.Node, twin: ov.Node) -> Iterator[Shared]:
    """Give each label's first place with each of its others; `...` stands for what is left."""
    equation = str(node.get_attributes()["equation"]).replace(" ", "")
    first: dict[str, _Size] = {}
    for number, (term, rank) in enumerate(
        zip(equation.split("->")[0].split(","), _ranks(node, twin), strict=True)
    ):
        before, _, behind = term.partition("...")
        places = [*range(len(before)), *range(rank - len(behind), rank)]
        for label, place in zip(before + behind, places, strict=True):
            size = _Size(number, place)
            if (known := first.setdefault(label, size)) != size:
                yield known, size


def _of_gather(node: ov.Node, twin: ov.Node) -> Iterator[Shared]:
    """Data and indices have one batch; a negative number of its dimensions counts from the end."""
    if count := int(node.get_attributes().get("batch_dims", 0)):  # most have none
        rank = _ranks(node, twin)[1]
        for place in range(count if count >= 0 else count + rank):
            yield _Size(0, place), _Size(1, place)


def _of_cuts(node: ov.Node, twin: ov.Node) -> Iterator[Shared]:
    """As many axes have an end and a step as have a beginning."""
    for number in range(2, node.get_input_size()):
        yield _Size(1, 0), _Size(number, 0)


def _of(*shared: Shared) -> Hold:
    """Hold the same sizes, whatever the attributes and the numbers of dimensions are."""

    def of_all(node: ov.Node, twin: ov.Node) -> Iterator[Shared]:
        _ranks(node, twin)
        yield from shared

    return _sharing(of_all)


_PRODUCT = "a_product_reads_beyond_its_operand"
_RULES: Rules[Hold] = Rules(
    (
        Rule(_PRODUCT, "CTCGreedyDecoderSeqLen", _of((_Size(0, 0), _Size(1, 0)))),
        Rule(_PRODUCT, "Einsum", _sharing(_of_einsum)),
        Rule("a_gather_reads_beyond_the_shorter_batch", "Gather GatherND", _sharing(_of_gather)),
        Rule(
            _PRODUCT,
            "GroupNormalization",
            _of((_Size(0, 1), _Size(1, 0)), (_Size(0, 1), _Size(2, 0))),
        ),
        Rule(_PRODUCT, "MatMul", _sharing(_of_matmul)),
        Rule(_PRODUCT, "ROIAlign", _of((_Size(1, 0), _Size(2, 0)))),
        Rule(_PRODUCT, "ScaledDotProductAttention", _sharing(_of_attention)),
        Rule("ends_of_other_axes_end_the_process", "Slice StridedSlice", _sharing(_of_cuts)),
        Rule("a_scatter_writes_behind_its_rows", "ScatterElementsUpdate", _hold_places),
    )
)

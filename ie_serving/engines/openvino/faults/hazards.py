"""Finds and guards, before the compile, graphs for which OpenVINO's CPU plugin is known to fail.

`docs/reference/openvino-faults.md` lists the faults, and
`tests/unit/engines/openvino/faults/test_hazards.py` shows each. This module finds the faults that
follow from the shapes of a whole graph:

- The plugin skips an operation with an empty input. Unless its output is empty too, the output then
  holds data of an earlier request, or of the heap. If emptiness depends on values, the guarded
  graph has one more output: a flag for each such operation, raised when it was skipped. Inside the
  body of a loop or a branch the output is also replaced by zeros, so that no later round reads it.
- With one thread and one stream, the synchronous `infer` loses the error of an operation that
  fails, and returns the outputs of the previous request. `start_async` and `wait` raise.
- A failure, or a cancellation, between two operations of a graph with open shapes leaves some of
  them bound to freed memory, or to the shapes of the request that failed: later valid requests may
  get answers from that memory, or fail.
- The state of `ReadValue` and `Assign` belongs to the infer request, not to a client.

Faults that depend on the values that a single operation gets are guarded by rules, which are listed
below in the order of a load, one graph walk a stage; their flags are in the same output.

`docs/design/data.md` lists the passes over whole graphs that run between these stages.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.faults import (
    box_suppression,
    element_types,
    fusions,
    indices,
    limits,
    nonfinite,
    quantization,
    ranges,
    rewrites,
    sizes,
)
from ie_serving.engines.openvino.faults.integers.exact import FAST, exact_integers
from ie_serving.engines.openvino.faults.known_operations import (
    COMPUTES_FROM_EMPTY,
    EMPTY_FROM_EMPTY,
    ENDS_OF_NOTHING,
    NEVER_FAILS,
)
from ie_serving.engines.openvino.faults.shared_sizes import hold_sizes
from ie_serving.engines.openvino.graphs.constants import int32, int64
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Rules, note_source, visit
from ie_serving.engines.openvino.graphs.walk import Flag, bodies, carried, operations, rank_of
from ie_serving.engines.openvino.graphs.weightless import (
    OperationPair,
    WeightlessCopy,
    fix,
    has_all,
    weightless_copy,
)
from ie_serving.engines.openvino.interface.tensor_specs import Port

TENSORFLOW: Rules[Ask] = Rules(quantization.RULES)
"""Rules for a graph from TensorFlow's front end. `reading/onnx_graph.py` has those for ONNX."""
READ: Rules[Ask] = Rules(rewrites.READ, nonfinite.RULES)
"""Rules for a graph from any front end."""
KEEPING_NONFINITE: Rules[Ask] = Rules(nonfinite.KEEPING)
"""Rules for a graph that keeps NaN and infinity."""
STRINGS: Rules[Ask] = Rules(element_types.RULES)
"""Rules after `READ`, which corrects some operations on strings."""
SIZED: Rules[Ask] = Rules(rewrites.SIZED, fusions.RULES)
"""Once the sizes of the inputs are final."""

TRIED_SIZES = (1, 2, 3, 4, 8, 16, 32, 64, 224, 256)
"""Sizes for open dimensions, tried in this order until the graph accepts one. With fixed inputs
only shapes that depend on values stay open. If the graph accepts none, every open shape counts as
one that depends on values: the model is served the safe way, which is slower."""
STATE = frozenset({"ReadValue", "Assign"})


def _values(*first: Rule[Ask]) -> Rules[Ask]:
    return Rules(
        (Rule("", "", note_source),),
        limits.REFUSED,
        first,
        sizes.RULES,
        ranges.RULES,
        indices.RULES,
        limits.RULES,
        box_suppression.RULES,
        ranges.LOOP_RULES,
    )


VALUES = _values()
"""Guards against values of requests, in a graph and in all bodies inside it."""
VALUES_WITH_NONFINITE = _values(*nonfinite.REFUSED)
"""Rules after `KEEPING_NONFINITE`."""


@dataclass(frozen=True)
class Hazards:
    """The hazards of one model's graph.

    Attributes:
        by_values: some shape depends on values.
        may_fail: some operation may refuse values, and its error must not be lost.
        spoils: a failure spoils the compiled model, which is then compiled again: some shapes are
            open, and some operation may fail.
        stateful: some state outlives an inference.
        lasting: the time of an inference depends on values, not on the inputs' sizes alone.
        flagged: names of the operations that have a flag in the additional, last output: nonzero
            if the operation was skipped, so that its output is not of this request.
        refusals: messages of the flags that follow in the same output: nonzero refuses the
            request. Without `flagged` and `refusals` the graph has no such output.
    """

    by_values: bool = False
    may_fail: bool = False
    spoils: bool = False
    stateful: bool = False
    lasting: bool = False
    flagged: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def needs_care(self) -> bool:
        """Whether the synchronous `infer` is not safe. Flags of `refusals` can be read after it."""
        return self.by_values or self.may_fail or self.stateful or bool(self.flagged)

    @property
    def refused(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The operations that may be skipped, and the messages of refusals, that flags report."""
        return self.flagged, self.refusals

    @property
    def by_request(self) -> bool:
        """Whether the values of a request may cause a failure."""
        return self.may_fail or self.by_values or bool(self.refusals)


def guard(
    model: ov.Model,
    inputs: Sequence[Port],
    *,
    from_end: bool = True,
    integers: str = FAST,
    keeps_nonfinite: bool = False,
) -> tuple[Hazards, WeightlessCopy | None]:
    """Find the hazards of a graph and add the flags that detect them. Changes `model`.

    Args:
        model: the graph.
        inputs: inputs of the graph.
        from_end: whether negative indices count from the end, as in ONNX; TensorFlow refuses them.
        integers: `exact`, `fast` or `refuse`, for operations that are inexact.
        keeps_nonfinite: refuse NaN and infinity where an operation may lose them.

    Returns:
        The hazards, and a copy of the graph; None if operations were added after the copy was made.

    Raises:
        LoadFailed: an operation on integers is refused, or requests choose an input that the plugin
            does not check.
    """
    refusals = exact_integers(model, integers)
    rules = VALUES_WITH_NONFINITE if keeps_nonfinite else VALUES
    here = visit(model, rules, from_end=from_end)
    refusals += here.flags
    rewrites.refuse_ranks(model, here.sources)
    own = {node.get_name() for node in operations(model)}
    # Flags come before the copy, which then has all operations of most graphs.
    output = _add_flags(model, [flag.raised for flag in refusals])
    twin = weightless_copy(model)
    _fix(model, twin.model, inputs)
    pairs = [pair for pair in twin.pairs if pair.inside or pair.node.get_name() in own]
    hold_sizes((node, copied) for node, copied, _ in pairs)
    skipped = [pair for pair in pairs if _may_be_skipped(pair)]
    outer = [pair.node for pair in skipped if not pair.inside]
    if skipped:
        inner = {str(pair.node.get_name()) for pair in skipped if pair.inside}
        refusals += _refused_inside(model, inner) if inner else []
        if output is not None:
            model.remove_result(output)
        _add_flags(model, [*map(_skipped, outer), *(flag.raised for flag in refusals)])
    is_open = not all(port.static for port in inputs)
    hazards = replace(
        _hazards(pairs, is_open=is_open),
        flagged=tuple(str(node.get_friendly_name()) for node in outer),
        refusals=tuple(flag.cause for flag in refusals),
    )
    return hazards, twin if has_all(twin, model) else None


def _hazards(pairs: Sequence[OperationPair], *, is_open: bool) -> Hazards:
    """Find the hazards by the kinds of operations and by what their shapes depend on."""
    types = {node.get_type_name() for node, _, _ in pairs}
    by_values = any(shape.is_dynamic for _, copied, _ in pairs for shape in output_shapes(copied))
    may_fail = not types <= NEVER_FAILS
    return Hazards(
        by_values=by_values,
        may_fail=may_fail,
        spoils=by_values or (may_fail and is_open),
        stateful=not types.isdisjoint(STATE),
        lasting=by_values or "Loop" in types,
    )


def _refused_inside(model: ov.Model, names: Collection[str], depth: int = 0) -> list[Flag]:
    """Zero the outputs of operations in bodies when they are skipped, and give a flag for each."""
    flags: list[Flag] = []
    for node in operations(model):
        inner = [_refused_inside(body, names, depth + 1) for body in bodies(node)]
        flags += carried(node, inner)
        if depth and node.get_name() in names:
            cause = nothing_left(str(node.get_friendly_name()))
            flags.append(Flag(cause, _clean(node)))
    return flags


def nothing_left(names: str) -> str:
    """Give the message that operations got an empty input."""
    return (
        f"nothing is left for {names} to compute with: for these values an operation before gives"
        " an empty tensor; send others, or let the model handle the empty case"
    )


# The flags of all operations fit into one output, which costs one reading of a few bytes.
def _add_flags(model: ov.Model, flags: list[ov.Node]) -> ov.Node | None:
    """Add an output that holds these flags; None without flags."""
    if not flags:
        return None
    output = op.result(op.concat(flags, 0))
    model.add_results([output])
    return output


def skips_empty(node: ov.Node) -> bool:
    """Tell whether an operation with an empty input may leave a non-empty output unwritten.

    Or write another value than TensorFlow: the plugin's mean of nothing is 0, TensorFlow's is NaN.
    """
    name = node.get_type_name()
    if name == "ReduceMean":
        return True
    if name in ("ReduceMax", "ReduceMin"):
        return node.get_input_element_type(0).get_type_name() not in ENDS_OF_NOTHING
    return name not in EMPTY_FROM_EMPTY and name not in COMPUTES_FROM_EMPTY


def input_shapes(node: ov.Node) -> list[ov.PartialShape]:
    """List the shapes of an operation's inputs."""
    return [each.get_partial_shape() for each in node.inputs()]


def output_shapes(node: ov.Node) -> list[ov.PartialShape]:
    """List the shapes of an operation's outputs."""
    return [each.get_partial_shape() for each in node.outputs()]


def _fix(model: ov.Model, copy: ov.Model, inputs: Sequence[Port]) -> None:
    """Fix the open input sizes of a copy at a size that the graph accepts, if there is one."""
    if all(port.static for port in inputs):
        return
    if not any(_takes(copy, inputs, size) for size in TRIED_SIZES):
        opened = (each.get_partial_shape() for each in model.get_parameters())
        fix(copy, dict(enumerate(opened)))


def _takes(copy: ov.Model, inputs: Sequence[Port], size: int) -> bool:
    """Fix open sizes at `size`; tell whether shape inference accepts it."""
    try:
        fix(copy, {port.index: ov.PartialShape(list(port.least(size) or ())) for port in inputs})
    except RuntimeError:  # such as a convolution whose kernel is larger than this size
        return False
    return True


# Shape inference accepts a request whose shapes make a tensor in a body empty: the branch may not
# be taken, or the loop have no round. So all open sizes in bodies count.
def _may_be_skipped(pair: OperationPair) -> bool:
    shown = pair.node if pair.inside else pair.copied
    return skips_empty(pair.node) and any(map(_may_be_empty, input_shapes(shown)))


def _may_be_empty(shape: ov.PartialShape) -> bool:
    """Tell whether an open shape may have no elements."""
    if shape.rank.is_dynamic:
        return True
    return bool(shape.is_dynamic) and any(dim.get_min_length() == 0 for dim in shape)


def _skipped(node: ov.Node) -> ov.Node:
    """Give a graph of one int32 that is 1 where an input of `node` is empty and an output not."""
    sizes_in = [_size(each) for each in node.input_values()]
    # An output without readers cannot reach a model's output.
    read = [out for out in node.outputs() if out.get_target_inputs()]
    sees_nothing = _any(sizes_in, op.equal)
    writes = _any([_size(out) for out in read], op.greater)
    return op.convert(op.logical_and(sees_nothing, writes), "i32")


def _size(output: ov.Output) -> ov.Node:
    if rank_of(output.get_partial_shape()) == 0:  # `rewrites.py` says what its shape would do
        return int64([1])
    return op.reduce_prod(op.shape_of(output, "i64"), int64([0]), True)


def _any(sizes: Sequence[ov.Node], is_so: Callable[..., ov.Node]) -> ov.Node:
    """Give whether a comparison with zero holds for one of `sizes`."""
    compared = is_so(op.concat(list(sizes), 0), int64([0]))
    return op.reduce_logical_or(compared, int64([0]), True)


def _clean(node: ov.Node) -> ov.Node:
    """Replace the outputs of `node` by zeros if it was skipped; give the flag that it was."""
    outputs = [(out, list(out.get_target_inputs())) for out in node.outputs()]
    skipped = _skipped(node)
    flag = op.squeeze(op.convert(skipped, "boolean"))  # a number, so that outputs keep their rank
    for out, readers in outputs:
        # The constant is made as int32 and converted: numpy cannot make one of every element type.
        zero = op.convert(int32(0), out.get_element_type())
        # The earlier readers alone are moved: the Select reads the output, too.
        for reader in readers:
            reader.replace_source_output(op.select(flag, zero, out).output(0))
    return skipped

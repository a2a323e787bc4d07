"""Divides a signature's nodes: before the model, in it, after it, or once at load.

The graph is walked as in `frames.py`, with its functions inlined. The host runs nodes that compute
with strings, tables or images, nodes that only lead from the inputs to those, and nodes after the
arithmetic that depend on those; the model runs the others:

    inputs -> [before: host] -> [model: OpenVINO] -> [after: host] -> outputs

For example, where `Mul` and `ArgMax` may run on either side:

    words -> StringToNumber -> Mul -> MatMul -> ArgMax -> AsString -> labels

StringToNumber is before, Mul, MatMul and ArgMax are the model's, and AsString is after. Were the
first two the other way round, `numbers -> Mul -> AsString -> StringToNumber`, Mul only led to
strings, and were before as well.

A model between two parts that the host must run between again is refused.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.savedmodel.file import PLACEHOLDERS
from ie_serving.engines.savedmodel.frames import NodeOutput, standing_alone
from ie_serving.engines.savedmodel.host.kernels import KERNELS
from ie_serving.engines.savedmodel.host.kernels_loops import gives_list
from ie_serving.engines.savedmodel.host.kernels_numbers import IN_LOOPS
from ie_serving.engines.savedmodel.host.needs import FIRST_FORM, FUNCTIONS, on_host
from ie_serving.engines.savedmodel.initial_writes import RESOURCES
from ie_serving.engines.savedmodel.rewrite import RANDOM
from ie_serving.wire.protobuf.messages import Proto

_HELD = RESOURCES | {"Const", "RestoreV2"}
"""Operations without a kernel whose value `resources.py` evaluates."""

Id = tuple[int, str]
"""A node: its frame, and its name in it."""


class Placement(enum.Enum):
    """Where a node runs."""

    INPUT = "input"  # nowhere: a request brings it
    CONSTANT = "constant"  # depends on no input
    BEFORE = "before"
    MODEL = "model"
    AFTER = "after"


@dataclass
class Partition:
    """The nodes of a signature, and where each runs.

    Attributes:
        parts: placement by node.
        order: an output of each node, each after those from which it is computed.
        folded: constants that depend on strings, tables, or variables that the init op sets, so
            that OpenVINO cannot compute them.
    """

    parts: dict[Id, Placement] = field(default_factory=dict)
    order: list[NodeOutput] = field(default_factory=list)
    folded: set[Id] = field(default_factory=set)

    def of(self, node_output: NodeOutput) -> Placement:
        """Tell where the node of an output runs."""
        return self.parts[id_of(node_output.origin())]

    def names(self, part: Placement) -> list[str]:
        """Give the operations of a part, each once, sorted."""
        return sorted({each.node.op for each in self.order if self.parts[id_of(each)] is part})


def id_of(node_output: NodeOutput) -> Id:
    """Name the node of an output that is no argument."""
    return id(node_output.frame), node_output.node.name


def ordered(outputs: Sequence[NodeOutput]) -> list[NodeOutput]:
    """Give an output of each node above `outputs`, each after those from which it is computed."""
    order: list[NodeOutput] = []
    entered: set[Id] = set()
    waiting: list[tuple[NodeOutput, bool]] = [
        (node_output.origin(), False) for node_output in outputs
    ]
    while waiting:
        node_output, left = waiting.pop()
        if left:
            order.append(node_output)
        elif id_of(node_output) not in entered:
            entered.add(id_of(node_output))
            waiting.append((node_output, True))
            waiting.extend((source.origin(), False) for source in node_output.sources())
    return order


def partition(
    outputs: Sequence[NodeOutput], sets: Callable[[NodeOutput], bool] = lambda node_output: False
) -> Partition:
    """Divide the nodes above a signature's outputs.

    Args:
        outputs: outputs of the signature.
        sets: whether the init op sets the value of a node output: `InitialWrites.sets`.

    Raises:
        LoadFailed: the host would have to run an operation that it lacks; names it.
    """
    found = Partition(order=ordered(outputs))
    sources = {
        id_of(node_output): [id_of(source.origin()) for source in node_output.sources()]
        for node_output in found.order
    }
    able = _find_able(found, sources, sets)
    _mark_before(found, sources, able)
    _mark_rest(found, sources)
    if all(able[each] for each, part in found.parts.items() if part is not Placement.CONSTANT):
        # The rest is a cast or a sum around look-ups: cheaper here than in a separate model.
        for each, part in found.parts.items():
            if part is Placement.MODEL:
                found.parts[each] = Placement.BEFORE
    return found


def _find_able(
    found: Partition, sources: Mapping[Id, Sequence[Id]], sets: Callable[[NodeOutput], bool]
) -> dict[Id, bool]:
    """Mark inputs and constants; tell which nodes the host could compute from the inputs."""
    able: dict[Id, bool] = {}
    for node_output in found.order:
        node, each = node_output.node, id_of(node_output)
        above = sources[each]
        if node.op in PLACEHOLDERS:
            found.parts[each], able[each] = Placement.INPUT, True
            continue
        known = node.op in _HELD or (_is_ours(node_output) and lacking_inside(node_output) is None)
        able[each] = known and all(able.get(source, False) for source in above)
        drawn = node.op.startswith(RANDOM)
        if node.op in _HELD or (
            not drawn and above and all(_is_constant(found, source) for source in above)
        ):
            hosted = on_host(node, node_output.frame.library) or sets(node_output)
            folds = hosted or any(source in found.folded for source in above)
            if folds and not (hosted or known):
                continue  # arithmetic that the host lacks: the model has it, of folded constants
            found.parts[each] = Placement.CONSTANT
            if folds:
                found.folded.add(each)
    return able


def _is_ours(node_output: NodeOutput) -> bool:
    return node_output.node.op in KERNELS and (
        node_output.frame.detached or node_output.node.op not in IN_LOOPS
    )


def _is_constant(found: Partition, each: Id) -> bool:
    return found.parts.get(each) is Placement.CONSTANT


def lacking_inside(node_output: NodeOutput) -> LoadFailed | None:
    """Say what the host lacks in the functions of a loop or branch; None if it can run them."""
    library = node_output.frame.library
    for attribute in FUNCTIONS.get(node_output.node.op, ()):
        _, _, returned = standing_alone(library, node_output.node.attr[attribute].func.name)
        try:
            found = partition(returned)
        except LoadFailed as error:
            return error
        if Placement.MODEL in found.parts.values():
            return _unable_in(node_output.node, found)
    return None


def _unable_in(loop: Proto, found: Partition) -> LoadFailed:
    """Name the first node of a loop or branch that the host lacks."""
    node_outputs = [each for each in found.order if each.node.op not in _HELD | PLACEHOLDERS]
    unable = next(each for each in node_outputs if not _is_ours(each) or lacking_inside(each))
    if inside := lacking_inside(unable):
        return inside
    node = unable.node
    return LoadFailed(
        f"{node.op} {node.name!r} stands in {loop.op} {loop.name!r}, which computes with strings,"
        f" tables or images, so that this server runs all of it, and it has no {node.op} there:"
        f" export the model with it behind {loop.name!r}, on what that gives"
    )


def _mark_before(
    found: Partition, sources: Mapping[Id, Sequence[Id]], able: Mapping[Id, bool]
) -> None:
    """Mark the host's nodes that need nothing of the model, and all that leads to them."""
    lists: set[Id] = set()
    for node_output in found.order:
        each = id_of(node_output)
        # A list of tensors cannot be handed to the model: the host stays until it is a tensor.
        follows = any(source in lists for source in sources[each])
        hosted = follows or on_host(node_output.node, node_output.frame.library)
        if each not in found.parts and able[each] and hosted:
            found.parts[each] = Placement.BEFORE
            if gives_list(node_output.node):
                lists.add(each)
    for node_output in reversed(found.order):
        if found.parts.get(id_of(node_output)) is Placement.BEFORE:
            for source in sources[id_of(node_output)]:
                found.parts.setdefault(source, Placement.BEFORE)


def _mark_rest(found: Partition, sources: Mapping[Id, Sequence[Id]]) -> None:
    for node_output in found.order:
        each = id_of(node_output)
        if each in found.parts:
            continue
        behind = [source for source in sources[each] if found.parts.get(source) is Placement.AFTER]
        if not behind and not on_host(node_output.node, node_output.frame.library):
            found.parts[each] = Placement.MODEL
            continue
        if (inside := lacking_inside(node_output)) is not None:
            raise inside
        if _is_ours(node_output):
            found.parts[each] = Placement.AFTER
        elif on_host(node_output.node, node_output.frame.library):
            raise lacking(node_output.node)
        else:
            raise _between(node_output.node, _node_of(found, behind[0]))


def _node_of(found: Partition, each: Id) -> Proto:
    return next(node_output.node for node_output in found.order if id_of(node_output) == each)


def _between(node: Proto, given: Proto) -> LoadFailed:
    ours = f"{given.op} {given.name!r}"
    return LoadFailed(
        f"{node.op} {node.name!r} computes with what {ours} gives, which depends on other"
        f" arithmetic; OpenVINO runs once for a signature: export one that ends with {ours}, and"
        " one that takes its result, and call them one after the other"
    )


def lacking(node: Proto) -> LoadFailed:
    """Make the error for a node that neither OpenVINO nor the host runs."""
    advice = "export a signature that takes the tensors behind it"
    if node.op.startswith(FIRST_FORM):
        advice = (
            "it is of a loop or branch in the form of TensorFlow 1. Export it again after"
            " tf.compat.v1.enable_control_flow_v2(), or without the loop"
        )
    return LoadFailed(
        f"{node.op} {node.name!r} computes with strings, tables or images, and neither OpenVINO"
        f" nor this server can run it; {advice}"
    )

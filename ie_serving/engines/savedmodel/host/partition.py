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
from ie_serving.engines.savedmodel.rewrite import RANDOM
from ie_serving.engines.savedmodel.state import RESOURCES
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
        order: a place of each node, each after those from which it is computed.
        folded: constants that depend on strings, tables, or variables that the init op sets, so
            that OpenVINO cannot compute them.
    """

    parts: dict[Id, Placement] = field(default_factory=dict)
    order: list[NodeOutput] = field(default_factory=list)
    folded: set[Id] = field(default_factory=set)

    def of(self, place: NodeOutput) -> Placement:
        """Tell where the node behind a place runs."""
        return self.parts[id_of(place.origin())]

    def names(self, part: Placement) -> list[str]:
        """Give the operations of a part, each once, sorted."""
        return sorted({each.node.op for each in self.order if self.parts[id_of(each)] is part})


def id_of(place: NodeOutput) -> Id:
    """Name the node of a place that is no argument."""
    return id(place.frame), place.node.name


def ordered(outputs: Sequence[NodeOutput]) -> list[NodeOutput]:
    """Give a place of each node above `outputs`, each after those from which it is computed."""
    order: list[NodeOutput] = []
    entered: set[Id] = set()
    waiting: list[tuple[NodeOutput, bool]] = [(place.origin(), False) for place in outputs]
    while waiting:
        place, left = waiting.pop()
        if left:
            order.append(place)
        elif id_of(place) not in entered:
            entered.add(id_of(place))
            waiting.append((place, True))
            waiting.extend((source.origin(), False) for source in place.sources())
    return order


def partition(
    outputs: Sequence[NodeOutput], sets: Callable[[NodeOutput], bool] = lambda place: False
) -> Partition:
    """Divide the nodes above a signature's outputs.

    Args:
        outputs: outputs of the signature.
        sets: whether the init op sets the value of a place: `Initial.sets`.

    Raises:
        LoadFailed: the host would have to run an operation that it lacks; names it.
    """
    found = Partition(order=ordered(outputs))
    sources = {
        id_of(place): [id_of(source.origin()) for source in place.sources()]
        for place in found.order
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
    for place in found.order:
        node, each = place.node, id_of(place)
        above = sources[each]
        if node.op in PLACEHOLDERS:
            found.parts[each], able[each] = Placement.INPUT, True
            continue
        known = node.op in _HELD or (_is_ours(place) and lacking_inside(place) is None)
        able[each] = known and all(able.get(source, False) for source in above)
        drawn = node.op.startswith(RANDOM)
        if node.op in _HELD or (
            not drawn and above and all(_is_constant(found, source) for source in above)
        ):
            hosted = on_host(node, place.frame.library) or sets(place)
            folds = hosted or any(source in found.folded for source in above)
            if folds and not (hosted or known):
                continue  # arithmetic that the host lacks: the model has it, of folded constants
            found.parts[each] = Placement.CONSTANT
            if folds:
                found.folded.add(each)
    return able


def _is_ours(place: NodeOutput) -> bool:
    return place.node.op in KERNELS and (place.frame.detached or place.node.op not in IN_LOOPS)


def _is_constant(found: Partition, each: Id) -> bool:
    return found.parts.get(each) is Placement.CONSTANT


def lacking_inside(place: NodeOutput) -> LoadFailed | None:
    """Say what the host lacks in the functions of a loop or branch; None if it can run them."""
    library = place.frame.library
    for attribute in FUNCTIONS.get(place.node.op, ()):
        _, _, returned = standing_alone(library, place.node.attr[attribute].func.name)
        try:
            found = partition(returned)
        except LoadFailed as error:
            return error
        if Placement.MODEL in found.parts.values():
            return _unable_in(place.node, found)
    return None


def _unable_in(loop: Proto, found: Partition) -> LoadFailed:
    """Name the first node of a loop or branch that the host lacks."""
    places = [each for each in found.order if each.node.op not in _HELD | PLACEHOLDERS]
    unable = next(each for each in places if not _is_ours(each) or lacking_inside(each))
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
    for place in found.order:
        each = id_of(place)
        # A list of tensors cannot be handed to the model: the host stays until it is a tensor.
        follows = any(source in lists for source in sources[each])
        hosted = follows or on_host(place.node, place.frame.library)
        if each not in found.parts and able[each] and hosted:
            found.parts[each] = Placement.BEFORE
            if gives_list(place.node):
                lists.add(each)
    for place in reversed(found.order):
        if found.parts.get(id_of(place)) is Placement.BEFORE:
            for source in sources[id_of(place)]:
                found.parts.setdefault(source, Placement.BEFORE)


def _mark_rest(found: Partition, sources: Mapping[Id, Sequence[Id]]) -> None:
    for place in found.order:
        each = id_of(place)
        if each in found.parts:
            continue
        behind = [source for source in sources[each] if found.parts.get(source) is Placement.AFTER]
        if not behind and not on_host(place.node, place.frame.library):
            found.parts[each] = Placement.MODEL
            continue
        if (inside := lacking_inside(place)) is not None:
            raise inside
        if _is_ours(place):
            found.parts[each] = Placement.AFTER
        elif on_host(place.node, place.frame.library):
            raise lacking(place.node)
        else:
            raise _between(place.node, _of(found, behind[0]))


def _of(found: Partition, each: Id) -> Proto:
    return next(place.node for place in found.order if id_of(place) == each)


def _between(node: Proto, given: Proto) -> LoadFailed:
    ours = f"{given.op} {given.name!r}"
    return LoadFailed(
        f"{node.op} {node.name!r} computes with what {ours} gives, which depends on other"
        f" arithmetic: OpenVINO runs once for a signature. Export one that ends with {ours}, and"
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

"""What the values of a request may ask of a graph, bounded in it and in all bodies inside of it."""

from typing import NamedTuple

import openvino as ov

from ie_serving.engines.openvino.faults.box_suppression import guard_boxes
from ie_serving.engines.openvino.faults.indices import guard_indices
from ie_serving.engines.openvino.faults.limits import guard_limits, refuse_unchecked
from ie_serving.engines.openvino.faults.loop_rounds import guard_first_round, guard_rounds
from ie_serving.engines.openvino.faults.nonfinite import guard_nonfinite
from ie_serving.engines.openvino.faults.ranges import guard_ranges
from ie_serving.engines.openvino.faults.sizes import from_values, guard_sizes
from ie_serving.engines.openvino.graphs.bodies import bodies, carried
from ie_serving.engines.openvino.graphs.flags import Flag
from ie_serving.engines.openvino.graphs.walk import operations


class _Guarded(NamedTuple):
    """What is added to a graph.

    Attributes:
        flags: conditions under which a request is refused.
        rounds: counts of rounds, see `guard_rounds`.
    """

    flags: list[Flag]
    rounds: list[ov.Node]


def guard_values(model: ov.Model, *, from_end: bool, keeps_nonfinite: bool = False) -> list[Flag]:
    """Bound values that would hurt; give a flag for each operation that uses some.

    Changes `model`.

    Args:
        model: the graph.
        from_end: whether the model's framework is as ONNX, where negative indices count from the
            end and a `Range` in the wrong direction is empty; TensorFlow refuses both.
        keeps_nonfinite: refuse NaN and infinity where an operation may lose them.

    Raises:
        LoadFailed: requests choose what the plugin does not check.
    """
    return _guard(model, from_end, keeps_nonfinite).flags


def _guard(model: ov.Model, from_end: bool, keeps_nonfinite: bool) -> _Guarded:
    nodes = operations(model)
    # Before anything is added, which would hide where a value comes from.
    sources = from_values(nodes)
    refuse_unchecked(nodes, sources)
    flags = guard_nonfinite(nodes) if keeps_nonfinite else []
    flags += guard_sizes(nodes, sources)
    flags += guard_ranges(nodes, sources, may_be_empty=from_end)
    flags += guard_indices(nodes, from_end=from_end)
    flags += guard_limits(nodes, sources)
    flags += guard_boxes(nodes)
    guarded = _Guarded(flags, [])
    for node in nodes:
        if inner := [_guard(body, from_end, keeps_nonfinite) for body in bodies(node)]:
            _take_out(node, inner, sources, guarded)
    return guarded


def _take_out(node: ov.Node, inner: list[_Guarded], sources: set[str], guarded: _Guarded) -> None:
    """Add what was found in the bodies of an operation to what was found around it."""
    guarded.flags.extend(carried(node, [each.flags for each in inner]))
    guarded.flags.extend(guard_first_round(node))
    for count, flag in guard_rounds(node, [each.rounds for each in inner], sources):
        guarded.rounds.append(count)
        if flag is not None:
            guarded.flags.append(flag)

"""Finds what the parameters of loop bodies hold: constants of all rounds, slices, and counters."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import openvino as ov

from ie_serving.engines.openvino.graphs.constants import value_of
from ie_serving.engines.openvino.graphs.walk import BRANCH, LOOPS, bodies


class LoopSource(NamedTuple):
    """The source of a body's parameter.

    Attributes:
        outer: number of the operation's input that gives the first value.
        step: change of the value in each round; None if not known.
        sliced: whether each round gets another slice of that input.
    """

    outer: int
    step: int | None
    sliced: bool


def given(node: ov.Node) -> Iterator[tuple[ov.Model, Mapping[int, LoopSource]]]:
    """Give the bodies of an operation, each with the sources of its parameters by number."""
    for body in bodies(node):
        yield body, dict(_parameter_sources(node, body)) if node.get_type_name() in LOOPS else {}


def entering_bodies(node: ov.Node) -> Iterator[int]:
    """Give the numbers of an operation's inputs that enter its bodies."""
    name = node.get_type_name()
    if name == BRANCH:
        yield from range(1, node.get_input_size())
    elif name in LOOPS:
        yield from (each.input_index for each in node.get_input_descriptions())


def _parameter_sources(node: ov.Node, body: ov.Model) -> Iterator[tuple[int, LoopSource]]:
    for each in node.get_input_descriptions():
        # A merged parameter gets the previous round's value; others get values from outside.
        step = _step(body, each) if hasattr(each, "body_value_index") else 0
        yield each.body_parameter_index, LoopSource(each.input_index, step, hasattr(each, "stride"))


def _step(body: ov.Model, merged: object) -> int | None:
    """Give the constant by which a counter grows each round; None if it is not a counter."""
    parameter = body.get_parameters()[merged.body_parameter_index]  # type: ignore[attr-defined]
    last = body.get_results()[merged.body_value_index]  # type: ignore[attr-defined]
    value = last.input_value(0).get_node()
    if value.get_name() == parameter.get_name():
        return 0
    if value.get_type_name() != "Add":
        return None
    ends = [value.input_value(i).get_node() for i in range(2)]
    steps = [step for end in ends if (step := value_of(end)) is not None]
    if len(steps) != 1 or parameter.get_name() not in [end.get_name() for end in ends]:
        return None
    (step,) = steps
    return int(step.item()) if step.size == 1 and step.dtype.kind in "iu" else None

"""Goes through the operations of a graph and of its bodies, and carries flags out of bodies.

By flags a graph reports a bad request in an extra output; one that is raised inside the body of a
loop or a branch is carried to the outer graph.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import openvino as ov
import openvino.opset15 as op

from ie_serving.core.runtime.spare_cpu import YieldingList
from ie_serving.engines.openvino.graphs.constants import Operand, int32, int64


@dataclass(frozen=True)
class Flag:
    """A condition under which a request is refused.

    Attributes:
        cause: the error and the advice for the client.
        raised: graph of one int32, shape (1,), that is 1 where the condition holds.
    """

    cause: str
    raised: ov.Node

    @classmethod
    def where(cls, cause: str, holds: Operand) -> "Flag":
        """Raise it where a condition, booleans of any shape, holds anywhere."""
        flat = op.reshape(holds, int64([-1]), False)
        return cls(cause, op.convert(op.reduce_logical_or(flat, int64([0]), True), "i32"))

    @classmethod
    def unless(cls, cause: str, fits: Operand) -> "Flag":
        """Raise it where a condition does not hold everywhere."""
        return cls.where(cause, op.logical_not(fits))


def title(node: ov.Node) -> str:
    """Name an operation, as texts for clients and operators do.

    Where OpenVINO made its name up, that of the nearest tensor behind it that the file names.
    """
    name, ahead = node.get_friendly_name(), [node]
    for each in islice(ahead, _NEAR):  # which grows
        own, outputs = each.get_friendly_name(), each.outputs()
        names = [other for output in outputs for other in output.get_names()]
        is_made_up = re.fullmatch(rf"{each.get_type_name()}_\d+", own)
        if names or not is_made_up:
            name = min(names) if is_made_up else own
            break
        ahead += [reader.get_node() for output in outputs for reader in output.get_target_inputs()]
    return f'{node.get_type_name()} "{name}"'


_NEAR = 30
"""Operations that are looked at for a name."""
BRANCH = "If"
LOOPS = frozenset({"Loop", "TensorIterator"})


def bodies(node: ov.Node) -> list[ov.Model]:
    """Give the bodies of an operation; most have none."""
    name = node.get_type_name()
    if name == BRANCH:
        return [node.get_then_body(), node.get_else_body()]
    return [node.get_function()] if name in LOOPS else []


def carried(node: ov.Node, inner: Sequence[Sequence[Flag]]) -> Iterator[Flag]:
    """Give flags of the graph around an operation for the flags inside its bodies.

    A flag of a branch is not raised where the other branch was taken; a flag of a loop is raised if
    it was raised in any iteration.

    Args:
        node: the operation.
        inner: the flags of each body, whose operations they read.
    """
    causes = [flag.cause for flags in inner for flag in flags]
    if not causes:
        return
    if node.get_type_name() == BRANCH:
        out = _of_branches(node, inner)
    else:
        raised = op.concat([flag.raised for flag in inner[0]], 0)
        out = of_rounds(node, lambda so_far: op.maximum(so_far, raised), len(causes))
    for index, cause in enumerate(causes):
        yield Flag(cause, op.gather(out, int64([index]), int64(0)))


def _of_branches(node: ov.Node, inner: Sequence[Sequence[Flag]]) -> ov.Output:
    # Each branch gives a row with an element for the flags of both: outputs of an `If` have one
    # shape.
    count, before, values = sum(map(len, inner)), 0, []
    for flags in inner:
        raised = [flag.raised for flag in flags]
        after = count - before - len(raised)
        values.append(op.concat([zeros(before), *raised, zeros(after)], 0))
        before += len(raised)
    return of_branches(node, values)


def of_branches(node: ov.Node, values: Sequence[ov.Node]) -> ov.Output:
    """Give, around an `If`, the value of the branch that is taken.

    Args:
        node: the operation.
        values: one of each body, all of the same type and shape.
    """
    pairs = zip(bodies(node), values, strict=True)
    return node.set_output(*[add_result(body, value) for body, value in pairs])


def of_rounds(node: ov.Node, joined: Callable[[ov.Node], ov.Node], count: int) -> ov.Output:
    """Give, around a loop, integers that each round has joined with its own; at first zeros.

    Args:
        node: the operation.
        joined: function from those of the rounds before to those with this round's; operations of
            the body.
        count: number of integers.
    """
    # Carried through the iterations: otherwise a loop gives only the value of the last one.
    (body,) = bodies(node)
    so_far = op.parameter([count], ov.Type.i32)
    body.add_parameters([so_far])
    result = add_result(body, joined(so_far))
    node.set_merged_input(so_far, zeros(count).output(0), result.output(0))
    _forget_order(node)
    return node.get_iter_value(result.output(0), -1)


def add_result(model: ov.Model, value: Operand) -> ov.Node:
    """Add a result to a model, or to a body, which need not hand it on."""
    result = op.result(value)
    model.add_results([result])
    _forget_order(result)
    return result


def _forget_order(node: ov.Node) -> None:
    """Make the graph of an operation recompute the order of its operations.

    It caches the order. New results and inputs of a loop do not invalidate that (OpenVINO 2026.4),
    and then the graph cannot be copied.
    """
    node.input(0).replace_source_output(node.input_value(0))


def zeros(count: int) -> ov.Node:
    """Give a row of int32 zeros."""
    return int32([0] * count)


def operations(model: ov.Model) -> YieldingList[ov.Node]:
    """List the operations of a graph, bodies apart, each behind those that it reads."""
    return YieldingList(model.get_ordered_ops())


def all_operations(model: ov.Model) -> Iterator[ov.Node]:
    """Give the operations of a graph, each in front of those of its bodies."""
    for node in operations(model):
        yield node
        for body in bodies(node):
            yield from all_operations(body)


def elements(shape: ov.PartialShape) -> int | None:
    """Count the elements of a shape; None where it is open.

    Not by the size of the tensor, which OpenVINO cuts at 2**64.
    """
    if shape.is_dynamic:
        return None
    # Its text is one call of the binding, and each dimension would be one: 33 us instead of 3.
    return math.prod(int(size) for size in str(shape)[1:-1].split(",") if size)


def rank_of(shape: ov.PartialShape) -> int | None:
    """Count the dimensions of a shape; None where their number is open."""
    return int(shape.rank.get_length()) if shape.rank.is_static else None

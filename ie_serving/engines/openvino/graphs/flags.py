"""Flags, by which a graph reports a bad request in an extra output; names operations in texts."""

from dataclasses import dataclass

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.graphs.constants import Operand, int64


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
    """Name an operation, as texts for clients and operators do."""
    return f'{node.get_type_name()} "{node.get_friendly_name()}"'

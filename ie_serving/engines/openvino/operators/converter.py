"""Reads an ONNX operator for the converters, and builds the parts of their graphs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import openvino as ov
import openvino.opset15 as op
from openvino.frontend import FrontEndManager, GeneralFailure, NodeContext, OpConversionFailure
from openvino.frontend.onnx import ConversionExtension

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.error_texts import first_of
from ie_serving.engines.openvino.graphs.constants import Operand, int32, int64, value_of

Convert = Callable[[NodeContext], list[ov.Output]]
"""A function from an operator to its outputs. A ValueError says why it is not computed."""


def given(node: NodeContext, index: int) -> ov.Output | None:
    """Give an input; None where the file leaves it out."""
    if index >= node.get_input_size():
        return None
    output = node.get_input(index)
    return None if output.get_node().get_type_name() == "NullNode" else output


def rank_of(output: ov.Output) -> int:
    """Give the number of dimensions. Raises: ValueError, since it is open."""
    rank = output.get_partial_shape().rank
    if rank.is_dynamic:
        raise ValueError("the number of its dimensions is not known")
    return int(rank.get_length())


def size_of(output: ov.Output, axis: int) -> int:
    """Give the size of an axis. Raises: ValueError, since it is open."""
    shape = output.get_partial_shape()
    if shape.rank.is_dynamic or shape[axis].is_dynamic:
        raise ValueError(f"size {axis} of an input is not known")
    return int(shape[axis].get_length())


def number(value: int, like: ov.Output) -> ov.Node:
    """Give a whole number of the type of `like`."""
    return op.convert(int32(value), like.get_element_type())


def floats(output: Operand) -> ov.Node:
    """Give numbers as float32."""
    return op.convert(output, "f32")


def sizes(output: Operand, axes: Sequence[int]) -> ov.Node:
    """Give the sizes of some axes, as one row."""
    return op.gather(op.shape_of(output), int64(list(axes)), int64(0))


def part(output: Operand, begin: int, end: int, axis: int) -> ov.Node:
    """Give the indices from `begin` up to `end` of an axis."""
    return op.slice(output, int64([begin]), int64([end]), int64([1]), int64([axis]))


def in_rank(axis: int, rank: int) -> int:
    """Count an axis from the front. Raises: ValueError, it is out of range."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for a rank of {rank}")
    return axis % rank


def by_axis(data: ov.Output, axis: ov.Output, along: Callable[[int], ov.Node]) -> ov.Node:
    """Compute along an axis that a request may choose.

    Indices are guarded, so that an axis which is out of range is refused.

    Args:
        data: data of known rank; the result has its shape, for any axis.
        axis: a number, or a row of one.
        along: computes along one of the axes.
    """
    rank = rank_of(data)
    known = value_of(axis.get_node())
    if known is not None:
        return along(in_rank(int(known.item()), rank))
    each = [op.unsqueeze(along(index), int64(0)) for index in range(rank)]
    return op.gather(op.concat(each, 0), op.reshape(axis, int64([]), False), int64(0))


def read(file: Path, own: Mapping[str, Convert], *, partially: bool = False) -> ov.Model:
    """Read a file of ONNX.

    Args:
        file: file of the model.
        own: converts operators, by their names, for this file alone.
        partially: whether operators that are not converted may remain.

    Raises:
        LoadFailed: naming the operator that `own` does not convert in the form it has.
        RuntimeError: the front end's own failures.
    """
    causes: list[str] = []
    front_end = FrontEndManager().load_by_framework("onnx")
    for kind, convert in own.items():
        front_end.add_extension(ConversionExtension(kind, _noting(kind, convert, causes)))
    try:
        convert = front_end.convert_partially if partially else front_end.convert
        loaded = front_end.load(str(file), enable_mmap=False)
        model: ov.Model = convert(loaded)
        vars(model)["loaded"] = loaded  # freed, it would be read by operators that remain
    except (GeneralFailure, OpConversionFailure) as error:
        if causes:
            raise LoadFailed(causes[0]) from error
        raise RuntimeError(str(error)) from error
    return model


def _noting(kind: str, convert: Convert, causes: list[str]) -> Convert:
    """Note why an operator is not converted: the front end tells of it with lines of this code."""

    def noting(node: NodeContext) -> list[ov.Output]:
        try:
            return convert(node)
        except ValueError as error:
            causes.append(
                f"the model cannot be read: {first_of(kind)} is not computed where {error}:"
                " export it with fixed sizes, and axes that are constants"
            )
            raise

    return noting

"""A front end for ONNX that converts some operators by this server's converters."""

from collections.abc import Mapping
from pathlib import Path

import openvino as ov
from openvino.frontend import FrontEndManager, GeneralFailure, NodeContext, OpConversionFailure
from openvino.frontend.onnx import ConversionExtension

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.culprits import first_of
from ie_serving.engines.openvino.operators.reading import Convert


def read(file: Path, own: Mapping[str, Convert], *, partially: bool = False) -> ov.Model:
    """Read a file of ONNX.

    Args:
        file: of the model.
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
        model: ov.Model = convert(front_end.load(str(file), enable_mmap=False))
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

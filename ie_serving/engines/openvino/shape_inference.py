"""Refuses input shapes that do not fit together, before the engine sees them.

The CPU plugin would raise for them as well, but is not to be trusted afterwards: with 2026.4, an
inference that failed for its shapes can make the next valid one answer from freed memory, without
an error. So every new combination is first tried on a copy of the model without its weights.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.runtime import one_line
from ie_serving.engines.openvino.specs import Port
from ie_serving.errors import InvalidTensor
from ie_serving.tensors import Array

WEIGHT_ELEMENTS = 1024
"""Constants above this size are weights; below it they may decide about shapes."""
KNOWN_LIMIT = 4096
"""Combinations of shapes that are remembered."""

Shapes = tuple[tuple[int, ...], ...]


class ShapeInference:
    """Tells whether a model takes a combination of input shapes."""

    def __init__(self, model: ov.Model, inputs: Sequence[Port]) -> None:
        self._names = [port.spec.name for port in inputs]
        self._indices = [port.index for port in inputs]
        self._model = _without_weights(model)
        self._known: set[Shapes] = set()

    def check(self, inputs: Mapping[str, Array]) -> None:
        """Try the inputs' shapes, unless they are known to fit.

        Raises:
            InvalidTensor: with the shapes and the operation that refuses them.
        """
        shapes = tuple([inputs[name].shape for name in self._names])
        if shapes not in self._known:
            self._infer(shapes)
            if len(self._known) >= KNOWN_LIMIT:
                self._known.clear()
            self._known.add(shapes)

    def _infer(self, shapes: Shapes) -> None:
        wanted = {
            self._model.inputs[index]: ov.PartialShape(list(shape))
            for index, shape in zip(self._indices, shapes, strict=True)
        }
        try:
            self._model.reshape(wanted)
        except RuntimeError as error:
            given = ", ".join(
                f'"{name}" {shape}' for name, shape in zip(self._names, shapes, strict=True)
            )
            raise InvalidTensor(
                f"the model cannot take inputs of shape {given}: {one_line(error)}"
            ) from error


def _without_weights(model: ov.Model) -> ov.Model:
    """Copy a model with inputs in place of its large constants, so that it costs no memory."""
    copy = model.clone()
    stands_in = []
    for node in copy.get_ops():
        if node.get_type_name() == "Constant":
            output = node.output(0)
            if np.prod(list(output.get_shape())) > WEIGHT_ELEMENTS:
                parameter = op.parameter(output.get_shape(), output.get_element_type())
                output.replace(parameter.output(0))
                stands_in.append(parameter)
    copy.add_parameters(stands_in)
    copy.validate_nodes_and_infer_types()
    return copy

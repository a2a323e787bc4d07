"""Refuses input shapes that do not fit together, before the engine sees them.

The CPU plugin would raise for them as well, but is not to be trusted afterwards: with 2026.4, an
inference that failed for its shapes can make the next valid one answer from freed memory, without
an error. So every new combination is first tried on a copy of the model without its weights.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.pool import MOST_WAITING
from ie_serving.engines.openvino.runtime import one_line
from ie_serving.engines.openvino.specs import Port
from ie_serving.errors import InvalidTensor, QueueFull
from ie_serving.tensors import Array

WEIGHT_ELEMENTS = 1024
"""Constants above this size are weights; below it they may decide about shapes."""
KNOWN_LIMIT = 4096
"""Combinations that fit and are remembered; the oldest is forgotten for a new one."""
REFUSED_LIMIT = 64
"""Combinations that do not fit and are remembered."""

T = TypeVar("T")
Shapes = tuple[tuple[int, ...], ...]

_thread = ThreadPoolExecutor(1, thread_name_prefix="shapes")
"""Shared by all models: each has one combination at a time here. OpenVINO frees the interpreter."""


class ShapeInference:
    """Tells whether a model takes a combination of input shapes. Used from one event loop.

    What is known is looked up; anything new is inferred in a thread, one combination at a time, so
    that a storm of new shapes holds neither the loop nor more than that thread. Whoever asks for a
    combination that is being inferred waits his turn and then finds it known.
    """

    def __init__(self, model: ov.Model, inputs: Sequence[Port]) -> None:
        self._names = [port.spec.name for port in inputs]
        self._indices = [port.index for port in inputs]
        self._model = _without_weights(model)
        self._fit: dict[Shapes, None] = {}
        self._refused: dict[Shapes, str] = {}
        self._turn = asyncio.Lock()
        self._waiting = 0

    def unknown(self, inputs: Mapping[str, Array]) -> Shapes | None:
        """Give the inputs' shapes for `check`, or None where they are known to fit."""
        shapes = tuple([inputs[name].shape for name in self._names])
        return None if shapes in self._fit else shapes

    async def check(self, shapes: Shapes) -> None:
        """Try shapes, in the order of the inputs.

        Raises:
            InvalidTensor: with the shapes and the operation that refuses them.
            QueueFull: `MOST_WAITING` wait for their turn already.
        """
        if self._waiting >= MOST_WAITING:
            raise QueueFull(
                f"{MOST_WAITING} requests of new shapes wait for this model already: ask again"
                " later, or send fewer shapes"
            )
        self._waiting += 1
        try:
            async with self._turn:
                await self._learn(shapes)
        finally:
            self._waiting -= 1
        if shapes in self._refused:
            raise InvalidTensor(self._refused[shapes])

    async def _learn(self, shapes: Shapes) -> None:
        if shapes in self._fit or shapes in self._refused:
            return
        loop = asyncio.get_running_loop()
        refusal = await loop.run_in_executor(_thread, self._infer, shapes)
        if refusal is None:
            _remember(self._fit, shapes, None, KNOWN_LIMIT)
        else:
            _remember(self._refused, shapes, refusal, REFUSED_LIMIT)

    def _infer(self, shapes: Shapes) -> str | None:
        """Say why the model does not take `shapes`; None where it does. Blocking."""
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
            return f"the model cannot take inputs of shape {given}: {one_line(error)}"
        return None


def _remember(known: dict[Shapes, T], shapes: Shapes, what: T, most: int) -> None:
    """Add an entry; the oldest goes when there are `most`."""
    if len(known) >= most:
        del known[next(iter(known))]
    known[shapes] = what


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

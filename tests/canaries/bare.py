"""OpenVINO alone: graphs compiled for the CPU as they are, with nothing of ours around."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.tensors import Array

ONE_THREAD = {"INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1"}
Ask = Callable[..., list[Array]]
"""Sends arrays to the inputs in their order; gives copies of the outputs."""


def port(kind: str, *shape: int) -> ov.Node:
    """Make an input of an element type and a shape; -1 is an open size."""
    return op.parameter(list(shape), getattr(ov.Type, kind))


def compiled(outputs: Sequence[Any], inputs: Sequence[ov.Node], **config: str) -> Ask:
    """Compile a graph in f32, with one infer request for all that is asked."""
    model = ov.Model([op.result(each) for each in outputs], list(inputs), "bare")
    return asked(model, **config)


def asked(model: ov.Model, **config: str) -> Ask:
    program = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32", **config})
    request = program.create_infer_request()

    def ask(*arrays: Array) -> list[Array]:
        request.infer(dict(enumerate(arrays)))
        return [output.data.copy() for output in request.output_tensors]

    return ask


def fails(ask: Ask, *arrays: Array) -> bool:
    """Tell whether OpenVINO refuses this request."""
    try:
        ask(*arrays)
    except RuntimeError:
        return True
    return False


def floats(*values: Any) -> Array:
    return np.array(values, np.float32)


def whole(*values: int) -> Array:
    return np.array(values, np.int64)


def ints(*values: int) -> Array:
    return np.array(values, np.int32)


def const(value: Any, kind: type = np.int64) -> ov.Node:
    return op.constant(np.array(value, kind))


def above_zero(x: ov.Node) -> ov.Node:
    """Give those values that are above 0; how many there are depends on values."""
    return op.gather(x, op.squeeze(op.non_zero(op.relu(x), "i64"), const([0])), const(0))

"""Models with state, made with OpenVINO's own operations, and OpenVINO itself beside them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset6 as op6
import openvino.opset15 as op

from ie_serving.core.values.tensors import Array
from tests.unit.engines.openvino.models import Shape, parameter, result, save

INPUTS, HIDDEN = 4, 8
"""Sizes of `lstm`."""
COSTLY = np.linspace(0, 1, 2_000_000, dtype=np.float32)
"""What `slow_accumulator` computes with."""


def constant(value: object, dtype: type = np.float32) -> Any:
    return op.constant(np.array(value, dtype))


def write(directory: Path, results: list[Any], sinks: list[Any], parameters: list[Any]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    model = ov.Model(results, sinks, parameters, "model")
    ov.save_model(model, str(directory / "model.xml"), compress_to_fp16=False)
    return directory


def accumulator(directory: Path, step: float = 1, start: float = 0) -> Path:
    """Give the sum of all that was sent so far, each times `step`, and of `start`."""
    x = parameter("x", (1, 2))
    total = op6.read_value(constant([[start, start]]), "total")
    total = op.add(total, op.multiply(x, constant(step)))
    return write(directory, [result("y", total)], [op6.assign(total, "total")], [x])


def slow_accumulator(directory: Path) -> Path:
    """Give the sum of all that was sent so far, after some tens of milliseconds."""
    x = parameter("x", (1, 2))
    costly = op.multiply(op.reduce_sum(x, constant([0, 1], np.int32), True), constant([COSTLY]))
    for _ in range(4):
        costly = op.sin(op.exp(costly))
    zero = op.multiply(op.reduce_max(costly, constant([0, 1], np.int32), True), constant(0))
    total = op6.read_value(constant([[0, 0]]), "total")
    total = op.add(op.add(total, x), zero)
    return write(directory, [result("y", total)], [op6.assign(total, "total")], [x])


def rows(directory: Path, shape: Shape = (-1, 2)) -> Path:
    """Give all rows that were sent so far: the state grows, from none."""
    x = parameter("x", shape)
    rows = op6.read_value(op.constant(np.zeros((0, 2), np.float32)), "rows", ov.Type.f32, [-1, 2])
    rows = op.concat([rows, x], 0)
    return write(directory, [result("y", rows)], [op6.assign(rows, "rows")], [x])


def lstm(directory: Path) -> Path:
    """One cell of an LSTM with its two states."""
    random = np.random.default_rng(5)
    x = parameter("x", (1, INPUTS))
    zeros = op.constant(np.zeros((1, HIDDEN), np.float32))
    hidden = op6.read_value(zeros, "hidden", ov.Type.f32, [1, HIDDEN])
    memory = op6.read_value(zeros, "memory", ov.Type.f32, [1, HIDDEN])
    cell = op.lstm_cell(
        x,
        hidden,
        memory,
        op.constant(random.standard_normal((4 * HIDDEN, INPUTS)).astype(np.float32)),
        op.constant(random.standard_normal((4 * HIDDEN, HIDDEN)).astype(np.float32)),
        op.constant(random.standard_normal(4 * HIDDEN).astype(np.float32)),
        HIDDEN,
    )
    # An output that is not the first of its operation cannot be assigned by the binding.
    left = [op.multiply(cell.output(index), constant(1)) for index in (0, 1)]
    sinks = [op6.assign(left[0], "hidden"), op6.assign(left[1], "memory")]
    return write(directory, [result("y", cell.output(0))], sinks, [x])


def recurrent(directory: Path) -> Path:
    """An LSTM over a whole sequence, without state: what `low_latency_transformation` is for."""
    random = np.random.default_rng(6)
    x = parameter("x", (1, 1, INPUTS))
    zeros = op.constant(np.zeros((1, 1, HIDDEN), np.float32))
    sequence = op.lstm_sequence(
        x,
        zeros,
        zeros,
        constant([1], np.int32),
        op.constant(random.standard_normal((1, 4 * HIDDEN, INPUTS)).astype(np.float32)),
        op.constant(random.standard_normal((1, 4 * HIDDEN, HIDDEN)).astype(np.float32)),
        op.constant(random.standard_normal((1, 4 * HIDDEN)).astype(np.float32)),
        HIDDEN,
        "forward",
    )
    return save(directory, [result("y", sequence.output(0))], [x])


class Direct:
    """OpenVINO itself, with an infer request for each sequence."""

    def __init__(self, directory: Path) -> None:
        self._compiled = ov.Core().compile_model(
            directory / "model.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
        )

    def sequence(self) -> "DirectSequence":
        return DirectSequence(self._compiled.create_infer_request())


class DirectSequence:
    """One sequence of inferences that OpenVINO keeps the state of."""

    def __init__(self, request: ov.InferRequest) -> None:
        self._request = request

    def __call__(self, inputs: Mapping[str, Array]) -> Array:
        return np.array(self._request.infer(dict(inputs))[0])

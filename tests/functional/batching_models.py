"""Models for the tests of batching, made with OpenVINO's own operations."""

from pathlib import Path

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.tensors import Array, DataType
from tests.unit.engines.openvino.models import parameter, result, save

WORDS = 10
"""Length of the table; a word beyond it is refused."""
COSTLY = 2_000_000
"""Elements that `slow` computes for each row: some tens of milliseconds."""


def perceptron(directory: Path) -> Path:
    """Two layers, 16 numbers in, 3 out."""
    random = np.random.default_rng(7)
    x = parameter("x", (-1, 16))
    first = op.constant(random.standard_normal((16, 32)).astype(np.float32))
    second = op.constant(random.standard_normal((32, 3)).astype(np.float32))
    hidden = op.tanh(op.matmul(x, first, False, False))
    return save(directory, [result("y", op.matmul(hidden, second, False, False))], [x])


def lengths(directory: Path) -> Path:
    """Rows of any length; their largest number and their sum."""
    x = parameter("x", (-1, -1))
    axis = op.constant(np.array([1], np.int32))
    largest, total = op.reduce_max(x, axis), op.reduce_sum(x, axis)
    return save(directory, [result("largest", largest), result("total", total)], [x])


def words(directory: Path) -> Path:
    """Look up numbers in a table."""
    x = parameter("x", (-1, 2), DataType.INT32)
    table = op.constant(np.arange(WORDS, dtype=np.float32) * 10)
    return save(directory, [result("y", op.gather(table, x, op.constant(np.int32(0))))], [x])


def slow(directory: Path) -> Path:
    """Give x back after a while."""
    x = parameter("x", (-1, 1))
    many = op.constant(np.linspace(0, 1, COSTLY, dtype=np.float32)[None])
    computed = op.multiply(x, many)
    for _ in range(4):
        computed = op.sin(op.exp(computed))
    zero = op.multiply(
        op.reduce_max(computed, op.constant(np.array([1], np.int32)), True),
        op.constant(np.float32(0)),
    )
    return save(directory, [result("y", op.add(x, zero))], [x])


def centred(directory: Path) -> Path:
    """Subtract the mean of all rows: they depend on each other."""
    x = parameter("x", (-1, 2))
    mean = op.reduce_mean(x, op.constant(np.array([0], np.int32)), True)
    return save(directory, [result("y", op.subtract(x, mean))], [x])


MODELS = {
    "perceptron": perceptron,
    "lengths": lengths,
    "words": words,
    "slow": slow,
    "centred": centred,
}


class Direct:
    """A model without a server."""

    def __init__(self, directory: Path) -> None:
        config = {"INFERENCE_PRECISION_HINT": "f32"}
        self._model = ov.Core().compile_model(directory / "model.xml", "CPU", config)

    def __call__(self, x: Array) -> dict[str, Array]:
        found = self._model({"x": x})
        return {name: found[name] for output in self._model.outputs for name in output.names}

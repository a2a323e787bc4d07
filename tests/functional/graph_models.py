"""Small models for graphs, as OpenVINO writes them."""

from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset13 as ops


def linear(directory: Path, factor: float, offset: float = 0.0) -> Path:
    """Write `y = x * factor + offset`, rows of four floats."""
    x = ops.parameter([-1, 4], np.float32, name="x")
    scaled = ops.multiply(x, np.float32(factor))
    return _written(directory, ops.add(scaled, np.float32(offset)), x, "y")


def total(directory: Path) -> Path:
    """Write `score`, the sum of each row of four floats `x`."""
    x = ops.parameter([-1, 4], np.float32, name="x")
    return _written(directory, ops.reduce_sum(x, np.int64([1])), x, "score")


def colours(directory: Path) -> Path:
    """Write `y`, the greatest of each colour of images `x` of 2 x 2."""
    x = ops.parameter([1, 3, 2, 2], np.float32, name="x")
    return _written(directory, ops.reduce_max(x, np.int64([2, 3])), x, "y")


def _written(directory: Path, output: ov.Node, x: ov.Node, name: str) -> Path:
    x.output(0).set_names({"x"})
    output.output(0).set_names({name})
    directory.mkdir(parents=True)
    ov.save_model(ov.Model([output], [x]), directory / "model.xml", compress_to_fp16=False)
    return directory

"""Small models for graphs, as OpenVINO writes them."""

from pathlib import Path

import numpy as np
from openvino import opset13 as ops

from tests.unit.engines.openvino.models import parameter, result, save


def total(directory: Path) -> Path:
    """Write `score`, the sum of each row of four floats `x`."""
    x = parameter("x", [-1, 4])
    return save(directory, [result("score", ops.reduce_sum(x, np.int64([1])))], [x])


def colours(directory: Path) -> Path:
    """Write `y`, the greatest of each colour of images `x` of 2 x 2."""
    x = parameter("x", [1, 3, 2, 2])
    return save(directory, [result("y", ops.reduce_max(x, np.int64([2, 3])))], [x])


def times_version(base: Path, version: int, name: str = "x", columns: int = 2) -> Path:
    """Write beside `base` the version whose `y` is the input `name` times its number.

    Renamed to `base / str(version)`, it comes in one step.
    """
    x = parameter(name, [-1, columns])
    beside = base.parent / f"made-{version}"
    return save(beside, [result("y", ops.multiply(x, np.float32(version)))], [x])

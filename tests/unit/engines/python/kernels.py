"""Kernels for tests, written as their authors would."""

import textwrap
from pathlib import Path
from typing import Any

from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import CodeSource, KernelOptions
from ie_serving.engines.python.driver import load
from ie_serving.engines.python.kernel_model import KernelModel

SCALE = """
import numpy as np

class Scale:
    def load(self, ctx):
        self.factor = ctx.params.get("factor", 2.0)

    def metadata(self):
        x = {"dtype": "float32", "shape": [-1]}
        return {"inputs": {"x": x}, "outputs": {"y": x}}

    def execute(self, inputs, ctx):
        return {"y": inputs["x"] * np.float32(self.factor)}

    def update(self, params):
        self.factor = params["factor"]
"""


def written(directory: Path, code: str, name: str = "kernel.py") -> Path:
    """Write a version's kernel; gives the version's directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text(textwrap.dedent(code))
    return directory


def options(
    name: str = "", params: "dict[str, Any] | None" = None, *others: object, **own: Any
) -> EngineOptions:
    """Give the options of a model whose kernel is `name` in `kernel.py`."""
    found = EngineOptions(params=params or {}, allow_python=True)
    for each in (KernelOptions(source=CodeSource(file="kernel.py", name=name), **own), *others):
        found = found.having(each)
    return found


def served(
    directory: Path,
    code: str,
    name: str = "",
    params: "dict[str, Any] | None" = None,
    *others: object,
    **own: Any,
) -> KernelModel:
    """Load a kernel."""
    return load(written(directory, code), options(name, params, *others, **own))


def returning(answer: str) -> str:
    """Give a kernel with an output `y` of two floats for each row, whose execute ends so."""
    return f"""
import numpy as np
class Kernel:
    def metadata(self):
        return {{"inputs": {{"x": {{"dtype": "float32", "shape": [-1]}}}},
                "outputs": {{"y": {{"dtype": np.float32, "shape": (-1, 2)}}}}}}
    def execute(self, inputs, ctx):
        x = inputs["x"]
        {answer}
"""

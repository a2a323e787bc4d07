"""A small real engine without OpenVINO: the arithmetic that a file `engine.json` describes.

Tests of everything above the engines use it, so that they start fast and can hold a load or an
inference exactly where they want it. It passes the same contract test as the real one.
"""

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import (
    SERVING_DEFAULT,
    Array,
    Arrays,
    DataType,
    Read,
    Signature,
    TensorSpec,
)
from ie_serving.engines.base import CompiledModel, EngineOptions

T = TypeVar("T")
FILE = "engine.json"
OPERATIONS: Mapping[str, Callable[[Array, Any], Array]] = {
    "add": np.add,
    "multiply": np.multiply,
}


async def _at_once() -> None:
    """Hold nothing."""


class StandInEngine:
    """Loads directories that hold `engine.json`.

    Its keys: `op` (`add` or `multiply`, default `add`), `value` (default 1), `dtype` (a `DataType`
    name, default FP32), `shape` (default [-1]) and `fail`, the text of a load that fails. Input
    `x` and output `y` have that dtype and shape.

    Attributes:
        before_compile: called in `compile` with the directory; may block, or raise LoadFailed.
        before_infer: awaited by each inference; may wait, or raise.
        models: every model that was compiled, in order.
    """

    name = "stand-in"

    def __init__(self) -> None:
        self.before_compile: Callable[[Path], object] = lambda directory: None
        self.before_infer: Callable[[], Awaitable[None]] = _at_once
        self.models: list[StandInModel] = []

    def missing(self, files: Collection[str]) -> str | None:
        """See `engines.base`."""
        return None if FILE in files else f"{FILE} is missing"

    def claims(self, directory: Path) -> bool:
        """See `engines.base.Driver`."""
        return True

    def compile(self, directory: Path, options: EngineOptions) -> "StandInModel":
        """See `engines.base`. The options change nothing; the model keeps them to be looked at."""
        self.before_compile(directory)
        model = StandInModel(self, directory, _description(directory / FILE), options)
        self.models.append(model)
        return model


class StandInModel(CompiledModel):
    """One compiled `engine.json`.

    Attributes:
        directory: its version directory.
        options: the options of its compilation.
        closed: whether `close` was called.
        leaves: called as `leave`; it is only memory, unless a test says otherwise.
    """

    def __init__(
        self,
        engine: StandInEngine,
        directory: Path,
        description: Mapping[str, Any],
        options: EngineOptions,
    ) -> None:
        # Missing keys mean the simplest model: most tests only need one that answers.
        self._engine = engine
        self._operation = OPERATIONS[description.get("op", "add")]
        dtype = DataType[description.get("dtype", "FP32")]
        self._value = np.asarray(description.get("value", 1), dtype.numpy)
        shape = tuple(description.get("shape", [-1]))
        x, y = (TensorSpec(name, dtype, shape, name) for name in "xy")
        signature = Signature(SERVING_DEFAULT, {"x": x}, {"y": y}, runs_on="the stand-in")
        self.signatures = {SERVING_DEFAULT: signature}
        self.directory = directory
        self.options = options
        self.closed = False
        self.leaves: Callable[[], object] | None = None

    async def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> T:
        """See `engines.base`."""
        await self._engine.before_infer()
        return read({"y": np.asarray(self._operation(inputs["x"], self._value))})

    def at_once(self, signature: Signature) -> int:
        """See `engines.base`: nothing counts them."""
        return 1

    @property
    def leave(self) -> Callable[[], object] | None:
        """See `engines.base`."""
        return self.leaves

    def close(self) -> None:
        """See `engines.base`."""
        if self.closed:
            raise RuntimeError(f"{self.directory} was closed twice")
        self.closed = True


def _description(path: Path) -> Mapping[str, Any]:
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LoadFailed(f"{path} cannot be read: {error}") from error
    if not isinstance(description, dict):
        raise LoadFailed(f"{path} must hold a JSON object")
    if "fail" in description:
        raise LoadFailed(str(description["fail"]))
    return description

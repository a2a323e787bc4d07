"""Models for graphs: small functions in place of what is served."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.core.values.errors import NotFound
from ie_serving.core.values.fit import fit
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType, Signature, TensorSpec
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.graph.engine import FILE, GraphEngine
from ie_serving.models.version.handle import Servable
from tests.stand_in_engine import StandInEngine

Compute = Callable[..., Mapping[str, Any]]
CHAIN = {
    "first": {"model": "add", "in": {"x": "request.x"}},
    "last": {"model": "double", "in": {"x": "first.y"}},
}
"""Adds one, then doubles."""
DTYPES = {"f": DataType.FP32, "i": DataType.INT64, "s": DataType.STRING}


def specs(text: str) -> dict[str, TensorSpec]:
    """Read `x:f[-1,4] n:i[]`: names, dtypes, shapes."""
    found = {}
    for each in text.split():
        name, _, rest = each.partition(":")
        shape = tuple(json.loads(rest[1:]))
        found[name] = TensorSpec(name, DTYPES[rest[0]], shape, f"{name}:0")
    return found


class Model(CompiledModel):
    """A compiled model that is a function.

    Attributes:
        compute: gets the inputs by name and gives the outputs.
        calls: how often it was called.
        before: awaited by each call.
        lanes: see `CompiledModel.at_once`.
    """

    signatures: Mapping[str, Signature] = {}

    def __init__(self, inputs: str, outputs: str, compute: Compute) -> None:
        self.compute = compute
        self.calls = 0
        self.before: Callable[[], Any] = lambda: asyncio.sleep(0)
        self.lanes = 2
        self.signatures = {
            SERVING_DEFAULT: Signature(SERVING_DEFAULT, specs(inputs), specs(outputs))
        }

    async def infer(self, signature: Signature, inputs: Mapping[str, Array], read: Any) -> Any:
        self.calls += 1
        await self.before()
        dtypes = {name: spec.dtype.numpy for name, spec in signature.outputs.items()}
        given = self.compute(**inputs)
        return read({name: np.asarray(each, dtypes[name]) for name, each in given.items()})

    def at_once(self, signature: Signature) -> int:
        return self.lanes

    def close(self) -> None:
        """Hold nothing."""


class Shelf:
    """The models that are served, each version 1 until it is replaced.

    Attributes:
        servables: by name.
        recorded: steps in the order in which they ended.
        took: seconds of each, the last time.
    """

    def __init__(self, **models: Model) -> None:
        self.servables: dict[str, Servable] = {}
        self.recorded: list[str] = []
        self.took: dict[str, float] = {}
        for name, model in models.items():
            self.put(name, model)

    def put(self, name: str, model: Model, version: int = 1) -> Servable:
        self.servables[name] = Servable(name, version, model, model.signatures)
        return self.servables[name]

    def handle(self, spec: ModelSpec) -> Servable:
        found = self.servables.get(spec.name)
        if found is None or spec.version not in (None, found.version):
            raise NotFound(f"no model {spec.name}")
        return found

    def graph(self, directory: Path, steps: object, **rest: object) -> Any:
        """Compile a graph of these models."""
        rest.setdefault("outputs", {"y": "last.y"})
        (directory / FILE).write_text(json.dumps({"steps": steps, **rest}))
        return GraphEngine(StandInEngine(), self, self._record).compile(directory, EngineOptions())

    def _record(self, step: str, seconds: float) -> None:
        self.recorded.append(step)
        self.took[step] = seconds


def plus(number: float) -> Model:
    """Give `y = x + number`, of any number of floats."""
    return Model("x:f[-1]", "y:f[-1]", lambda x: {"y": x + number})


def times(number: float) -> Model:
    """Give `y = x * number`."""
    return Model("x:f[-1]", "y:f[-1]", lambda x: {"y": x * number})


def filled(**models: Model) -> Shelf:
    """Give a shelf with `add`, `double`, `sum`, and these."""
    total = Model("a:f[-1] b:f[-1]", "y:f[-1]", lambda a, b: {"y": a + b})
    return Shelf(**{"add": plus(1), "double": times(2), "sum": total, **models})


def failing(error: Exception) -> Model:
    """Give a model of one input that fails with `error`."""

    def fail(x: Any) -> dict[str, Any]:
        raise error

    return Model("x:f[-1]", "y:f[-1]", fail)


async def ask(graph: Any, **inputs: Any) -> dict[str, Any]:
    """Ask as a request does; give the outputs as lists."""
    signature = graph.signatures[SERVING_DEFAULT]
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    fitted, _ = fit(signature, arrays)
    found: dict[str, Any] = await graph.infer(signature, fitted, dict)
    return {name: array.tolist() for name, array in found.items()}

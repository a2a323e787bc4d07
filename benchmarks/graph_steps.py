"""What a graph of two models takes in process, beside the two one after the other.

Run by the interpreter of the server's environment, as a file: it imports the server that is
installed there, and nothing of the benchmarks, which that environment lacks.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ie_serving.app.engine_stack import engine_of
from ie_serving.core.values.tensors import SERVING_DEFAULT
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.graph.engine import FILE, GraphEngine
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.served_models import PreparedModels, ServedModel, ServedModels
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.metrics.step_metrics import StepMetrics

Arrays = Mapping[str, NDArray[Any]]
WARM_UP = 300
"""Requests before the first that counts: latencies are learnt, and the engine's memory is there."""


def main() -> None:
    """Measure, and print the microseconds of each round as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", type=Path, help="of a model `x` to `y`, both of one shape")
    parser.add_argument("graph", help="of the models a and b, as JSON")
    parser.add_argument("--shape", type=int, nargs="+", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args()
    x = np.random.default_rng(7).random(given.shape, np.float32)
    models = {name: _compiled(name, given.version) for name in ("a", "b")}
    graph = _graph(given.graph, models)
    found = asyncio.run(_measure(models, graph, x, given.rounds, given.seconds))
    print(json.dumps(found))


def _compiled(name: str, version: Path) -> CompiledModel:
    config = ModelConfig(name=name, base_path=str(version.parent))
    return engine_of(config).compile(version, config.engine)


def _graph(definition: str, models: Mapping[str, CompiledModel]) -> CompiledModel:
    """Compile a graph that finds its models as in the server."""
    served = ServedModels()
    served.entries = {name: _served(name, each) for name, each in models.items()}
    config = ModelConfig(name="graph", base_path="")
    engine = GraphEngine(
        engine_of(config), PreparedModels(served, ServedModels()), StepMetrics().add
    )
    with TemporaryDirectory() as directory:
        (Path(directory) / FILE).write_text(definition)
        return engine.compile(Path(directory), config.engine)


def _served(name: str, model: CompiledModel) -> ServedModel:
    servable = Servable(name, 1, model, model.signatures)
    stream = SimpleNamespace(default=servable, available={1: servable}, labels={})
    return ServedModel(ModelConfig(name=name, base_path=""), cast("Any", stream))


async def _measure(
    models: Mapping[str, CompiledModel],
    graph: CompiledModel,
    x: NDArray[Any],
    rounds: int,
    seconds: float,
) -> list[tuple[float, float, float]]:
    """Give for each round the median of two calls, of the graph, and of their differences."""

    async def ask(model: CompiledModel, x: NDArray[Any]) -> NDArray[Any]:
        found = await model.infer(model.signatures[SERVING_DEFAULT], {"x": x}, _copies)
        return found["y"]

    async def two() -> NDArray[Any]:
        return await ask(models["b"], await ask(models["a"], x))

    async def one() -> NDArray[Any]:
        return await ask(graph, x)

    assert np.array_equal(await one(), await two())
    for _ in range(WARM_UP):
        await two()
        await one()
    return [await _round(two, one, seconds) for _ in range(rounds)]


async def _round(
    two: Callable[[], Awaitable[object]], one: Callable[[], Awaitable[object]], seconds: float
) -> tuple[float, float, float]:
    us: dict[Any, list[float]] = {two: [], one: []}
    order = [two, one]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for each in order:
            began = time.perf_counter()
            await each()
            us[each].append((time.perf_counter() - began) * 1e6)
        order.reverse()
    more = np.subtract(us[one], us[two])
    return median(us[two]), median(us[one]), float(np.median(more))


def _copies(outputs: Arrays) -> dict[str, NDArray[Any]]:
    return {name: array.copy() for name, array in outputs.items()}


if __name__ == "__main__":
    main()

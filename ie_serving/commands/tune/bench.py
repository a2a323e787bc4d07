"""Compiles one version with one setting after the other, and measures each by concurrent callers.

Callers are tasks of one event loop, like a server's requests, but without its ports: the
measurement covers the engine and its layers.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from ie_serving.commands.tune.search import Keys, Measurement, SearchSpace, search
from ie_serving.core.values.difference import deviation
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import copies
from ie_serving.engines.base import CompiledModel, Engine, EngineOptions
from ie_serving.engines.layers.precision_trial import TrialRequest

clock = time.perf_counter

ROUNDS = 5
"""Rounds at the end, in which the best keys and the present configuration are measured in turn."""
SEARCHED, MEASURED = 0.55, 0.35
"""Shares of the time: up to the first, new keys are tried; the second is for the rounds; the rest
is for compiling."""
COMPARED = 10
"""Requests whose outputs are compared in two precisions."""
SETTLING = 0.2
"""Share of a slice that runs before measuring: new sizes, and latencies still being learnt."""
now = time.monotonic


async def warm(model: CompiledModel, asked: Sequence[TrialRequest]) -> None:
    """Send each request once, so that the engine prepares for its shapes.

    Raises:
        ServingError: the model refuses one.
    """
    for each in asked:
        await model.infer(model.signatures[each.signature], each.inputs, copies)


async def measured(
    model: CompiledModel, asked: Sequence[TrialRequest], callers: int, seconds: float
) -> Measurement:
    """Run callers concurrently, each sending one request after the other, at least one.

    Raises:
        ServingError: the model refuses one.
    """
    latencies: list[float] = []
    began = clock()

    async def call(first: int) -> None:
        # Each caller begins with another request, so that different ones run concurrently.
        for each in cycle([*asked[first % len(asked) :], *asked[: first % len(asked)]]):
            arrived = clock()
            # A server reads requests of other clients before the next one of this client.
            await asyncio.sleep(0)
            await model.infer(model.signatures[each.signature], each.inputs, copies)
            latencies.append(clock() - arrived)
            if clock() - began >= seconds:
                return

    # All callers end before an error is raised, since its handler closes the model.
    ended = await asyncio.gather(*map(call, range(callers)), return_exceptions=True)
    for error in filter(None, ended):
        raise error
    signatures = [model.signatures[each.signature] for each in asked]
    return _measurement(latencies, clock() - began, min(map(model.at_once, signatures)))


def _measurement(latencies: list[float], seconds: float, at_once: int) -> Measurement:
    latencies.sort()
    last = len(latencies) - 1
    return Measurement(
        requests=len(latencies),
        requests_s=len(latencies) / seconds,
        p50_ms=latencies[last // 2] * 1e3,
        p99_ms=latencies[min(last, len(latencies) * 99 // 100)] * 1e3,
        at_once=at_once,
    )


@dataclass(frozen=True)
class TrialOutcome:
    """The result of trying keys: a measurement, or a fault."""

    keys: Keys
    measured: Measurement | None = None
    fault: str = ""


@dataclass
class Bench:
    """One version and its requests.

    Attributes:
        engine: compiles.
        directory: directory of the version.
        options: configured options.
        with_keys: gives options with keys of a model's entry added.
        asked: requests, which callers take in turn.
        callers: number of concurrent callers.
        seconds: time limit for everything, compiling included.
        tolerance: largest deviation of answers with which a lower precision is tried.
        report: called with each result.
    """

    engine: Engine
    directory: Path
    options: EngineOptions
    with_keys: Callable[[EngineOptions, Keys], EngineOptions]
    asked: Sequence[TrialRequest]
    callers: int
    seconds: float
    tolerance: float
    report: Callable[[TrialOutcome], object]
    _began: float = field(default_factory=now)

    @property
    def slice_s(self) -> float:
        """Seconds of one measurement."""
        return MEASURED * self.seconds / (2 * ROUNDS)

    async def best(self, space: SearchSpace) -> tuple[Keys, int]:
        """Search; give the best keys, and the number of keys left out for lack of time."""
        left_out = 0
        steps = search(space)
        keys = next(steps)
        while True:
            tried = None
            # Without keys it is the present configuration, which is always measured, since all
            # others are compared with it.
            if keys and now() - self._began > SEARCHED * self.seconds:
                left_out += 1
            else:
                tried = await self._tried(keys)
                self.report(tried)
            try:
                keys = steps.send(tried.measured if tried else None)
            except StopIteration as end:
                return end.value, left_out

    async def compared(self, keys: Keys) -> tuple[list[Measurement], list[Measurement]]:
        """Measure the present configuration and the keys in turn, so that noise affects both."""
        as_it_is, changed = [], []
        # Both stay open: compiling in each round would take the time of the rounds.
        with closing(await self._open({})) as first, closing(await self._open(keys)) as second:
            for _ in range(ROUNDS):
                as_it_is.append(await self._slice(first))
                changed.append(await self._slice(second))
        return as_it_is, changed

    async def _tried(self, keys: Keys) -> TrialOutcome:
        try:
            with closing(await self._open(keys)) as model:
                fault = await self._fault(keys, model)
                return (
                    TrialOutcome(keys, fault=fault)
                    if fault
                    else TrialOutcome(keys, await self._slice(model))
                )
        except ServingError as error:
            # A refusal by the device or the model is a result too; the search goes on.
            return TrialOutcome(keys, fault=str(error))

    async def _open(self, keys: Keys) -> CompiledModel:
        options = self.with_keys(self.options, keys)
        with ExitStack() as undone:
            model = await asyncio.to_thread(self.engine.compile, self.directory, options)
            undone.callback(model.close)
            # First one at a time, for the shapes; then from all callers, for the batches and infer
            # requests that only concurrent callers use.
            await warm(model, self.asked)
            await measured(model, self.asked, self.callers, SETTLING * self.slice_s)
            undone.pop_all()
        return model

    async def _slice(self, model: CompiledModel) -> Measurement:
        return await measured(model, self.asked, self.callers, self.slice_s)

    async def _fault(self, keys: Keys, model: CompiledModel) -> str:
        """Say how far the outputs of another precision deviate, if beyond the tolerance."""
        if "inference_precision" not in keys:
            return ""
        # The other keys stay, so that only the precision differs.
        options = self.with_keys(self.options, {**keys, "inference_precision": "f32"})
        full = await asyncio.to_thread(self.engine.compile, self.directory, options)
        with closing(full):
            worst = [await _deviation(full, model, each) for each in self.asked[:COMPARED]]
        farthest = max(worst, default=0.0)
        if farthest <= self.tolerance:
            return ""
        return f"answers are off by {farthest:.3g}, more than the tolerance {self.tolerance:g}"


async def _deviation(full: CompiledModel, model: CompiledModel, asked: TrialRequest) -> float:
    signature = full.signatures[asked.signature]
    expected = await full.infer(signature, asked.inputs, copies)
    found = await model.infer(model.signatures[asked.signature], asked.inputs, copies)
    return max((deviation(found[name], expected[name]) for name in expected), default=0.0)

"""Sends requests to a compiled model from concurrent callers, and measures the answers.

Callers are tasks of one event loop, like a server's requests, but without its ports: the
measurement covers the engine and its layers.
"""

import asyncio
import time
from collections.abc import Sequence
from itertools import cycle

from ie_serving.commands.tune.search import Measured
from ie_serving.core.values.tensors import copies
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.layers.precision_trial import TrialRequest

now = time.perf_counter


async def warm(model: CompiledModel, asked: Sequence[TrialRequest]) -> None:
    """Send each request once, so that the engine prepares for its shapes.

    Raises:
        ServingError: the model refuses one.
    """
    for each in asked:
        await model.infer(model.signatures[each.signature], each.inputs, copies)


async def measured(
    model: CompiledModel, asked: Sequence[TrialRequest], callers: int, seconds: float
) -> Measured:
    """Run callers concurrently, each sending one request after the other, at least one.

    Raises:
        ServingError: the model refuses one.
    """
    latencies: list[float] = []
    began = now()

    async def call(first: int) -> None:
        # Each caller begins with another request, so that different ones run concurrently.
        for each in cycle([*asked[first % len(asked) :], *asked[: first % len(asked)]]):
            arrived = now()
            # A server reads requests of other clients before the next one of this client.
            await asyncio.sleep(0)
            await model.infer(model.signatures[each.signature], each.inputs, copies)
            latencies.append(now() - arrived)
            if now() - began >= seconds:
                return

    # All callers end before an error is raised, since its handler closes the model.
    ended = await asyncio.gather(*map(call, range(callers)), return_exceptions=True)
    for error in filter(None, ended):
        raise error
    signatures = [model.signatures[each.signature] for each in asked]
    return _of(latencies, now() - began, min(map(model.at_once, signatures)))


def _of(latencies: list[float], seconds: float, at_once: int) -> Measured:
    latencies.sort()
    last = len(latencies) - 1
    return Measured(
        requests=len(latencies),
        requests_s=len(latencies) / seconds,
        p50_ms=latencies[last // 2] * 1e3,
        p99_ms=latencies[min(last, len(latencies) * 99 // 100)] * 1e3,
        at_once=at_once,
    )

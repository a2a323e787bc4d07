"""An inference beside the loop has one outcome, whatever becomes of its thread or its caller."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from ie_serving.core.runtime.threads import DaemonThreads
from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import Array
from ie_serving.engines.run.infer_request import Lane

WAIT_S = 30.0
INPUTS = {"x": np.ones(3, np.float32)}


class Doubling:
    """An infer request; `go` holds an inference until it is set, `cancel` sets it."""

    renews = False

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.running = threading.Event()
        self.runs = self.renewals = 0
        self._x: Array = np.empty(0)

    def fill(self, inputs: Mapping[str, Array]) -> None:
        self._x = inputs["x"].copy()

    def run(self) -> Mapping[str, Array]:
        self.runs += 1
        self.running.set()
        assert self.go.wait(WAIT_S)
        return {"y": self._x * 2}

    def run_new(self) -> Mapping[str, Array]:
        return self.run()

    def cancel(self) -> None:
        self.go.set()

    def renew(self) -> None:
        self.renewals += 1


@pytest.fixture
def threads() -> Iterator[DaemonThreads]:
    with DaemonThreads(1) as pool:
        yield pool


def total(outputs: Mapping[str, Array]) -> float:
    return float(outputs["y"].sum())


def lane(request: Any, read: Callable[[Mapping[str, Array]], float] = total) -> Lane[float]:
    return Lane(request, INPUTS, read)


async def test_the_loop_goes_on_meanwhile(threads: DaemonThreads) -> None:
    request = Doubling()
    request.go.clear()
    work = lane(request)
    work.start(threads)
    await asyncio.sleep(0)
    assert not work.done.done()
    request.go.set()
    await asyncio.wait_for(work.done, WAIT_S)
    assert (work.result(), work.failure) == (6, None)


async def test_without_a_thread_it_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    request = Doubling()
    work = lane(request)
    work.start(DaemonThreads(1))
    await asyncio.wait_for(work.done, WAIT_S)
    assert (work.result(), request.runs) == (6, 1)


async def test_an_exception_of_the_engine_is_its_failure_and_renews_the_request(
    threads: DaemonThreads,
) -> None:
    request = Doubling()
    error = RuntimeError("engine")

    def fail() -> Mapping[str, Array]:
        raise error

    request.run = fail  # type: ignore[method-assign]
    work = lane(request)
    work.start(threads)
    await asyncio.wait_for(work.done, WAIT_S)
    assert work.failure is error
    assert request.renewals == 1


@pytest.mark.parametrize("kind", [RuntimeError, InvalidTensor])
async def test_an_exception_of_reading_is_raised(
    threads: DaemonThreads, kind: type[Exception]
) -> None:
    def read(outputs: Mapping[str, Array]) -> float:
        raise kind("reading")

    work = lane(Doubling(), read)
    work.start(threads)
    await asyncio.wait_for(work.done, WAIT_S)
    assert work.failure is None
    with pytest.raises(kind, match="reading"):
        work.result()


async def test_a_cancelled_one_is_not_read(threads: DaemonThreads) -> None:
    reads: list[object] = []
    request = Doubling()
    request.go.clear()
    work = lane(request, lambda outputs: reads.append(outputs) or 0.0)  # type: ignore[func-returns-value]
    work.start(threads)
    assert request.running.wait(WAIT_S)
    work.cancel()
    await asyncio.wait_for(work.done, WAIT_S)
    assert not reads


async def test_one_that_is_cancelled_before_its_turn_never_runs(threads: DaemonThreads) -> None:
    busy = threading.Event()
    threads.submit(busy.wait, WAIT_S)
    request = Doubling()
    work = lane(request)
    work.start(threads)
    work.cancel()
    busy.set()
    await asyncio.wait_for(work.done, WAIT_S)
    assert request.runs == 0


async def test_one_whose_caller_leaves_goes_on_and_tells_when_its_request_is_idle(
    threads: DaemonThreads,
) -> None:
    request = Doubling()
    request.go.clear()
    work = lane(request)
    work.start(threads)
    assert await asyncio.to_thread(request.running.wait, WAIT_S)
    work.done.cancel()
    told = asyncio.Event()
    request.cancel = lambda: None  # type: ignore[method-assign]  # as of an engine that cannot
    work.cancel(told.set)
    await asyncio.sleep(0.01)
    assert not (work.is_idle or told.is_set())
    request.go.set()
    await asyncio.wait_for(told.wait(), WAIT_S)
    assert work.is_idle

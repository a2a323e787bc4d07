"""An inference beside the loop has one outcome, whatever becomes of its thread or its caller."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

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


class NoThreadLeft(Executor):
    """Keeps what it is given and then fails, as the system's executor does without a thread."""

    def __init__(self) -> None:
        self.kept: list[Callable[[], object]] = []

    def submit(self, work: Callable[..., Any], /, *_: object, **__: object) -> "Future[Any]":
        self.kept.append(work)
        raise RuntimeError("can't start new thread")


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def total(outputs: Mapping[str, Array]) -> float:
    return float(outputs["y"].sum())


def lane(request: Any, read: Callable[[Mapping[str, Array]], float] = total) -> Lane[float]:
    return Lane(request, INPUTS, read)


async def test_the_loop_goes_on_meanwhile(threads: Executor) -> None:
    request = Doubling()
    request.go.clear()
    work = lane(request)
    work.start(threads)
    await asyncio.sleep(0)
    assert not work.done.done()
    request.go.set()
    await asyncio.wait_for(work.done, WAIT_S)
    assert (work.result(), work.failure) == (6, None)


async def test_without_a_thread_it_runs_here_and_once() -> None:
    request, threads = Doubling(), NoThreadLeft()
    work = lane(request)
    work.start(threads)
    await asyncio.wait_for(work.done, WAIT_S)
    for kept in threads.kept:
        kept()
    assert (work.result(), request.runs) == (6, 1)


async def test_an_exception_of_the_engine_is_its_failure_and_renews_the_request(
    threads: Executor,
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
async def test_an_exception_of_reading_is_raised(threads: Executor, kind: type[Exception]) -> None:
    def read(outputs: Mapping[str, Array]) -> float:
        raise kind("reading")

    work = lane(Doubling(), read)
    work.start(threads)
    await asyncio.wait_for(work.done, WAIT_S)
    assert work.failure is None
    with pytest.raises(kind, match="reading"):
        work.result()


async def test_a_cancelled_one_is_not_read(threads: Executor) -> None:
    reads: list[object] = []
    request = Doubling()
    request.go.clear()
    work = lane(request, lambda outputs: reads.append(outputs) or 0.0)  # type: ignore[func-returns-value]
    work.start(threads)
    assert request.running.wait(WAIT_S)
    work.cancel()
    await asyncio.wait_for(work.done, WAIT_S)
    assert not reads


async def test_one_that_is_cancelled_before_its_turn_never_runs(threads: Executor) -> None:
    busy = threading.Event()
    threads.submit(busy.wait, WAIT_S)
    request = Doubling()
    work = lane(request)
    work.start(threads)
    work.cancel()
    busy.set()
    await asyncio.wait_for(work.done, WAIT_S)
    assert request.runs == 0

"""What the page tells of the worker and its stores."""

import asyncio
from typing import NamedTuple

import pytest

from ie_serving.core.runtime.budget import Budget
from ie_serving.core.values.errors import Unreachable
from ie_serving.telemetry.metrics import process, stores
from ie_serving.telemetry.metrics.page import Metrics
from tests.unit.telemetry.pages import of, samples


class Ports(NamedTuple):
    """Connections of both ports."""

    count: int = 3
    ended: tuple[int, int] = (4, 5)


def page(worker: process.ProcessMetrics) -> Metrics:
    metrics = Metrics()
    metrics.show(worker.lines)
    return metrics


def test_connections_and_the_memory_of_requests_are_shown() -> None:
    budget = Budget(100)
    held = budget.lease(40)
    metrics = page(process.ProcessMetrics(Ports(), budget))
    assert of(metrics, process.CONNECTIONS) == {(): 3}
    closed = of(metrics, process.CONNECTIONS_CLOSED, "reason")
    assert closed == {("idle",): 4, ("refused",): 5}
    assert of(metrics, process.BUDGET_HELD) == {(): 40}
    assert of(metrics, process.BUDGET_LIMIT) == {(): 100}
    held.release()


def test_memory_processor_files_and_garbage_of_the_process_are_shown() -> None:
    metrics = page(process.ProcessMetrics(Ports()))
    read = {name: value for (name, labels), value in samples(metrics).items() if not labels}
    assert read[process.RESIDENT] > 1 << 20
    assert read[process.CPU] > 0
    assert read[process.OPEN_FILES] > 2
    assert read[process.STARTED] > 1e9
    assert set(of(metrics, process.GC_COLLECTIONS, "generation")) == {("0",), ("1",), ("2",)}


async def test_a_loop_that_was_held_up_shows_in_its_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LOOK_S", 0.0)
    worker = process.ProcessMetrics(Ports())
    worker.begin()
    while not len(worker.lag.late):
        await asyncio.sleep(0)
    worker.end()
    looked = len(worker.lag.late)
    await asyncio.sleep(0)
    assert len(worker.lag.late) == looked
    (counted,) = of(page(worker), f"{process.LOOP_LAG}_count").values()
    assert counted == looked


async def test_no_timer_watches_the_loop_of_a_server_whose_page_is_not_read() -> None:
    before = len(asyncio.get_running_loop()._scheduled)  # type: ignore[attr-defined]
    process.ProcessMetrics(Ports(), wanted=False).begin()
    assert len(asyncio.get_running_loop()._scheduled) == before  # type: ignore[attr-defined]


def test_calls_to_stores_by_how_they_ended() -> None:
    told = stores.StoreMetrics()
    metrics = Metrics()
    metrics.show(told.lines)
    assert "store" not in metrics.text()
    with told.call("s3://bucket/a", "list"):
        pass
    with pytest.raises(Unreachable), told.call("s3://bucket/a", "read 1/model.xml"):
        raise Unreachable("no answer")
    told.received("s3://bucket/a", 500)
    told.received("gs://bucket/a", 7)
    assert of(metrics, stores.STORE_CALLS, "store", "operation", "result") == {
        ("s3", "list", "ok"): 1,
        ("s3", "read", "Unreachable"): 1,
    }
    assert of(metrics, stores.STORE_BYTES, "store") == {("s3",): 500, ("gs",): 7}

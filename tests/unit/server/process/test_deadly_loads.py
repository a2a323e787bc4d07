"""Which loads ended a worker, and how long they wait for it."""

import json
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from ie_serving.core.runtime.handover import Handover
from ie_serving.core.values.errors import LoadFailed
from ie_serving.server.process.deadly_loads import DeadlyLoads, LoadNotes


class Machine:
    """An arbiter and its workers, one after the other, with time that the test lets pass."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.signal = signal.SIGKILL
        self.arbiter = DeadlyLoads(lambda: self.now_s)
        self.begin_worker()

    def begin_worker(self) -> None:
        self.left = Handover()
        deaths = dict(self.arbiter.deaths)  # as a fork inherits it
        self.notes = LoadNotes(deaths, self.left.write, lambda: self.now_s)

    def dies_of(self, *loads: str) -> list[str]:
        """Let the worker be killed while it loads; give what the arbiter finds."""
        with ExitStack() as stack:
            for load in loads:
                stack.enter_context(self.notes.noted(load))
            lost = self.arbiter.add(self.left.read(), signal=self.signal)
        self.begin_worker()
        return lost

    def loads(self, load: str) -> bool:
        try:
            with self.notes.noted(load):
                return True
        except LoadFailed:
            return False


def test_a_load_that_was_under_way_when_the_worker_was_killed_is_known() -> None:
    machine = Machine()
    assert machine.loads("well/1@a")
    assert machine.dies_of("deadly/1@a", "other/2@b") == ["deadly/1@a", "other/2@b"]
    machine.notes.noted("well/1@a")
    assert machine.dies_of() == []


def test_after_two_deaths_it_waits_longer_and_longer() -> None:
    machine = Machine()
    machine.dies_of("m/1@a")
    assert machine.loads("m/1@b"), "another content is another load"
    for wait_s in (60.0, 120.0, 240.0):
        machine.dies_of("m/1@a")
        assert not machine.loads("m/1@a")
        machine.now_s += wait_s - 1
        with pytest.raises(LoadFailed, match="it is loaded again in 1 s"):
            machine.notes.noted("m/1@a").__enter__()
        machine.now_s += 1


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (signal.SIGKILL, "2 times, most likely out of memory: allow more memory"),
        (signal.SIGABRT, '2 times, by signal 6 ("Aborted"), a fault of what runs it: replace'),
    ],
)
def test_the_cause_goes_by_the_signal(number: signal.Signals, cause: str) -> None:
    machine = Machine()
    machine.signal = number
    for _ in range(2):
        machine.dies_of("m/1@a")
    with pytest.raises(LoadFailed) as refused:
        machine.notes.noted("m/1@a").__enter__()
    assert cause in str(refused.value)


def test_a_load_that_succeeds_is_forgiven() -> None:
    machine = Machine()
    machine.dies_of("m/1@a")
    assert machine.loads("m/1@a")
    assert machine.dies_of("other/1@a") == ["other/1@a"]
    machine.dies_of("m/1@a")
    assert machine.loads("m/1@a")


def test_a_worker_that_ends_in_order_blames_no_load() -> None:
    machine = Machine()
    with machine.notes.noted("m/1@a"):
        assert machine.arbiter.add(machine.left.read(), signal=0) == []


def test_suspects_load_one_after_the_other_so_that_one_alone_is_blamed_twice() -> None:
    machine = Machine()
    machine.dies_of("first/1@a", "second/1@a")
    with machine.notes.noted("first/1@a"):
        with pytest.raises(LoadFailed, match="once no other suspect version is loading"):
            machine.notes.noted("second/1@a").__enter__()
        assert json.loads(machine.left.read())["under_way"] == ["first/1@a"]
    assert machine.loads("second/1@a")


def test_a_suspect_that_hangs_holds_neither_a_thread_nor_a_healthy_load() -> None:
    machine = Machine()
    machine.dies_of("hangs/1@a", *(f"suspect/{number}@a" for number in range(4)))
    with machine.notes.noted("hangs/1@a"), ThreadPoolExecutor(2) as threads:
        loads = [f"suspect/{number}@a" for number in range(4)] + ["healthy/1@a"]
        assert list(threads.map(machine.loads, loads, timeout=10)) == [False] * 4 + [True]


def test_a_file_that_cannot_be_written_stops_no_load(caplog: pytest.LogCaptureFixture) -> None:
    def full(data: bytes) -> None:
        raise OSError(28, "No space left on device")

    write: Callable[[bytes], None] = full
    with LoadNotes({}, write).noted("m/1@a"):
        pass
    assert "load not noted" in caplog.text

"""Loads leave one CPU to the event loop while they are under way, and nothing of it stays."""

import _thread
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from ie_serving.core.runtime import spare_cpu
from ie_serving.core.runtime.spare_cpu import SHORT_TURN_S, SpareCpu, division

WHOLE = frozenset(os.sched_getaffinity(0))
OWN = frozenset([max(WHOLE)])
REST = WHOLE - OWN

pytestmark = pytest.mark.skipif(len(WHOLE) < 2, reason="needs two CPUs")


def mask(task: int = 0) -> frozenset[int]:
    return frozenset(os.sched_getaffinity(task))


def masks() -> dict[int, frozenset[int]]:
    """Give the CPUs of all threads of this process."""
    found = {}
    for task in map(int, os.listdir("/proc/self/task")):
        with suppress(ProcessLookupError):  # it has ended meanwhile
            found[task] = mask(task)
    return found


@pytest.fixture
def spare() -> SpareCpu:
    """Of a server whose ports are open and whose engine has loaded; this thread is the loop."""
    found = SpareCpu()
    found.choose(slot=0, workers=1)
    found.open()
    with found.left():
        assert mask() == WHOLE, "the engine reads when it first compiles how many CPUs there are"
        found.note_engine()
    return found


@pytest.fixture
def load() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


class Native:
    """A thread that Python does not know, as those of an engine."""

    def __init__(self, bound: frozenset[int] = WHOLE) -> None:
        self._over = threading.Lock()
        self._over.acquire()
        begun = threading.Event()
        self._bound, self._begun = bound, begun
        _thread.start_new_thread(self._run, ())
        assert begun.wait(20)

    def _run(self) -> None:
        self.task = threading.get_native_id()
        os.sched_setaffinity(0, self._bound)
        self._begun.set()
        self._over.acquire()

    def end(self) -> None:
        self._over.release()


@pytest.fixture
def native() -> Iterator[Native]:
    thread = Native()
    yield thread
    thread.end()


def in_load(load: ThreadPoolExecutor, spare: SpareCpu) -> tuple[threading.Event, threading.Event]:
    """Have a load begin; give what ends it, and what is set once it has ended."""
    begun, over, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        with spare.left():
            assert mask() == REST
            begun.set()
            over.wait(20)
        assert mask() == WHOLE
        ended.set()

    load.submit(work)
    assert begun.wait(20)
    return over, ended


def test_meanwhile_the_loop_has_one_cpu_and_the_engine_the_others(
    spare: SpareCpu, load: ThreadPoolExecutor, native: Native
) -> None:
    turn_s = sys.getswitchinterval()
    before = masks()  # of other tests' threads as well, which OpenVINO may have bound
    with ThreadPoolExecutor(1) as others:
        decoding = others.submit(threading.get_native_id).result()
        over, ended = in_load(load, spare)
        assert (mask(), mask(native.task), mask(decoding)) == (OWN, REST, WHOLE)
        assert sys.getswitchinterval() == pytest.approx(SHORT_TURN_S)
        assert spare.usable() == WHOLE, "what counts CPUs does not count those of a moment"
        over.set()
        assert ended.wait(20)
        after = masks()
        assert all(each == before.get(task, WHOLE) for task, each in after.items())
        assert sys.getswitchinterval() == turn_s


def test_a_thread_that_is_born_as_all_are_united_is_as_well(
    spare: SpareCpu, load: ThreadPoolExecutor, native: Native, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not there yet when threads were listed, and has the CPUs of its starter."""
    over, ended = in_load(load, spare)
    listed = spare_cpu.thread_masks
    unborn = [native.task]

    def masks() -> dict[int, frozenset[int]]:
        found = listed()
        if unborn:
            del found[unborn.pop()]
        return found

    monkeypatch.setattr(spare_cpu, "thread_masks", masks)
    over.set()
    assert ended.wait(20)
    assert not unborn
    assert mask(native.task) == WHOLE


def test_a_thread_loads_until_its_last_load_has_ended(
    spare: SpareCpu, load: ThreadPoolExecutor
) -> None:
    def loading() -> list[bool]:
        with spare.left():
            with spare.left():
                both = spare.this_thread_loads
            one = spare.this_thread_loads
        return [both, one, spare.this_thread_loads]

    over, ended = in_load(load, spare)
    assert not spare.this_thread_loads, "another thread loads, and not this one"
    over.set()
    assert ended.wait(20)
    assert load.submit(loading).result(20) == [True, True, False]


def slack_ns() -> int:
    """How much later than asked for the kernel may wake this thread."""
    return int(Path(f"/proc/{threading.get_native_id()}/timerslack_ns").read_text())


def test_the_loop_is_woken_on_time_and_a_load_is_patient(
    spare: SpareCpu, load: ThreadPoolExecutor
) -> None:
    def loading() -> tuple[int, int]:
        with spare.left():
            meanwhile = slack_ns()
        return meanwhile, slack_ns()

    assert slack_ns() == 1
    assert load.submit(loading).result() == (1_000_000, 50_000)


def test_a_thread_or_process_that_a_load_starts_is_woken_as_usual(
    spare: SpareCpu, load: ThreadPoolExecutor
) -> None:
    """A thread and a process have for good the CPUs of the thread that starts them."""

    def child_ns() -> int:
        with spare.everywhere():
            told = subprocess.run(
                [sys.executable, "-c", "print(open('/proc/self/timerslack_ns').read())"],
                check=True,
                capture_output=True,
            )
        return int(told.stdout)

    def loading() -> tuple[int, int, int]:
        with spare.left():
            with ThreadPoolExecutor(1, initializer=spare.settle) as pool:
                thread = pool.submit(slack_ns).result()
            return thread, child_ns(), slack_ns()

    assert load.submit(loading).result() == (50_000, 50_000, 1_000_000)
    assert (child_ns(), slack_ns()) == (50_000, 1), "started by the event loop"


def test_the_last_of_several_loads_ends_it(spare: SpareCpu) -> None:
    with ThreadPoolExecutor(2) as loads:
        first, second = (in_load(loads, spare) for _ in range(2))
        first[0].set()
        assert first[1].wait(20)
        assert mask() == OWN
        second[0].set()
        assert second[1].wait(20)
        assert mask() == WHOLE


def test_a_load_that_fails_ends_it_too(spare: SpareCpu) -> None:
    with pytest.raises(ValueError, match="broken"), spare.left():
        raise ValueError("broken")
    assert mask() == WHOLE


def test_a_thread_that_was_bound_before_stays_where_it_is(
    spare: SpareCpu, load: ThreadPoolExecutor
) -> None:
    bound = Native(OWN)
    over, ended = in_load(load, spare)
    assert mask(bound.task) == OWN
    over.set()
    assert ended.wait(20)
    assert mask(bound.task) == OWN
    bound.end()


def test_a_process_that_was_given_other_cpus_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    spare = SpareCpu()
    with monkeypatch.context() as began:
        one_more = WHOLE | {max(WHOLE) + 1}
        began.setattr(os, "sched_getaffinity", lambda _: one_more)
        spare.choose(slot=0, workers=1)
    spare.open()
    spare.note_engine()
    with ThreadPoolExecutor(1) as pool:

        def load() -> tuple[frozenset[int], frozenset[int] | None]:
            os.sched_setaffinity(0, OWN)
            with spare.left():
                return mask(), spare.usable()

        assert pool.submit(load).result() == (OWN, OWN)
        assert pool.submit(mask).result() == OWN


def test_a_thread_of_a_pool_that_the_loop_starts_meanwhile_has_all_cpus(
    spare: SpareCpu, load: ThreadPoolExecutor
) -> None:
    over, _ = in_load(load, spare)
    with ThreadPoolExecutor(1, initializer=spare.settle) as pool:
        assert pool.submit(mask).result() == WHOLE
    over.set()


def test_another_thread_that_the_loop_starts_meanwhile_has_all_cpus_afterwards(
    spare: SpareCpu, load: ThreadPoolExecutor
) -> None:
    over, ended = in_load(load, spare)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(mask).result() == OWN
        over.set()
        assert ended.wait(20)
        assert pool.submit(mask).result() == WHOLE


def cpus_of_a_child() -> frozenset[int]:
    code = "import os; print(*os.sched_getaffinity(0))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    return frozenset(map(int, printed.split()))


def test_a_process_that_is_started_meanwhile_has_all_cpus(
    spare: SpareCpu, load: ThreadPoolExecutor
) -> None:
    over, ended = in_load(load, spare)
    with spare.everywhere():
        assert cpus_of_a_child() == WHOLE
    assert mask() == OWN
    over.set()
    assert ended.wait(20)
    with spare.left(), spare.everywhere():
        assert cpus_of_a_child() == WHOLE
    assert mask() == WHOLE


@pytest.mark.parametrize("lacks", ["choice", "open ports", "an engine that has compiled"])
def test_nothing_is_bound_before_each_condition_holds(lacks: str) -> None:
    spare = SpareCpu()
    if lacks != "choice":
        spare.choose(slot=0, workers=1)
    if lacks != "open ports":
        spare.open()
    with spare.left():
        pass  # a load that compiles nothing
    if lacks != "an engine that has compiled":
        spare.note_engine()
    turn_s = sys.getswitchinterval()
    with spare.left(), spare.everywhere():
        assert mask() == WHOLE
        assert sys.getswitchinterval() == turn_s


@pytest.mark.parametrize(
    ("cpus", "slot", "workers", "divided"),
    [
        pytest.param([0, 1], 0, 1, ([1], [0]), id="one worker"),
        pytest.param([2, 5, 7], 0, 1, ([7], [2, 5]), id="of the CPUs that it may use"),
        pytest.param([0, 1, 2, 3], 0, 2, ([3], [0, 1]), id="each worker has its own"),
        pytest.param([0, 1, 2, 3], 1, 2, ([2], [0, 1]), id="and loads keep off those of all"),
        pytest.param([0, 1, 2, 3], 2, 2, ([3], [0, 1]), id="beside a worker that it replaces"),
        pytest.param([0, 1], 1, 2, ([], [0, 1]), id="none is spare"),
        pytest.param([0], 0, 1, ([], [0]), id="one CPU"),
    ],
)
def test_each_worker_gets_a_cpu_where_one_is_spare(
    cpus: list[int], slot: int, workers: int, divided: tuple[list[int], list[int]]
) -> None:
    assert division(cpus, slot, workers) == tuple(map(frozenset, divided))

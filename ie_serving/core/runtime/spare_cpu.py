"""Keeps requests quick while models load: a CPU that loads leave to the event loop, and pauses.

A load computes on every CPU. A request that arrives meanwhile wakes the event loop on the CPU where
it ran last. There it queues until the compiling thread has used up its time slice, 3 to 4 ms. So
while a version is compiled or freed, the event loop is bound to one CPU, and the threads of the
engine and of loads to the others. Meanwhile a thread gives up the interpreter after 0.02 ms instead
of 1 ms. The kernel ends the event loop's wait for the interpreter on time, and that of a loading
thread up to 1 ms late (timer slack), so that the load does not take it back from a request at once.
When the last load has ended, the previous state is restored:

    threads of the process                      before    meanwhile    after
    the event loop                              whole     own          whole
    those that load or free, and the engine's   whole     rest         whole
    others of Python                            whole     whole        whole
    those that were bound already               theirs    theirs       theirs

Loads take turns on the CPUs that they have (`in_turn`), one for each. Two on one CPU would end no
sooner, and the one that the kernel interrupts for the other may hold the interpreter: the event
loop waited for it for 2 to 5 ms, several times a second where models are loaded on demand.

A thread inherits the CPUs of the thread that starts it. One that the event loop starts meanwhile
would compete with it until the load has ended, so pools whose threads compute use `settle` as their
initializer. A child process would keep the CPUs for good, so it is started under `everywhere`. So
with timer slack, which a thread inherits for good: the event loop's is exact from `choose` on.
Sources: sched_setaffinity(2), proc(5), PR_SET_TIMERSLACK(2const).

`give_way` lets a load yield the interpreter to requests between its Python steps. While a load
computes in Python, the event loop has to reacquire the interpreter after every wait: some six times
for a request. Each time costs the request two wake-ups, and the time for which the load keeps the
interpreter. So a load that was interrupted, or that has held the interpreter for long, leaves it to
other threads for about as long as a request takes. This is done only if the load leaves a CPU to
the event loop.
"""

import ctypes
import os
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

SHORT_TURN_S: Final = 0.00002
"""Seconds for which a thread may keep the interpreter from the event loop while a version is loaded
or freed. A request needs it several times, and waits as long each time."""
_EXACT_NS: Final = 1
"""Timer slack of the event loop, in nanoseconds."""
_PATIENT_NS: Final = 1_000_000
"""Timer slack of a loading thread, in nanoseconds."""
_USUAL_NS: Final = 50_000
"""Default timer slack, in nanoseconds."""
_SET_TIMER_SLACK: Final = 29
"""PR_SET_TIMERSLACK of linux/prctl.h."""
_LISTINGS: Final = 4
"""Most listings of the threads that get all CPUs back."""
TURN_S: Final = 0.1
"""Longest wait of a load for its turn, in seconds: a small model is not kept waiting by one that
takes minutes to compile."""

_LIBC: Final[Any] = ctypes.CDLL(None)

T = TypeVar("T")
INTERRUPTED_S: Final = 0.0001
"""Seconds of one step above which the load was most likely interrupted; most steps take a tenth of
that. A step that really takes that long has held the interpreter for as long."""
AWAY_S: Final = 0.001
"""Least seconds for which a load leaves the interpreter to others; with the timer slack of a
loading thread these become two milliseconds at most."""
AT_WORK_S: Final = 0.002
"""Least seconds between two such pauses of a thread, so that a load makes progress on a busy
server: it pauses for half of the time at most."""


class SpareCpu:
    """The CPUs of this process and their division. Any thread may use it, after `choose`.

    Does nothing if `choose` was not called or no CPU is spare, and before `open`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._whole: frozenset[int] = frozenset()
        self._own: frozenset[int] = frozenset()
        self._rest: frozenset[int] = frozenset()
        self._loop = 0
        self._is_open = False
        self._engine_began = False
        self._loading: list[int] = []
        self._turn_s = 0.0
        self._elsewhere: frozenset[int] = frozenset()
        self._turns = threading.Semaphore(0)

    def choose(self, slot: int, workers: int) -> None:
        """Choose the CPU of the event loop, by `division`; called in the event loop's thread."""
        if hasattr(os, "sched_setaffinity"):
            self._whole = frozenset(os.sched_getaffinity(0))
            self._own, self._rest = division(self._whole, slot, workers)
            self._loop = threading.get_native_id()
            if self._own:
                self._turns = threading.Semaphore(len(self._rest))
                _set_slack(_EXACT_NS)

    @property
    def is_chosen(self) -> bool:
        """Whether a CPU is chosen."""
        return bool(self._own)

    @property
    def this_thread_loads(self) -> bool:
        """Whether this thread runs or ends a load that leaves a CPU to the event loop."""
        return threading.get_native_id() in self._loading

    def open(self) -> None:
        """Leave the CPU to the event loop from now on: clients may send requests."""
        self._is_open = True

    def usable(self) -> frozenset[int] | None:
        """Return the CPUs of this process, not of this thread alone; None: not known."""
        if self._loading:
            return self._whole
        return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None

    def note_engine(self) -> None:
        """Note that the engine whose threads are bound has read the number of CPUs."""
        self._engine_began = True

    @contextmanager
    def left(self) -> Iterator[None]:
        """Leave the CPU to the event loop during the body, which loads or frees a version.

        The engine reads the number of CPUs once, when it first compiles, which a load need not do.
        Until then loads have all CPUs. So has every load once other software, such as Kubernetes,
        has given this process other CPUs.
        """
        if not (self._is_open and self._engine_began and self._is_ours()):
            yield
            return
        self._begin()
        try:
            yield
        finally:
            self._end()

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """Let no more loads run their bodies than there are CPUs for loads, or wait `TURN_S`.

        Nothing waits at the start, when loads have all CPUs.
        """
        has_turn = bool(self._own) and self._is_open and self._turns.acquire(timeout=TURN_S)
        try:
            yield
        finally:
            if has_turn:
                self._turns.release()

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """Give all CPUs to any process or thread that this thread starts in the body."""
        mine = os.sched_getaffinity(0) if self._loading else self._whole
        is_loop = threading.get_native_id() == self._loop
        self.settle()
        try:
            yield
        finally:
            if self._own and is_loop:
                _set_slack(_EXACT_NS)
            with self._lock:
                if self._loading and mine != self._whole:
                    _bind(0, frozenset(mine))
                    if mine == self._rest:
                        _set_slack(_PATIENT_NS)

    def settle(self) -> None:
        """Give this thread all CPUs, if it inherited fewer from a loading thread or the loop."""
        if self._own:
            _set_slack(_USUAL_NS)
        with self._lock:
            if self._loading and self._is_ours():
                _bind(0, self._whole)

    def _is_ours(self) -> bool:
        """Whether this thread has the CPUs that it inherited, or that this class has set."""
        return bool(self._own) and os.sched_getaffinity(0) in (self._whole, self._own, self._rest)

    def _begin(self) -> None:
        with self._lock:
            self._loading.append(threading.get_native_id())
            if len(self._loading) == 1:
                self._turn_s = sys.getswitchinterval()
                sys.setswitchinterval(SHORT_TURN_S)
                self._divide()
            _bind(0, self._rest)
        _set_slack(_PATIENT_NS)

    def _end(self) -> None:
        _set_slack(_USUAL_NS)
        with self._lock:
            _bind(0, self._whole)
            self._loading.remove(threading.get_native_id())
            if not self._loading:
                sys.setswitchinterval(self._turn_s)
                self._unite()

    def _divide(self) -> None:
        masks = thread_masks()
        self._elsewhere = frozenset(task for task, mask in masks.items() if mask != self._whole)
        of_python = {thread.native_id for thread in threading.enumerate()}
        for task in masks.keys() - self._elsewhere - of_python:
            _bind(task, self._rest)
        if self._loop not in self._elsewhere:
            _bind(self._loop, self._own)

    def _unite(self) -> None:
        # Repeated: while threads are listed, one that is still bound may start another.
        for _ in range(_LISTINGS):
            apart = [
                task
                for task, mask in thread_masks().items()
                if mask in (self._own, self._rest) and task not in self._elsewhere
            ]
            if not apart:
                return
            for task in apart:
                _bind(task, self._whole)


def division(
    cpus: Collection[int], slot: int, workers: int
) -> tuple[frozenset[int], frozenset[int]]:
    """Return the CPU of a worker's event loop, or none if none is spare, and the CPUs of all loads.

    Each of several workers has its own, and no load uses the CPU of any worker's event loop.

    Args:
        cpus: CPUs that the server may use.
        slot: slot of this worker, from 0.
        workers: number of workers.
    """
    ordered = sorted(cpus)
    if len(ordered) <= workers:
        return frozenset(), frozenset(ordered)
    return frozenset([ordered[-1 - slot % workers]]), frozenset(ordered[:-workers])


def thread_masks() -> dict[int, frozenset[int]]:
    """Return the CPUs of each thread of this process."""
    found = {}
    for name in os.listdir("/proc/self/task"):
        with suppress(OSError):  # the thread has ended meanwhile
            found[int(name)] = frozenset(os.sched_getaffinity(int(name)))
    return found


def _set_slack(nanoseconds: int) -> None:
    """Let the kernel wake this thread up to that much late. If refused, nothing changes."""
    _LIBC.prctl(_SET_TIMER_SLACK, ctypes.c_ulong(nanoseconds))


def _bind(task: int, mask: frozenset[int]) -> None:
    with suppress(OSError):  # the thread has ended, or the administrator has removed these CPUs
        os.sched_setaffinity(task, mask)


SPARE_CPU: Final = SpareCpu()
"""The CPUs of this process."""


class _NextYield(threading.local):
    """Time from which this thread may yield again, by `time.perf_counter`."""

    at = 0.0


DUE = _NextYield()
"""When this thread may give way again."""


def give_way() -> None:
    """Leave the interpreter to requests for a moment, in a loading thread; not all the time."""
    if SPARE_CPU.this_thread_loads and time.perf_counter() >= DUE.at:
        time.sleep(AWAY_S)
        DUE.at = time.perf_counter() + AT_WORK_S


class YieldingList(list[T]):
    """A list whose readers yield after a step in which they were interrupted. For any thread."""

    def __iter__(self) -> Iterator[T]:
        """Yield each element; the reader's work on an element is a step."""
        for each in super().__iter__():
            began = time.perf_counter()
            yield each
            if time.perf_counter() - began > INTERRUPTED_S:
                give_way()

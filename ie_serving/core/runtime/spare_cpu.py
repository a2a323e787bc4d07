"""One CPU that loads leave to the event loop while they are under way.

A load computes on every CPU. A request that comes meanwhile wakes the event loop on the CPU where
that ran last, and there it queues until the thread that compiles has used up its slice, 3 to 4 ms.
So while a version is compiled or freed, the event loop is bound to one CPU, and the threads of the
engine and those that load to the others. Meanwhile a thread gives the interpreter up after 0.02 ms
instead of 1. The kernel ends the event loop's wait for it on time, and that of a thread that loads
up to 1 ms late (timer slack), so that this does not take it back from a request at once. When the
last load has ended, everything is as before:

    threads of the process                      before    meanwhile    after
    the event loop                              whole     own          whole
    those that load or free, and the engine's   whole     rest         whole
    others of Python                            whole     whole        whole
    those that were bound already               theirs    theirs       theirs

A thread inherits the CPUs of the one that starts it. One that the event loop starts meanwhile would
compete with it until the load has ended, so pools whose threads compute have `settle` for their
initializer. A process would keep them for good, so it is started under `everywhere`. So with timer
slack, which a thread that is started has for good: the event loop's is exact from `choose` on.
Sources: sched_setaffinity(2), proc(5), PR_SET_TIMERSLACK(2const).
"""

import ctypes
import os
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

SHORT_TURN_S: Final = 0.00002
"""Seconds for which a thread may keep the interpreter from the event loop while a version is loaded
or freed. A request asks for it several times, and waits as long each time."""
_EXACT_NS: Final = 1
"""Timer slack of the event loop."""
_PATIENT_NS: Final = 1_000_000
"""Timer slack of a thread that loads."""
_USUAL_NS: Final = 50_000
"""Timer slack where nobody has set any."""
_SET_TIMER_SLACK: Final = 29
"""PR_SET_TIMERSLACK of linux/prctl.h."""
_LISTINGS: Final = 4
"""How often at most threads are listed that are to have all CPUs again."""


_LIBC: Final[Any] = ctypes.CDLL(None)


class SpareCpu:
    """The CPUs of this process and their division. Any thread may use it, after `choose`.

    Does nothing where `choose` was not called or no CPU is spare, and before `open`.
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

    def choose(self, slot: int, workers: int) -> None:
        """Choose the CPU of the event loop, in whose thread this is called, by `division`."""
        if hasattr(os, "sched_setaffinity"):
            self._whole = frozenset(os.sched_getaffinity(0))
            self._own, self._rest = division(self._whole, slot, workers)
            self._loop = threading.get_native_id()
            if self._own:
                _set_slack(_EXACT_NS)

    @property
    def is_chosen(self) -> bool:
        """Whether there is one."""
        return bool(self._own)

    @property
    def this_thread_loads(self) -> bool:
        """Whether this thread runs a load that has left a CPU to the event loop, or its end."""
        return threading.get_native_id() in self._loading

    def open(self) -> None:
        """Leave it to the event loop from now on: clients may ask."""
        self._is_open = True

    def usable(self) -> frozenset[int] | None:
        """Give the CPUs of this process, whatever this thread may use now; None: not known."""
        if self._loading:
            return self._whole
        return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None

    @contextmanager
    def left(self, *, compiles: bool = False) -> Iterator[None]:
        """Leave it to the event loop while this thread does the body, a load or its end.

        The first load of a process has all CPUs: the engine reads then how many there are. So has
        every load once somebody has given this process other CPUs, as Kubernetes does.

        Args:
            compiles: whether the body is a load, by the engine whose threads are meant.
        """
        if not (self._is_open and self._engine_began and self._is_ours()):
            yield
            self._engine_began |= compiles
            return
        self._begin()
        try:
            yield
        finally:
            self._end()

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """Give what this thread starts in the body, a process or a thread, all CPUs."""
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
        """Give this thread all CPUs, if it has inherited fewer from one that loads or the loop."""
        if self._own:
            _set_slack(_USUAL_NS)
        with self._lock:
            if self._loading and self._is_ours():
                _bind(0, self._whole)

    def _is_ours(self) -> bool:
        """Whether this thread has the CPUs that it was born with, or that were given to it here."""
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
        masks = _masks()
        self._elsewhere = frozenset(task for task, mask in masks.items() if mask != self._whole)
        of_python = {thread.native_id for thread in threading.enumerate()}
        for task in masks.keys() - self._elsewhere - of_python:
            _bind(task, self._rest)
        if self._loop not in self._elsewhere:
            _bind(self._loop, self._own)

    def _unite(self) -> None:
        # More than once: while threads are listed, one that is bound still may start another.
        for _ in range(_LISTINGS):
            apart = [
                task
                for task, mask in _masks().items()
                if mask in (self._own, self._rest) and task not in self._elsewhere
            ]
            if not apart:
                return
            for task in apart:
                _bind(task, self._whole)


def division(
    cpus: Collection[int], slot: int, workers: int
) -> tuple[frozenset[int], frozenset[int]]:
    """Give the CPU of a worker's event loop, none where none is spare, and those of all loads.

    Each of several workers has its own, and the loads of all keep off those of all.

    Args:
        cpus: that the server may use.
        slot: which of the workers it is, from 0.
        workers: how many there are.
    """
    ordered = sorted(cpus)
    if len(ordered) <= workers:
        return frozenset(), frozenset(ordered)
    return frozenset([ordered[-1 - slot % workers]]), frozenset(ordered[:-workers])


def _masks() -> dict[int, frozenset[int]]:
    """Give the CPUs of each thread of this process."""
    found = {}
    for name in os.listdir("/proc/self/task"):
        with suppress(OSError):  # it has ended meanwhile
            found[int(name)] = frozenset(os.sched_getaffinity(int(name)))
    return found


def _set_slack(nanoseconds: int) -> None:
    """Let the kernel wake this thread so much later than it asked. Refused, nothing changes."""
    _LIBC.prctl(_SET_TIMER_SLACK, ctypes.c_ulong(nanoseconds))


def _bind(task: int, mask: frozenset[int]) -> None:
    with suppress(OSError):  # it has ended, or the administrator has taken these CPUs away
        os.sched_setaffinity(task, mask)


SPARE_CPU: Final = SpareCpu()
"""Of this process."""

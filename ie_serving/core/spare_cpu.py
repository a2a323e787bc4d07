"""One CPU that loads leave to the event loop while they are under way.

A load computes on every CPU. A request that comes meanwhile wakes the event loop where that ran
last, and there it waits until the thread that compiles has used up its slice: 3 to 4 ms. So while a
version is loaded or freed, the event loop is bound to one CPU, the threads of the engine and of the
load to the others, and threads take the interpreter from each other ten times as soon. When the
last load has ended, all is as it was before.

    threads of the process                      before    meanwhile    after
    the event loop                              whole     own          whole
    whoever loads; those of the engine          whole     rest         whole
    Python's own others                         whole     whole        whole
    those that somebody has bound elsewhere     theirs    theirs       theirs

A new thread inherits the mask of the one that starts it, so one that the event loop starts meanwhile
has its CPU until the load has ended. Processes would keep it for good: whoever starts one does so
under `everywhere`. Sources: sched_setaffinity(2), proc(5).
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

SHORT_TURN_S: Final = 0.0001
"""Seconds for which a thread may keep the interpreter from the event loop while a version is loaded
or freed. What parts the work of Python's other threads so finely costs them some percent."""


class SpareCpu:
    """The CPUs of this process. Does nothing until `choose`, and nothing where there is but one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._whole: frozenset[int] = frozenset()
        self._own: frozenset[int] = frozenset()
        self._rest: frozenset[int] = frozenset()
        self._loop = 0
        self._is_open = False
        self._engine_began = False
        self._under_way = 0
        self._turn_s = 0.0
        self._elsewhere: frozenset[int] = frozenset()

    def choose(self, slot: int, workers: int) -> None:
        """Choose the CPU of the event loop, in whose thread this is called.

        Each of several workers has its own, and the loads of all keep off those of all.

        Args:
            slot: which of the workers this one is, from 0.
            workers: how many there are. Where they are as many as CPUs, no CPU is spare.
        """
        if not hasattr(os, "sched_setaffinity"):
            return
        whole = sorted(os.sched_getaffinity(0))
        if len(whole) > workers:
            self._whole, self._rest = frozenset(whole), frozenset(whole[:-workers])
            self._own = frozenset([whole[-1 - slot % workers]])
            self._loop = threading.get_native_id()

    @property
    def is_chosen(self) -> bool:
        """Whether there is one."""
        return bool(self._own)

    def open(self) -> None:
        """Leave it to the event loop from now on: clients may ask."""
        self._is_open = True

    def usable(self) -> frozenset[int] | None:
        """Give the CPUs that this process has, whatever its threads may use now; None: not known."""
        if self._own:
            return self._whole
        return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None

    @contextmanager
    def left(self, *, compiles: bool = False) -> Iterator[None]:
        """Leave it to the event loop while this thread does the body, a load or its end.

        The first load of a process has all CPUs: the engine reads then how many there are.

        Args:
            compiles: whether the body is a load, by the engine whose threads are meant.
        """
        if not (self._is_open and self._own and self._engine_began):
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
        """Let what this thread starts in the body, processes or threads, have all CPUs."""
        mine = os.sched_getaffinity(0) if self._own else None
        if mine not in (self._own, self._rest) or mine is None:
            yield
            return
        _bind(0, self._whole)
        try:
            yield
        finally:
            with self._lock:
                if self._under_way:
                    _bind(0, mine)

    def _begin(self) -> None:
        with self._lock:
            self._under_way += 1
            if self._under_way == 1:
                self._turn_s = sys.getswitchinterval()
                sys.setswitchinterval(SHORT_TURN_S)
                self._divide()
            _bind(0, self._rest)

    def _end(self) -> None:
        with self._lock:
            _bind(0, self._whole)
            self._under_way -= 1
            if not self._under_way:
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
        for task, mask in _masks().items():
            if mask in (self._own, self._rest) and task not in self._elsewhere:
                _bind(task, self._whole)


def _masks() -> dict[int, frozenset[int]]:
    """Give the CPUs of each thread of this process."""
    found = {}
    for name in os.listdir("/proc/self/task"):
        with suppress(OSError):  # it has ended meanwhile
            found[int(name)] = frozenset(os.sched_getaffinity(int(name)))
    return found


def _bind(task: int, mask: frozenset[int]) -> None:
    with suppress(OSError):  # it has ended, or the administrator has taken these CPUs away
        os.sched_setaffinity(task, mask)


SPARE_CPU: Final = SpareCpu()
"""Of this process."""

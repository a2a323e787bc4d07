"""The runners of a kernel: which are free, and how many there are, as calls wait or runners idle.

Used on the event loop. Runners are started and ended in a thread, which is made with the first.
"""

import asyncio
import logging
import random
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ie_serving.core.backoff import Backoff
from ie_serving.engines.python.calls import Readiness, Runner, Stream
from ie_serving.engines.python.daemons import DaemonThreads
from ie_serving.engines.python.outputs import Specs
from ie_serving.engines.run.function import one_line
from ie_serving.telemetry.logs import Event

log = logging.getLogger(__name__)

PRESSED_S = 0.1
"""Seconds for which calls must always have waited, this one or that, before one more runner is
started. A process takes longer than that to start, so for a shorter rush it would come too late."""

AGAIN_S = 0.2
"""Seconds after which runners that are not ready are looked at again, while others work."""

BACKOFF = Backoff(first_s=1.0, longest_s=60.0)
"""Of starts that fail one after the other."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How many runners there may be.

    Attributes:
        name: of the kernel, for the log.
        least, most: runners.
        idle_s: seconds without a call after which one beyond `least` is ended.
        start: makes one more that is ready. Blocking; raises whatever goes wrong.
    """

    name: str
    least: int
    most: int
    idle_s: float
    start: Callable[[], Runner]


class Fleet:
    """All runners of a kernel.

    Args of the constructor:
        runners: that have been started.
        growth: None where there are always as many.

    Attributes:
        came: called when a runner may have become free, beside `give`.
    """

    def __init__(self, runners: Sequence[Runner], growth: Growth | None = None) -> None:
        self._all = list(runners)
        # Free ones with the loop's time from which on they are; the one that idles longest first.
        self._free = [(each, 0.0) for each in runners]
        self._growth = growth
        self._closing = threading.Lock()
        self._closed = False
        self._starting = False
        self._failures = 0
        self._due = 0.0
        self._ending: asyncio.TimerHandle | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._growing: asyncio.TimerHandle | None = None
        self._threads = DaemonThreads(1)
        self.came: Callable[[], None] = lambda: None

    @property
    def most(self) -> int:
        """How many batches may run at once."""
        return self._growth.most if self._growth else len(self._all)

    def take(self) -> Runner | None:
        """Give a free runner, the last that worked; None where none is to be taken now.

        Those that cannot run now, as while their process is started again, are left alone while
        others work. Where all are so, the call waits for one that starts, or is told.
        """
        free = self._free
        if not free:
            return None
        if free[-1][0].readiness is Readiness.NOW:
            return free.pop()[0]
        best = max(range(len(free)), key=lambda at: (free[at][0].readiness, at))
        if free[best][0].readiness is Readiness.NOW or len(free) == len(self._all):
            return free.pop(best)[0]
        self._looking = self._looking or _later(AGAIN_S, self._look)
        return None

    def give(self, runner: Runner) -> None:
        """Take a runner back."""
        self._free.append((runner, asyncio.get_running_loop().time()))
        self._end_idle()

    def pressed(self, waited_s: float) -> None:
        """Say that for so long there has always been a call that waits, and still is."""
        growth = self._growth
        if growth is None or self._starting or len(self._all) >= growth.most or self._closed:
            return
        lacks_s = max(PRESSED_S - waited_s, self._due - asyncio.get_running_loop().time())
        if lacks_s > 0:
            self._growing = self._growing or _later(lacks_s, self._grow)
        else:
            self._start(growth)

    def close(self) -> None:
        """End all. Blocking; in any thread."""
        with self._closing:
            self._closed = True
            every = [*self._all]
            # Who waits refers to this, and this to the kernel: neither should wait for the garbage
            # collector.
            self._all.clear()
            self._free.clear()
            self.came = lambda: None
        for runner in every:
            runner.close()
        self._threads.shutdown()

    def _look(self) -> None:
        self._looking = None
        self.came()

    def _grow(self) -> None:
        self._growing = None
        self.came()

    # -- growing -------------------------------------------------------------------------------

    def _start(self, growth: Growth) -> None:
        self._starting = True
        try:
            self._threads.submit(self._make, growth, asyncio.get_running_loop())
        except RuntimeError as error:
            self._failed(growth, error)

    def _make(self, growth: Growth, loop: asyncio.AbstractEventLoop) -> None:
        """Start one more, in the thread."""
        try:
            runner = growth.start()
        except Exception as error:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._failed, growth, error)
            return
        with self._closing:
            if not self._closed:
                self._all.append(runner)
                with suppress(RuntimeError):  # the loop has been closed; the runner is, by `close`
                    loop.call_soon_threadsafe(self._started, growth, runner)
                return
        runner.close()

    def _started(self, growth: Growth, runner: Runner) -> None:
        self._starting, self._failures = False, 0
        if self._closed:
            return
        self._note(growth, "calls wait")
        self._due = asyncio.get_running_loop().time() + PRESSED_S  # whether that is enough shows
        self.give(runner)
        self.came()

    def _failed(self, growth: Growth, error: Exception) -> None:
        self._starting = False
        self._failures += 1
        pause_s = BACKOFF.delay_s(self._failures, random.random())
        self._due = asyncio.get_running_loop().time() + pause_s
        cause = one_line(error)
        log.warning(
            Event("kernel instance not started", kernel=growth.name, cause=cause, pause_s=pause_s)
        )

    # -- shrinking -----------------------------------------------------------------------------

    def _end_idle(self) -> None:
        """End what has idled for too long, and come back when the next one will have."""
        growth = self._growth
        if growth is None or self._closed or self._ending or not self._free:
            return
        now = asyncio.get_running_loop().time()
        while len(self._all) > growth.least and self._free:
            runner, since = self._free[0]
            if (idles_s := since + growth.idle_s - now) > 0:
                # Weakly: a version that has gone must not be kept until then.
                self._ending = _later(idles_s, _weakly(weakref.WeakMethod(self._idle_over)))
                return
            del self._free[0]
            self._end(growth, runner)

    def _idle_over(self) -> None:
        self._ending = None
        self._end_idle()

    def _end(self, growth: Growth, runner: Runner) -> None:
        with self._closing:
            if self._closed:
                return
            self._all.remove(runner)
        self._note(growth, "idle")
        with suppress(RuntimeError):  # no thread: its process ends when nothing refers to it
            self._threads.submit(runner.close)

    def _note(self, growth: Growth, cause: str) -> None:
        count = len(self._all)
        log.info(
            Event("kernel instances changed", kernel=growth.name, instances=count, cause=cause)
        )


@dataclass(frozen=True)
class Running:
    """A kernel that runs, wherever it does.

    Attributes:
        name: for errors.
        inputs, outputs: what it declares.
        fleet: runs it.
        batches: it takes several calls at once.
        update: takes other parameters; None where the model has to be loaded anew.
        stream: answers streams; None where each request of one is answered by itself.
    """

    name: str
    inputs: Specs
    outputs: Specs
    fleet: Fleet
    batches: bool
    update: Callable[[Mapping[str, Any]], object] | None = None
    stream: Stream | None = None


def _later(seconds: float, work: Callable[[], None]) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(seconds, work)


def _weakly(method: "weakref.WeakMethod[Callable[[], None]]") -> Callable[[], None]:
    def call() -> None:
        if (found := method()) is not None:
            found()

    return call

"""The fleet of a kernel's runners: lends free runners, and scales their number with the load.

Used on the event loop. One thread, made with the first runner, starts and ends runners.
"""

import asyncio
import enum
import logging
import random
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from ie_serving.core.runtime.states import after
from ie_serving.core.runtime.threads import DaemonThreads, tell
from ie_serving.core.runtime.waits import Backoff
from ie_serving.core.values.errors import NotAvailable
from ie_serving.core.values.tensors import Specs
from ie_serving.engines.python.runners import Runner, RunnerReadiness, StreamFunction
from ie_serving.engines.run.function import one_line
from ie_serving.telemetry.log.logs import Event, carried

log = logging.getLogger(__name__)

PRESSED_S = 0.1
"""Seconds during which at least one call must have been waiting all the time before one more runner
is started. A process takes longer than that to start: for a shorter rush it would come too late."""

AGAIN_S = 0.2
"""Seconds after which runners that are not ready are looked at again, while others work."""

BACKOFF = Backoff(first_s=1.0, longest_s=60.0)
"""Pauses between starts that fail one after the other."""


class FleetStage(enum.Enum):
    """Whether there may be another runner."""

    STEADY = "steady"
    """None is being started."""
    STARTING = "starting"
    """One is, in the thread."""
    CLOSED = "closed"
    """All are ended; this is final."""


class FleetEvent(enum.Enum):
    """What can happen to a fleet."""

    START = "start"  # one more runner is needed
    STARTED = "started"  # it is ready, or has failed to start
    CLOSE = "close"  # the version is unloaded


CHANGES: Final[Mapping[FleetStage, Mapping[FleetEvent, FleetStage]]] = {
    FleetStage.STEADY: {FleetEvent.START: FleetStage.STARTING, FleetEvent.CLOSE: FleetStage.CLOSED},
    FleetStage.STARTING: {
        FleetEvent.STARTED: FleetStage.STEADY,
        FleetEvent.CLOSE: FleetStage.CLOSED,
    },
    # It may be closed in any thread, while a runner is being started.
    FleetStage.CLOSED: dict.fromkeys(FleetEvent, FleetStage.CLOSED),
}


class WeakTimer:
    """Calls a method on the event loop later. Holds only a weak reference to the method's object.

    A strong reference would keep an unloaded version in memory until the alarm's time.
    """

    def __init__(self, method: Callable[[], None]) -> None:
        self._method = weakref.WeakMethod(method)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_set(self) -> bool:
        """Whether the method is going to be called."""
        return self._timer is not None

    def ring_in(self, seconds: float) -> None:
        """Call the method then, unless it is going to be called already."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._timer = None
        method = self._method()
        if method is not None:
            method()


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How many runners there may be.

    Attributes:
        name: name of the kernel, for the log.
        least, most: runners.
        idle_s: seconds without a call after which one beyond `least` is ended.
        start: makes one more that is ready. Blocking; raises whatever goes wrong.
    """

    name: str
    least: int
    most: int
    idle_s: float
    start: Callable[[], Runner]


class RunnerFleet:
    """All runners of a kernel.

    Args of the constructor:
        runners: runners that have been started.
        growth: None where there are always as many.

    Attributes:
        came: called when a runner may have become free, beside `give`.
    """

    def __init__(self, runners: Sequence[Runner], growth: Growth | None = None) -> None:
        self._all = list(runners)
        # Free ones with the loop's time from which on they are; the one that idles longest first.
        self._free = [(each, 0.0) for each in runners]
        self._growth = growth
        self._streams: Counter[Runner] = Counter()
        # Held while the stage changes, or the list of all: `close` runs in any thread.
        self._changing = threading.Lock()
        self._stage = FleetStage.STEADY
        # Starts that failed since the last that did not, and the loop's time before which there is
        # no further one.
        self._failures = 0
        self._due = 0.0
        self._looking = WeakTimer(self._notify)
        self._growing = WeakTimer(self._notify)
        self._ending = WeakTimer(self._end_idle)
        self._threads = DaemonThreads(1)
        self._about = carried()
        self.came: Callable[[], None] = lambda: None

    @property
    def most(self) -> int:
        """How many batches may run at once."""
        return self._growth.most if self._growth else len(self._all)

    def take(self) -> Runner | None:
        """Give a free runner, the last that worked; None where the call has to wait.

        Runners that cannot run now, as while their process restarts, are skipped while other
        runners work. Where no runner can run, the call waits for a start, or gets its error.
        """
        free = self._free
        if not free:
            return None
        if free[-1][0].readiness is RunnerReadiness.NOW:
            return free.pop()[0]
        best = max(range(len(free)), key=lambda at: (free[at][0].readiness, at))
        if free[best][0].readiness is RunnerReadiness.NOW or len(free) == len(self._all):
            return free.pop(best)[0]
        self._looking.ring_in(AGAIN_S)
        return None

    def give(self, runner: Runner) -> None:
        """Take a runner back."""
        self._free.append((runner, asyncio.get_running_loop().time()))
        if not self._ending.is_set:
            self._end_idle()

    def pressed(self, waited_s: float) -> None:
        """Start one more runner, if there may be, once calls have waited for long enough.

        Args:
            waited_s: seconds during which at least one call has been waiting all the time.
        """
        growth = self._growth
        if growth is None or self._stage is not FleetStage.STEADY or len(self._all) >= growth.most:
            return
        lacks_s = max(PRESSED_S - waited_s, self._due - asyncio.get_running_loop().time())
        if lacks_s > 0:
            self._growing.ring_in(lacks_s)
        else:
            self._start(growth)

    @contextmanager
    def for_stream(self) -> Iterator[Runner]:
        """Give the runner for one more stream; it is not ended as idle during the stream.

        It has the fewest streams among the runners that are ready soonest. In any thread.

        Raises:
            NotAvailable: all runners have ended.
        """
        with self._changing:
            if self._stage is FleetStage.CLOSED:
                raise NotAvailable("the version is being unloaded: open the stream again")
            runner = max(self._all, key=lambda each: (each.readiness, -self._streams[each]))
            self._streams[runner] += 1
        try:
            yield runner
        finally:
            with self._changing:
                self._streams[runner] -= 1

    def close(self) -> None:
        """End all. Blocking; in any thread."""
        with self._changing:
            self._stage = after(CHANGES, self._stage, FleetEvent.CLOSE)
            every = [*self._all]
            # Waiters refer to this object, and it to the kernel: breaking the cycle frees both
            # without the garbage collector.
            self._all.clear()
            self._free.clear()
            self.came = lambda: None
        for runner in every:  # all of them first: their processes end side by side
            runner.ask_to_end()
        for runner in every:
            runner.close()
        self._threads.shutdown(wait=False)

    def _notify(self) -> None:
        self.came()

    def _move(self, change: FleetEvent) -> bool:
        """Go to the next stage; False where this is closed, and stays so."""
        with self._changing:
            self._stage = after(CHANGES, self._stage, change)
            return self._stage is not FleetStage.CLOSED

    # -- growing -------------------------------------------------------------------------------

    def _start(self, growth: Growth) -> None:
        if not self._move(FleetEvent.START):
            return
        try:
            self._threads.begin(self._make, growth, asyncio.get_running_loop())
        except RuntimeError as error:
            self._failed(growth, error)

    def _make(self, growth: Growth, loop: asyncio.AbstractEventLoop) -> None:
        """Start one more, in the thread."""
        try:
            runner = growth.start()
        except Exception as error:
            tell(loop, self._failed, growth, error)
            return
        with self._changing:
            if self._stage is not FleetStage.CLOSED:
                self._all.append(runner)
                tell(loop, self._started, growth, runner)  # else `close` closes the runner
                return
        runner.close()

    def _started(self, growth: Growth, runner: Runner) -> None:
        self._failures = 0
        if not self._move(FleetEvent.STARTED):
            return
        self._note(growth, "calls wait")
        self._due = asyncio.get_running_loop().time() + PRESSED_S  # whether that is enough shows
        self.give(runner)
        self.came()

    def _failed(self, growth: Growth, error: Exception) -> None:
        self._move(FleetEvent.STARTED)
        self._failures += 1
        pause_s = BACKOFF.delay_s(self._failures, random.random())
        self._due = asyncio.get_running_loop().time() + pause_s
        cause = one_line(error)
        facts = {"kernel": growth.name, "cause": cause, "pause_s": pause_s}
        with self._about():
            log.warning(Event("kernel instance not started", **facts))

    # -- shrinking -----------------------------------------------------------------------------

    def _end_idle(self) -> None:
        """End runners that have idled too long; run again when the next one will have."""
        growth = self._growth
        if growth is None:
            return
        now = asyncio.get_running_loop().time()
        at = 0
        while len(self._all) > growth.least and at < len(self._free):
            runner, since = self._free[at]
            if (idles_s := since + growth.idle_s - now) > 0:
                self._ending.ring_in(idles_s)
                return
            if self._end(growth, runner):
                del self._free[at]
            else:
                at += 1
        if at:  # streams end without a word
            self._ending.ring_in(growth.idle_s)

    def _end(self, growth: Growth, runner: Runner) -> bool:
        """End one; False where it may not be, as while it answers a stream."""
        with self._changing:
            if self._stage is FleetStage.CLOSED or self._streams[runner]:
                return False
            del self._streams[runner]
            self._all.remove(runner)
        self._note(growth, "idle")
        with suppress(RuntimeError):  # no thread: its process ends when nothing refers to it
            self._threads.begin(runner.close)
        return True

    def _note(self, growth: Growth, cause: str) -> None:
        count = len(self._all)
        facts = {"kernel": growth.name, "instances": count, "cause": cause}
        with self._about():
            log.info(Event("kernel instances changed", **facts))


@dataclass(frozen=True)
class RunningKernel:
    """A running kernel, in the server or in a child process.

    Attributes:
        name: name in errors.
        inputs, outputs: its declared tensors.
        fleet: runs it.
        batches: it takes several calls at once.
        update: takes new parameters; None where they need a new load.
        stream: answers streams; None where each request of a stream is a separate call.
    """

    name: str
    inputs: Specs
    outputs: Specs
    fleet: RunnerFleet
    batches: bool
    update: Callable[[Mapping[str, Any]], object] | None = None
    stream: StreamFunction | None = None

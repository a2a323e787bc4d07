"""Load quarantine: versions whose load has ended a worker are loaded again with care.

A load may kill its worker, by using up memory or by a crash in the engine. The replacement would
load the same version and die as well, with every other model. So a worker notes each load before it
begins, in a file that survives the worker. The arbiter reads the notes of a dead worker, and every
later worker gets that knowledge at its fork.

After one death the version is loaded again, but never at the same time as another suspect, so that
a second death has one possible cause. A suspect that has to wait for another fails for now, and is
retried like any failed version. After two deaths the waits between loads grow.
"""

import json
import logging
import signal as signals
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import Lock

from ie_serving.core.runtime.waits import Backoff
from ie_serving.core.values.errors import LoadFailed
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

DEATHS_ALLOWED = 1
"""Deaths after which a load begins again without a wait: the worker may have been killed for some
other reason, and then the version that happened to load is most likely innocent."""

WAITS = Backoff(first_s=60.0, longest_s=3600.0)
"""Waits before a version that has ended a worker is loaded again. Each try may cost every model of
the worker the seconds of a restart, so the longest wait is an hour."""


@dataclass(frozen=True)
class Deaths:
    """How often a load has ended its worker, and when last, by the machine's monotonic clock.

    Attributes:
        count: number of deaths.
        last_s: time of the last death in seconds.
        signal: signal that ended the worker the last time.
    """

    count: int
    last_s: float
    signal: int = 0


def _cause(number: int) -> str:
    if number == signals.SIGKILL:
        return "most likely out of memory: allow more memory, or replace the version"
    name = signals.strsignal(number) or "unknown"
    return f'by signal {number} ("{name}"), a fault of what runs it: replace the version'


def under_way(left: bytes) -> list[str]:
    """Return the loads that the notes of a worker, as `LoadNotes` wrote them, say are under way."""
    return sorted(set(json.loads(left)["under_way"])) if left else []


class DeadlyLoads:
    """The arbiter's record of the loads that ended workers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.deaths: dict[str, Deaths] = {}
        self._clock = clock

    def add(self, left: bytes, *, signal: int) -> list[str]:
        """Record the notes of a worker that has ended.

        Args:
            left: the notes as its `LoadNotes` wrote them; empty when nothing was loaded.
            signal: signal that ended the worker; 0 for an orderly exit, which no load has caused.

        Returns:
            The loads that were under way when a signal ended the worker.
        """
        for load in json.loads(left)["survived"] if left else ():
            self.deaths.pop(load, None)
        lost = under_way(left) if signal else []
        for load in lost:
            before = self.deaths.get(load, Deaths(0, 0.0))
            self.deaths[load] = Deaths(before.count + 1, self._clock(), signal)
        return lost


class LoadNotes:
    """Notes the loads of one worker, and delays those that have ended workers before.

    Args of the constructor:
        deaths: the arbiter's record.
        write: stores bytes beyond the end of this process; raises OSError on failure.
        clock: the arbiter's.
    """

    def __init__(
        self,
        deaths: dict[str, Deaths],
        write: Callable[[bytes], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deaths = deaths
        self._write = write
        self._clock = clock
        self._under_way: list[str] = []
        self._survived: list[str] = []
        self._noting = Lock()
        self._suspects = Lock()

    @contextmanager
    def noted(self, load: str) -> Iterator[None]:
        """Keep `load` noted during the body; in any thread.

        Raises:
            LoadFailed: a suspect while another one loads; or a load that has ended workers too
                often and whose wait is not over.
        """
        self._check(load)
        with self._sole_suspect() if load in self._deaths else nullcontext(), self._noted(load):
            yield

    @contextmanager
    def _sole_suspect(self) -> Iterator[None]:
        # Does not wait: another suspect may hang, and the loading threads are few for all models.
        if not self._suspects.acquire(blocking=False):
            raise LoadFailed(
                "it was loading when the server's process was killed; it is tried again once no"
                " other suspect version is loading"
            )
        try:
            yield
        finally:
            self._suspects.release()

    def _check(self, load: str) -> None:
        known = self._deaths.get(load)
        if known is None or known.count <= DEATHS_ALLOWED:
            return
        wait_s = WAITS.delay_s(known.count - DEATHS_ALLOWED, 1.0)
        left_s = known.last_s + wait_s - self._clock()
        if left_s > 0:
            raise LoadFailed(
                f"its load has ended the server's process {known.count} times,"
                f" {_cause(known.signal)}; it is loaded again in {left_s:.0f} s"
            )

    @contextmanager
    def _noted(self, load: str) -> Iterator[None]:
        with self._noting:
            self._under_way.append(load)
            self._leave()
        try:
            yield
        finally:  # a load that fails with an error has not ended the process
            with self._noting:
                self._under_way.remove(load)
                if self._deaths.pop(load, None):
                    self._survived.append(load)
                self._leave()

    def _leave(self) -> None:
        notes = {"under_way": self._under_way, "survived": self._survived}
        try:
            self._write(json.dumps(notes).encode())
        except OSError as error:
            log.warning(Event("load not noted", cause=error.strerror))

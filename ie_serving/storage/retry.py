"""Retries with back-off after transient trouble of a store."""

import logging
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ie_serving.core.runtime.waits import Backoff
from ie_serving.core.values.errors import StorageError, Throttled, Unreachable
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

T = TypeVar("T")

PASSING = (Unreachable, Throttled)
"""Transient trouble. All other trouble lasts until a person changes something."""


QUICK_THEN_PATIENT = Backoff(first_s=0.2, longest_s=10.0)
"""A broken connection is best opened again at once; a store that stays unreachable is tried every 5
to 10 s."""


@dataclass(frozen=True, kw_only=True)
class Tries:
    """How often, how long after each other, and for how long something is tried."""

    most: int
    """In all, the first one included."""

    backoff: Backoff = QUICK_THEN_PATIENT
    """Waits between two tries."""

    patience_s: float = math.inf
    """No further try begins this many seconds after the first, so that a hanging store is left."""


class Retrying:
    """Runs one thing until it is done, it fails for good, or its tries are used up."""

    def __init__(
        self,
        tries: Tries,
        pause: Callable[[float], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tries = tries
        self._pause = pause
        self._clock = clock
        self.progressed()

    def progressed(self) -> None:
        """Count from the start again: something new was achieved since the last failure."""
        self._failures = 0
        self._began = self._clock()

    def run(self, action: Callable[[], T]) -> T:
        """Run `action`, with retries, and return its result.

        Raises:
            StorageError: the last failure.
        """
        while True:
            try:
                return action()
            except PASSING as error:
                self._wait(error)

    def _wait(self, error: StorageError) -> None:
        self._failures += 1
        # Counted from the first try, not from the last failure: a store that hangs until a time-out
        # of 30 s would otherwise hold its thread for more than a minute.
        is_late = self._clock() - self._began >= self._tries.patience_s
        if is_late or self._failures >= self._tries.most:
            raise error
        delay_s = self._tries.backoff.delay_s(self._failures, random.random())
        self._log(error, delay_s)
        self._pause(delay_s)

    def _log(self, error: StorageError, delay_s: float) -> None:
        log.info(
            Event(
                "request to the store failed, tried again after a pause",
                pause_s=round(delay_s, 2),
                failures=self._failures,
                cause=error,
            )
        )

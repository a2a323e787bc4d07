"""Trying again after trouble that passes: exponential back-off with jitter."""

import logging
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ie_serving.errors import StorageError, Throttled, Unreachable

log = logging.getLogger(__name__)

T = TypeVar("T")

PASSING = (Unreachable, Throttled)
"""Trouble that passes by itself. Everything else needs somebody to change something."""


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """How often and how long after each other something is tried."""

    tries: int = 4
    """In all, the first one included."""

    first_s: float = 0.2
    """Longest wait before the second try; doubled for each further one."""

    longest_s: float = 10.0
    """Limit of that growth."""

    patience_s: float = math.inf
    """No further try begins so long after the first: what hangs is not asked again and again."""

    def delay_s(self, failures: int, chance: float) -> float:
        """Say how long to wait after so many failures in a row.

        Args:
            failures: at least 1.
            chance: 0 to 1, at random: clients that failed together come back apart.

        Returns:
            Between half and all of the longest wait, in seconds.
        """
        grown_s = self.first_s * float(1 << min(failures - 1, 32))
        return min(self.longest_s, grown_s) * (0.5 + 0.5 * chance)


class Retrying:
    """Runs one thing until it is done, it fails for good, or its tries are used up."""

    def __init__(
        self,
        backoff: Backoff,
        pause: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backoff = backoff
        self._pause = pause
        self._clock = clock
        self.progressed()

    def progressed(self) -> None:
        """Count from the start again: something new was achieved since the last failure."""
        self._failures = 0
        self._began = self._clock()

    def run(self, action: Callable[[], T]) -> T:
        """Return what `action` returns.

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
        is_late = self._clock() - self._began >= self._backoff.patience_s
        if is_late or self._failures >= self._backoff.tries:
            raise error
        delay_s = self._backoff.delay_s(self._failures, random.random())
        log.info(
            'storage tried again delay_s=%.2f failures=%d error="%s"',
            delay_s,
            self._failures,
            error,
        )
        self._pause(delay_s)

"""What is wrong with the listings of one model: since when, when to ask again, what is logged."""

import logging
from collections.abc import Callable

from ie_serving.core.runtime.backoff import Backoff
from ie_serving.core.values.errors import NotThereYet, StorageError
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

REMINDER_S = 600.0
"""Seconds after which trouble that lasts is logged again: often enough for whoever reads the log of
the last hour, and not at each poll."""


class ListingTrouble:
    """The failed listings since the last that succeeded.

    Args of the constructor:
        model: model name, for log lines.
        base_path: where it lies, for the same: a model that is moved has two streams for a while.
        chance: 0 to 1 at random, for the jitter of the back-off.
        clock: seconds that only grow.

    Attributes:
        error: of the last listing; None when it succeeded.
        retry_s: seconds to wait before the next one; 0 without trouble.
    """

    def __init__(
        self,
        model: str,
        base_path: str,
        *,
        chance: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self.error: StorageError | None = None
        self.retry_s = 0.0
        self._model = model
        self._base_path = base_path
        self._chance = chance
        self._clock = clock
        self._failures = 0
        self._refusals = 0
        self._since = 0.0
        self._logged_at = 0.0

    def failed(self, error: StorageError, backoff: Backoff, *, is_new: bool) -> None:
        """Note a listing that failed.

        Args:
            error: what it failed with.
            backoff: waits after failures.
            is_new: whether no listing has succeeded yet.
        """
        now = self._clock()
        if self.error is None:
            self._since = now
        self._failures += 1
        self._say(error, now, is_new=is_new)
        self.error = error
        # A store that refuses or hangs is asked less and less; a directory that is not there yet
        # costs next to nothing to ask for, and is wanted as soon as it is there.
        if not isinstance(error, NotThereYet):
            self._refusals += 1
            self.retry_s = backoff.delay_s(self._refusals, self._chance())

    def _say(self, error: StorageError, now: float, *, is_new: bool) -> None:
        """Log what is new, and now and then what still lasts."""
        if str(error) != str(self.error):
            self._log(error, is_new=is_new)
            self._logged_at = now
        elif now - self._logged_at >= REMINDER_S:
            self._remind(error)
            self._logged_at = now

    def ended(self) -> bool:
        """Note a listing that succeeded; tell whether that is news."""
        if self.error is None:
            return False
        log.info(Event("listing works again", model=self._model, base_path=self._base_path))
        self.error = None
        self.retry_s = 0.0
        self._failures = self._refusals = 0
        return True

    def _log(self, error: StorageError, *, is_new: bool) -> None:
        # A directory that was never there is most likely a volume that is still to be mounted; one
        # that was there and is gone takes the model's next versions with it.
        model, base_path = self._model, self._base_path
        if is_new and isinstance(error, NotThereYet):
            log.warning(
                Event(
                    "model directory does not exist yet",
                    model=model,
                    base_path=base_path,
                    cause=error,
                )
            )
            return
        log.error(
            Event(
                "listing failed, served versions stay",
                model=model,
                base_path=base_path,
                cause=error,
            )
        )

    def _remind(self, error: StorageError) -> None:
        log.warning(
            Event(
                "listing still fails",
                model=self._model,
                base_path=self._base_path,
                since_s=round(self._clock() - self._since),
                failures=self._failures,
                cause=error,
            )
        )

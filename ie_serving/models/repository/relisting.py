"""Says when a model's files are listed again.

After a failed listing `ListingTrouble` waits with a growing back-off, and logs what lasts.
`Comparisons` counts the polls after which the files of versions that serve are compared once more.
"""

import logging
from collections.abc import Callable

from ie_serving.core.runtime.waits import Backoff
from ie_serving.core.values.errors import NotThereYet, StorageError
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

REMINDER_S = 600.0
"""Seconds after which trouble that lasts is logged again: often enough to show in the log of the
last hour, and not at each poll."""


class ListingTrouble:
    """The failed listings since the last that succeeded.

    Args of the constructor:
        model: model name, for log lines.
        base_path: base path, for log lines: a model that is moved has two streams for a while.
        chance: 0 to 1 at random, for the jitter of the back-off.
        clock: seconds that only grow.

    Attributes:
        error: error of the last listing; None when it succeeded.
        retry_s: seconds to wait before the next one; 0 without trouble.
    """

    def __init__(
        self, model: str, base_path: str, *, chance: Callable[[], float], clock: Callable[[], float]
    ) -> None:
        self.error: StorageError | None = None
        self.retry_s = 0.0
        self._facts = {"model": model, "base_path": base_path}
        self._chance = chance
        self._clock = clock
        self._failures = 0
        self._refusals = 0
        self._since = 0.0
        self._logged_at = 0.0

    def failed(self, error: StorageError, backoff: Backoff, *, is_new: bool) -> None:
        """Note a listing that failed.

        Args:
            error: the cause.
            backoff: waits after failures.
            is_new: whether no listing has succeeded yet.
        """
        now = self._clock()
        if self.error is None:
            self._since = now
        self._failures += 1
        self._log_trouble(error, now, is_new=is_new)
        self.error = error
        # A store that refuses or hangs is listed with a growing back-off. A directory that does not
        # exist yet costs next to nothing to list, and should load as soon as it exists.
        if not isinstance(error, NotThereYet):
            self._refusals += 1
            self.retry_s = backoff.delay_s(self._refusals, self._chance())

    def _log_trouble(self, error: StorageError, now: float, *, is_new: bool) -> None:
        """Log new trouble at once, and lasting trouble every `REMINDER_S`."""
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
        log.info(Event("listing works again", **self._facts))
        self.error = None
        self.retry_s = 0.0
        self._failures = self._refusals = 0
        return True

    def _log(self, error: StorageError, *, is_new: bool) -> None:
        # A directory that was never there is most likely a volume that is still to be mounted; one
        # that was there and is gone takes the model's next versions with it.
        if is_new and isinstance(error, NotThereYet):
            log.warning(Event("model directory does not exist yet", **self._facts, cause=error))
        else:
            log.error(Event("listing failed, served versions stay", **self._facts, cause=error))

    def _remind(self, error: StorageError) -> None:
        since_s, failures = round(self._clock() - self._since), self._failures
        facts = {**self._facts, "since_s": since_s}
        log.warning(Event("listing still fails", **facts, failures=failures, cause=error))


COMPARED_EVERY = 30
"""Polls after which the files of the versions that serve are compared once more. For a thousand
idle models that takes about 0.2 % of a core."""


class Comparisons:
    """The file comparisons of one model.

    Attributes:
        polls_left: polls until files are compared, the comparing poll included. The thread that
            polls decrements it; a model is polled by one thread at a time.
    """

    def __init__(self) -> None:
        self.polls_left = COMPARED_EVERY
        # Apart from the count, since a thread may be counting when the event loop sets this.
        self.is_asked = False

    @property
    def is_next(self) -> bool:
        """Whether the next poll compares files."""
        return self.polls_left <= 1 or self.is_asked

    def ask(self) -> None:
        """Compare at the next poll."""
        self.is_asked = True

    def counted(self) -> bool:
        """Count a poll, in a thread; tell whether it compares files."""
        is_comparison = self.polls_left <= 1
        self.polls_left = COMPARED_EVERY if is_comparison else self.polls_left - 1
        return is_comparison

    def skip(self, polls: int) -> None:
        """Count polls that are not made, since the kernel tells of changes meanwhile."""
        self.polls_left -= polls

    def begin_anew(self) -> None:
        """Count from the poll that compares."""
        self.polls_left, self.is_asked = COMPARED_EVERY, False

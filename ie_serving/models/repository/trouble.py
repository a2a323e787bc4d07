"""Why a model's repository cannot be listed now, and how long to wait before it is asked again."""

import logging
from collections.abc import Callable

from ie_serving.core.backoff import Backoff
from ie_serving.core.errors import NotThereYet, StorageError
from ie_serving.telemetry.logs import Event

log = logging.getLogger(__name__)


class ListingTrouble:
    """The listings of one model that failed in a row.

    Args of the constructor:
        model: model name, for log lines.
        backoff: waits after failures.
        chance: 0 to 1 at random, for the jitter of the back-off.

    Attributes:
        error: why the last listing failed; None when it did not.
        retry_s: how long to wait before the next one, in seconds; 0 as long as usual.
    """

    def __init__(self, model: str, backoff: Backoff, chance: Callable[[], float]) -> None:
        self.error: StorageError | None = None
        self.retry_s = 0.0
        self._model = model
        self._backoff = backoff
        self._chance = chance
        self._failures = 0

    def note(self, error: StorageError, *, was_listed: bool) -> None:
        """Take a failure. Logged when it changes: what lasts would fill the log, at every poll.

        Args:
            error: the failure.
            was_listed: whether the repository has been listed before.
        """
        if str(error) != str(self.error):
            self._log(error, was_listed)
        self.error = error
        # A store that refuses or hangs is asked less and less; a directory that is not there yet
        # costs next to nothing to ask for, and is wanted as soon as it is there.
        if not isinstance(error, NotThereYet):
            self._failures += 1
            self.retry_s = self._backoff.delay_s(self._failures, self._chance())

    def end(self) -> bool:
        """Take a listing that succeeded; tell whether one had failed before."""
        if self.error is None:
            return False
        log.info(Event("listing works again", model=self._model))
        self.error = None
        self.retry_s = 0.0
        self._failures = 0
        return True

    def _log(self, error: StorageError, was_listed: bool) -> None:
        # A directory that was never there is most likely a volume that is still to be mounted; one
        # that was there and is gone takes the model's next versions with it.
        if isinstance(error, NotThereYet) and not was_listed:
            log.warning(Event("model directory does not exist yet", model=self._model, cause=error))
        else:
            log.error(Event("listing failed, served versions stay", model=self._model, cause=error))

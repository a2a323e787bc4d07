"""How long a worker's event loop has been silent, as the arbiter counts it."""

from typing import Final

LOADING_S: Final = 120.0
"""Seconds of silence that a worker is allowed at least while it loads a version: reading a large
pickle holds the interpreter's lock, and with it the event loop."""
LONGEST_LOOK_S: Final = 2.0
"""Seconds that one look of the arbiter counts at most. It looks each second, unless the whole
server is suspended, as in a paused container, and then its workers are silent without a fault."""


class Silence:
    """Counts the seconds since a worker's last heartbeat.

    Args of the constructor:
        unbeaten: what stands for no heartbeat yet: a start is not silent, however long it takes.
    """

    def __init__(self, unbeaten: float) -> None:
        self._unbeaten = self._beat = unbeaten
        self._lasts_s = 0.0

    def after(self, beat: float, passed_s: float) -> float:
        """Return the seconds of silence.

        Args:
            beat: time of the last heartbeat, by any clock.
            passed_s: seconds since the look before.
        """
        if beat == self._unbeaten or beat != self._beat:
            self._beat, self._lasts_s = beat, 0.0
        else:
            self._lasts_s += min(passed_s, LONGEST_LOOK_S)
        return self._lasts_s

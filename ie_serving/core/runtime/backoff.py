"""Back-off: how long to wait before a failed operation is tried again."""

from dataclasses import dataclass

_MOST_DOUBLINGS = 32
"""Keeps the power within the range of a float; every limit in use is reached much earlier."""


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """Exponential back-off with jitter: the wait doubles with each failure, up to a limit."""

    first_s: float
    """Longest wait after the first failure, in seconds."""

    longest_s: float
    """Limit of the growth, in seconds."""

    def delay_s(self, failures: int, chance: float) -> float:
        """Return how long to wait after `failures` failures in a row.

        Args:
            failures: at least 1; fewer count as one.
            chance: 0 to 1, at random, so that clients that failed together retry at various times.

        Returns:
            Between half and all of the longest wait, in seconds.
        """
        # At least half of it: a wait of 0 would repeat a request to a failing store at once.
        grown_s = self.first_s * float(1 << max(0, min(failures - 1, _MOST_DOUBLINGS)))
        return min(self.longest_s, grown_s) * (0.5 + 0.5 * chance)

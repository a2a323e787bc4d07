"""With which batch window and how many lanes live traffic is served: a policy without a clock.

Time is cut into intervals, and every interval is served with one setting. After some rest the
setting in use and a rival are served in turn, twice. The rival is taken only if it was better both
times; the first time that it is not ends the probe. So a rival that is worse is served for one
interval, and one that is better once by chance for two.

As long as another setting than the configured one is in use, every second rival is the configured
one, which is taken back unless it is worse both times; and it is taken back at once where requests
take much longer than when it was last measured: the traffic has changed.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

REST = 10
"""Intervals between two probes."""
TIMES = 2
"""How often in a row a rival must be better."""
MARGIN = 0.05
"""Share by which requests must take less time; the same setting differs by about as much from one
interval to the next."""
ALARM = 1.5
"""Factor by which requests may take longer than they last did with the configured setting."""


@dataclass(frozen=True, slots=True)
class Window:
    """How batches are gathered: longest wait in seconds for a free lane, and lanes."""

    timeout_s: float
    lanes: int


@dataclass(frozen=True, slots=True)
class Interval:
    """What requests took in one interval, in seconds: the mean, and what 99 of 100 kept below."""

    mean_s: float
    p99_s: float


class Verdict(str, enum.Enum):
    """How a probe ended."""

    ADOPTED = "adopted"  # the rival was better
    REFUSED = "refused"  # it was not
    UNDONE = "undone"  # the configured setting was taken back


class LiveTuner:
    """Names the setting of each interval.

    Args of the constructor:
        configured: the setting that it begins with.
        others: settings to be tried in turn.
        target_s: what 99 of 100 requests are to keep below; 0 for none. A setting that misses it is
            never better than one that does not.

    Attributes:
        current: the setting of the interval that runs.
        kept: the setting in use outside of probes.
    """

    def __init__(self, configured: Window, others: Sequence[Window], target_s: float = 0.0) -> None:
        self.current = self.kept = configured
        self._configured = configured
        self._others = list(others)
        self._target_s = target_s
        self._rest = REST
        self._checked = False  # whether the last rival was the configured setting
        self._won = 0
        self._before: Interval | None = None  # the one with `kept`, beside which a rival's stands
        self._usual: Interval | None = None  # the last one with the configured setting

    def ended(self, interval: Interval) -> Verdict | None:
        """Take note of an interval with `current`, and set the next; tell what was decided."""
        if self.current == self._configured:
            self._usual = interval
        if self.current != self.kept:
            return self._judged(interval)
        if self._is_alarming(interval):
            return self._settled(self._configured, Verdict.UNDONE)
        self._rest -= 1
        if self._rest <= 0 and (rival := self._rival()):
            self._before, self.current = interval, rival
        return None

    def _is_alarming(self, interval: Interval) -> bool:
        usual = self._usual
        return bool(
            self.kept != self._configured and usual and interval.mean_s > ALARM * usual.mean_s
        )

    def _rival(self) -> Window | None:
        if self._won:
            return self._others[0] if not self._checked else self._configured
        self._checked = self.kept != self._configured and not self._checked
        if self._checked:
            return self._configured
        # The next one in turn; what is in use is no rival of itself.
        self._others.append(self._others.pop(0))
        if self._others[0] == self.kept:
            self._others.append(self._others.pop(0))
        return self._others[0] if self._others[0] != self.kept else None

    def _judged(self, interval: Interval) -> Verdict | None:
        """Compare a rival's interval with the one before it."""
        rival, before = self.current, self._before
        assert before is not None
        if rival == self._configured:
            better = not self._is_better(before, interval, 0.0)
        else:
            better = self._is_better(interval, before, MARGIN)
        if not better:
            return self._settled(self.kept, Verdict.REFUSED)
        self._won += 1
        if self._won == TIMES:
            undone = rival == self._configured
            return self._settled(rival, Verdict.UNDONE if undone else Verdict.ADOPTED)
        self.current, self._rest = self.kept, 1  # once more, beside another interval of `kept`
        return None

    def _settled(self, window: Window, verdict: Verdict) -> Verdict:
        self.current = self.kept = window
        self._rest, self._won, self._before = REST, 0, None
        return verdict

    def _is_better(self, new: Interval, old: Interval, margin: float) -> bool:
        if self._target_s and (new.p99_s > self._target_s) != (old.p99_s > self._target_s):
            return new.p99_s <= self._target_s
        return new.mean_s < old.mean_s * (1 - margin)


WINDOWS_S = (0.0, 0.0005, 0.002)
"""Windows that are tried."""


def rivals(configured: Window, at_once: int) -> list[Window]:
    """Give settings to be tried: windows with all lanes, and one lane, which waits for nobody.

    Args:
        configured: the setting that is in use without them.
        at_once: inferences that the model runs at a time.
    """
    lanes = max(configured.lanes, at_once)
    with_all = [Window(timeout_s, lanes) for timeout_s in WINDOWS_S] if lanes > 1 else []
    return [each for each in (*with_all, Window(0.0, 1)) if each != configured]

"""The split traffic of one model: chooses versions, watches the smaller shares, takes one back.

Only models with `traffic` have a `SplitTraffic`. Lives on one event loop.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from ie_serving.core.values.codes import ENDED, Code, code_of
from ie_serving.core.values.errors import ServingError
from ie_serving.models.traffic.policy import (
    MOST_KEPT,
    WHOLE,
    Rollback,
    SeenVersion,
    TrafficRule,
    VersionRanges,
    judge,
    point_of,
    ranges_of,
)
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

STRIDE: Final = WHOLE * 0.6180339887498949
"""Step between the points of two requests, by the golden ratio: of any run of requests each version
gets its share, to within a few requests; random points would stray further."""


@dataclass(eq=False, slots=True)
class WatchedRequest:
    """A request of a version that may lose its share.

    Attributes:
        began: `time.perf_counter()` when the version was chosen.
        counts: whether it is in the window now.
        failed: whether it has failed.
        slow: whether it took longer than `latency_ms`.
    """

    began: float
    counts: bool = False
    failed: bool = False
    slow: bool = False


class Window:
    """The last requests of one version.

    A request counts when it ends, or once it is slow: of a version that hangs, none ends.

    Args of the constructor:
        rule: says which of them count.
    """

    def __init__(self, rule: Rollback) -> None:
        self._rule = rule
        self._entries: deque[tuple[float, WatchedRequest]] = deque()
        self._under_way: dict[WatchedRequest, None] = {}  # and not slow yet; the oldest first
        self._failed = 0
        self._slow = 0

    def begin(self, began: float) -> WatchedRequest:
        """Note that a request begins."""
        request = WatchedRequest(began)
        if self._rule.latency_ms is not None:
            self._under_way[request] = None
        return request

    def end(self, request: WatchedRequest, now: float, at: float, *, failed: bool) -> SeenVersion:
        """Count a request that has ended.

        Args:
            request: as `begin` has given it.
            now: time by the clock of the windows.
            at: time by the clock of `began`.
            failed: whether it has failed.
        """
        self._under_way.pop(request, None)
        if not request.counts:
            self._add(request, now, slow=self._rule.is_slow(at - request.began))
        if failed:
            request.failed = True
            self._failed += 1
        return self._seen(now)

    def leave(self, request: WatchedRequest, now: float, at: float) -> SeenVersion:
        """As `end`, of a request whose client has left: it counts if it was slow by then."""
        if request.counts or self._rule.is_slow(at - request.began):
            return self.end(request, now, at, failed=False)
        self._under_way.pop(request, None)
        return self._seen(now)

    def hanging(self, now: float, at: float) -> SeenVersion | None:
        """Count the requests under way that are slow by now; None where there are none."""
        found = False
        while self._under_way:
            request = next(iter(self._under_way))
            if not self._rule.is_slow(at - request.began):
                break
            del self._under_way[request]
            self._add(request, now, slow=True)
            found = True
        return self._seen(now) if found else None

    def _add(self, request: WatchedRequest, now: float, *, slow: bool) -> None:
        request.counts, request.slow = True, slow
        self._slow += slow
        self._entries.append((now, request))

    def _seen(self, now: float) -> SeenVersion:
        oldest, entries = now - self._rule.window_s, self._entries
        while entries and (entries[0][0] < oldest or len(entries) > MOST_KEPT):
            _, request = entries.popleft()
            request.counts = False
            self._failed -= request.failed
            self._slow -= request.slow
        return SeenVersion(len(entries), self._failed, self._slow)


class VersionNotChosen(ServingError):
    """A request names no version, and the model's traffic is split: choose, and ask by number."""

    def __init__(self, split: "SplitTraffic") -> None:
        super().__init__("the traffic of this model is split: name a version")
        self.split = split

    @property
    def main(self) -> int:
        """The version with the largest share."""
        assert self.split.ranges is not None
        return self.split.ranges.main


class SplitTraffic:
    """Divides the requests of one model among its versions, and rolls a version back.

    Args of the constructor:
        model: model name.
        traffic: the configuration.
        rollbacks: counts by version; outlives this object.
        clock: seconds that only grow.

    Attributes:
        traffic: present rule of the split.
        ranges: ranges of the versions now; None where no version with a share is AVAILABLE.
        rolled_back: reason why a version has lost its share, by its number.
    """

    def __init__(
        self,
        model: str,
        traffic: TrafficRule,
        rollbacks: Counter[int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._clock = clock
        self.traffic = traffic
        self._rollbacks = rollbacks
        self.ranges: VersionRanges | None = None
        self.rolled_back: dict[int, str] = {}
        self._labels: Mapping[str, int] = {}
        self._available: Collection[int] = ()
        self._windows: dict[int, Window] = {}
        self._point = 0.0

    def resolve(self, labels: Mapping[str, int], available: Collection[int]) -> None:
        """Divide anew: a label or a version has moved."""
        self._labels, self._available = labels, available
        usable, weights = set(available) - self.rolled_back.keys(), self.traffic.weights(labels)
        self.ranges = ranges_of(weights, usable) or ranges_of(weights, available)
        self._windows = {n: each for n, each in self._windows.items() if n in usable}

    @property
    def shares(self) -> Mapping[int, float]:
        """From 0 to 1 by version; 0 for one that was rolled back."""
        lost = dict.fromkeys(self.rolled_back, 0.0)
        found = self.ranges.shares if self.ranges else {}
        return {**lost, **{version: share / WHOLE for version, share in found.items()}}

    def remark(self, version: int) -> str:
        """Say what share a version has, or why it has lost it; empty for all of the traffic."""
        share = self.shares.get(version, 1.0)
        text = "" if share in (0, 1) else f"it answers {share:.0%} of the split traffic"
        return self.rolled_back.get(version, text)

    def unfit(self, missing: Mapping[int, int], unassigned: Mapping[str, int]) -> str:
        """Say which names of the rule mean nothing, and who answers their percents; empty if none.

        Args:
            missing: percent of each version that is not there.
            unassigned: percent of each label that names no version.
        """
        versions = self._unfit(missing, "version", "not there", "upload")
        labels = self._unfit(unassigned, "label", "not assigned", "assign")
        return "; ".join(filter(None, (versions, labels)))

    def _unfit(self, found: Mapping[Any, int], kind: str, state: str, remedy: str) -> str:
        if not found:
            return ""
        is_one, names = len(found) == 1, " and ".join(map(str, found))
        plural, whose, them = ("", "its", "it") if is_one else ("s", "their", "them")
        answer = "others answer" if self.ranges else "no version answers"
        return (
            f"traffic names the {kind}{plural} {names}, which {'is' if is_one else 'are'} {state}:"
            f" {answer} {whose} {sum(found.values())} %; {remedy} {them}, or correct traffic"
        )

    def choose(self, value: str | None) -> int:
        """Choose a version; there are `ranges`. `value` is of the sticky header, if sent."""
        for version, window in [*self._windows.items()]:
            self._judge(version, window.hanging(self._clock(), time.perf_counter()))
        ranges = self.ranges
        assert ranges is not None
        if value is not None:
            return ranges.version_at(point_of(self._model, value))
        self._point = (self._point + STRIDE) % WHOLE
        return ranges.version_at(self._point)

    @contextmanager
    def watched(self, version: int, began: float) -> Iterator[None]:
        """Count a request of `version`, which loses its share once the rollback rule is broken.

        Args:
            version: number of the chosen version.
            began: `time.perf_counter()` when it was chosen.
        """
        window = self._window(version)
        if window is None:
            yield
            return
        request = window.begin(began)
        try:
            yield
        except ENDED as error:
            times = self._clock(), time.perf_counter()
            if code_of(error) is Code.CANCELLED:  # the client has left
                self._judge(version, window.leave(request, *times))
            else:
                self._judge(version, window.end(request, *times, failed=True))
            raise
        times = self._clock(), time.perf_counter()
        self._judge(version, window.end(request, *times, failed=False))

    def _window(self, version: int) -> Window | None:
        """Give the window of a version that may lose its share."""
        rule = self.traffic.rollback
        if rule is None or not self._may_lose(version):
            return None
        window = self._windows.get(version)
        if window is None:
            window = self._windows[version] = Window(rule)
        return window

    def _may_lose(self, version: int) -> bool:
        ranges = self.ranges
        # One that has lost it answers requests that began before.
        return ranges is not None and version != ranges.main and version not in self.rolled_back

    def _judge(self, version: int, seen: SeenVersion | None) -> None:
        rule, ranges = self.traffic.rollback, self.ranges
        if rule is None or ranges is None or seen is None or not self._may_lose(version):
            return
        if action := judge(rule, seen):
            self._take_share(version, ranges.main, action.cause)

    def _take_share(self, version: int, main: int, cause: str) -> None:
        self.rolled_back[version] = (
            f"its share of the traffic went to version {main}: {cause};"
            " a change of traffic gives it back"
        )
        self._rollbacks[version] += 1
        facts = {"version": version, "main": main, "cause": cause}
        log.warning(Event("version rolled back", model=self._model, **facts))
        self.resolve(self._labels, self._available)

"""A queue whose window and lanes follow from live traffic: `tuning: auto`.

`live_tuning.LiveTuner` decides; here are the clock and the requests. An interval ends with the
first request behind its shortest time that is not one of the first few: without requests nothing is
tried, and no timer runs.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

from ie_serving.core.tensors import Array
from ie_serving.engines.layers.gathering import Rules
from ie_serving.engines.layers.joining import Arrays
from ie_serving.engines.layers.live_tuning import Interval, LiveTuner, Verdict, Window
from ie_serving.telemetry.logs import Event

log = logging.getLogger(__name__)

T = TypeVar("T")

LEAST_S, LEAST_REQUESTS = 1.0, 100
"""Seconds and requests of an interval: fewer say too little of the mean."""
MOST_KEPT = 4096
"""Times of which the 99th of 100 is found; of a busier interval the first."""

Clock = Callable[[], float]


class Gathers(Protocol):
    """A queue; see `engines.layers.queue.Queue`."""

    @property
    def rules(self) -> Rules:
        """What it keeps to."""

    def change(self, rules: Rules) -> None:
        """Keep to other rules from now on."""

    async def infer(self, inputs: Mapping[str, Array], read: Callable[[Arrays], T]) -> T:
        """See `CompiledModel.infer`."""


class TunedQueue:
    """`queue`, which is told its window and lanes. Used from one event loop.

    Args of the constructor:
        queue: gathers requests.
        tuner: names the setting of each interval.
        record: is told each verdict.
        name: of the signature, for the log.
        clock: gives seconds.
    """

    def __init__(
        self,
        queue: Gathers,
        tuner: LiveTuner,
        record: Callable[[str], object],
        name: str,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._queue = queue
        self._tuner = tuner
        self._record = record
        self._name = name
        self._clock = clock
        self._began = clock()
        self._times: list[float] = []
        self._requests = 0
        self._sum_s = 0.0

    async def infer(self, inputs: Mapping[str, Array], read: Callable[[Arrays], T]) -> T:
        """See `CompiledModel.infer`. What fails says nothing of how long requests take."""
        arrived = self._clock()
        reply = await self._queue.infer(inputs, read)
        self._note(arrived, self._clock())
        return reply

    def _note(self, arrived: float, ended: float) -> None:
        # One that came before the interval was served by the setting before it.
        if arrived < self._began:
            return
        self._requests += 1
        self._sum_s += ended - arrived
        if len(self._times) < MOST_KEPT:
            self._times.append(ended - arrived)
        if ended - self._began >= LEAST_S and self._requests >= LEAST_REQUESTS:
            self._end(ended)

    def _end(self, now: float) -> None:
        times = sorted(self._times)
        interval = Interval(self._sum_s / self._requests, times[len(times) * 99 // 100])
        before, kept = self._tuner.current, self._tuner.kept
        verdict = self._tuner.ended(interval)
        if self._tuner.current != before:
            self._change(self._tuner.current)
        if verdict is not None:
            self._tell(verdict, kept, interval)
        self._began, self._requests, self._sum_s, self._times = now, 0, 0.0, []

    def _change(self, window: Window) -> None:
        rules = self._queue.rules
        self._queue.change(replace(rules, timeout_s=window.timeout_s, lanes=window.lanes))

    def _tell(self, verdict: Verdict, before: Window, interval: Interval) -> None:
        self._record(verdict.value)
        if verdict is Verdict.REFUSED:
            return
        window = self._tuner.kept
        log.info(
            Event(
                "batch window changed",
                signature=self._name,
                verdict=verdict.value,
                window_us=round(window.timeout_s * 1e6),
                lanes=window.lanes,
                before_us=round(before.timeout_s * 1e6),
                before_lanes=before.lanes,
                mean_us=round(interval.mean_s * 1e6),
            )
        )

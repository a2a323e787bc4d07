"""Requests of a tuned queue: intervals by a clock of the test, rules that change in between."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from ie_serving.core.errors import InvalidTensor
from ie_serving.engines.batching import Batching
from ie_serving.engines.layers.batching import tuned
from ie_serving.engines.layers.gathering import Rules
from ie_serving.engines.layers.live_tuning import REST, LiveTuner, Window
from ie_serving.engines.layers.queue import Queue
from ie_serving.engines.layers.tuned_queue import LEAST_REQUESTS, TunedQueue
from tests.unit.engines.layers.models import Asked, Model

CONFIGURED, OTHER = Window(0.0, 2), Window(0.002, 2)
X: Mapping[str, Any] = {"x": np.ones((1, 1), np.float32)}


class Stand:
    """A queue whose requests take some time, by its window; and its clock."""

    def __init__(self, seconds: Mapping[float, float]) -> None:
        self.rules = Rules(rows=8, lanes=2)
        self.now = 0.0
        self.verdicts: list[str] = []
        self._seconds = seconds
        tuner = LiveTuner(CONFIGURED, [OTHER])
        self.tuned = TunedQueue(self, tuner, self.verdicts.append, "s", lambda: self.now)

    def change(self, rules: Rules) -> None:
        self.rules = rules

    async def infer(self, inputs: Any, read: Callable[[Any], Any]) -> Any:
        self.now += self._seconds[self.rules.timeout_s]
        return read(inputs)

    async def ask(self, times: int) -> None:
        for _ in range(times):
            assert await self.tuned.infer(X, lambda outputs: outputs) is X


async def test_a_better_window_is_adopted_and_kept() -> None:
    stand = Stand({0.0: 0.02, 0.002: 0.01})
    await stand.ask(REST * LEAST_REQUESTS - 1)
    assert stand.rules == Rules(rows=8, lanes=2)
    await stand.ask(1)
    assert stand.rules == Rules(rows=8, lanes=2, timeout_s=0.002)
    await stand.ask(4 * LEAST_REQUESTS)
    assert stand.verdicts == ["adopted"]
    assert stand.rules.timeout_s == 0.002


async def test_a_worse_window_is_served_for_one_interval() -> None:
    stand = Stand({0.0: 0.011, 0.002: 0.022})
    await stand.ask((REST + 1) * LEAST_REQUESTS)
    assert stand.verdicts == ["refused"]
    assert stand.rules.timeout_s == 0.0


async def test_an_interval_lasts_a_second_however_many_requests_come() -> None:
    stand = Stand({0.0: 0.001, 0.002: 0.001})
    await stand.ask(9 * 1000)
    assert stand.rules.timeout_s == 0.0
    await stand.ask(1100)
    assert stand.rules.timeout_s == 0.002


async def test_what_fails_is_not_measured() -> None:
    stand = Stand({0.0: 5.0})

    def refuse(_: Any) -> Any:
        raise InvalidTensor("no")

    for _ in range(2 * REST * LEAST_REQUESTS):
        with pytest.raises(InvalidTensor):
            await stand.tuned.infer(X, refuse)
    assert stand.rules.timeout_s == 0.0


async def test_a_queue_keeps_to_changed_rules_and_loses_nobody() -> None:
    """What waits for a lane is sent when there is another one."""
    model = Model()
    model.open.clear()
    asked = Asked(model, rows=2, lanes=1, timeout_s=60.0)
    first = asked.ask(1.0)
    await model.begun.wait()
    model.begun.clear()
    second = asked.ask(2.0)
    third = asked.ask(3.0)
    asked.queue.change(Rules(rows=2, lanes=2, timeout_s=0.0))
    await model.begun.wait()
    model.open.set()
    assert [await each for each in (first, second, third)] == [[2.0], [3.0], [4.0]]


@pytest.mark.parametrize(
    ("tuning", "at_once", "kind"),
    [("off", 2, Queue), ("auto", 1, Queue), ("auto", 2, TunedQueue)],
)
def test_there_is_no_step_more_unasked_or_with_one_lane(
    tuning: str, at_once: int, kind: type
) -> None:
    asked = Asked(Model(), lanes=at_once)
    batching = Batching(max_batch_size=8, tuning=tuning)
    found = tuned(asked.queue, "s", batching, at_once, asked.record)
    assert type(found) is kind

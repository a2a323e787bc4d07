"""The schedule of listings: when, in which thread, and what cannot hold them."""

import asyncio
import logging
import random
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest
import uvloop

from ie_serving.core.runtime.threads import NamedPools
from ie_serving.core.values.errors import NotAvailable, Unreachable
from ie_serving.models.listing.schedule import MOST_THREADS, Polls
from ie_serving.models.repository.relisting import ListingTrouble
from ie_serving.models.stream_rules import LONGEST_PAUSE_S, StreamRules
from tests.unit.models.conftest import LIMIT_S
from tests.unit.models.repositories import NOTHING, Counting, Repository, schedule
from tests.unit.models.stand_ins import AtOnce, settle


async def test_the_number_of_threads_does_not_grow_with_the_number_of_repositories() -> None:
    with schedule() as polls:
        models = [Repository(f"m{number}") for number in range(1000)]
        await asyncio.gather(*(polls.once(model) for model in models))
    assert len({thread for model in models for thread in model.threads}) <= MOST_THREADS


class ShortOfThreads(AtOnce):
    """Queues what it is given, then fails the first time, as the system's executor does.

    A thread takes what is queued with the next job, or before the failure if `meanwhile`.
    """

    def __init__(self, *, meanwhile: bool) -> None:
        super().__init__(1)
        self._queued: deque[Callable[[], object]] = deque()
        self._meanwhile = meanwhile
        self._failed = False

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        self._queued.append(partial(call, *args, **named))
        failed, self._failed = self._failed, True
        if failed or self._meanwhile:
            while self._queued:
                self._queued.popleft()()
        if not failed:
            raise RuntimeError("can't start new thread")
        return Future()


@pytest.mark.parametrize("meanwhile", [False, True])
async def test_a_store_without_a_thread_is_listed_later_and_ever_after(
    monkeypatch: pytest.MonkeyPatch, *, meanwhile: bool
) -> None:
    monkeypatch.setattr("ie_serving.models.listing.schedule.NO_THREAD_S", 0.0)
    threads = ShortOfThreads(meanwhile=meanwhile)
    polls = Polls(lambda store: threads)
    model = Repository()
    for times in range(1, 4):
        await polls.once(model)
        await settle()
        assert len(model.told) == times


async def test_models_of_one_interval_are_soon_listed_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They began apart; after one interval one thread lists all of them in a row."""
    began = asyncio.get_running_loop().time()
    now = [began]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    threads = Counting()
    polls = Polls(lambda store: threads)
    models = [Repository(f"m{number}", 1.0) for number in range(10)]
    for model in models:
        polls.follow(model)
        now[0] += 0.01
    for turn in range(1, 4):
        now[0] = began + turn
        await settle()
        assert [len(model.told) for model in models] == [turn] * len(models)
        # The first begins at once, before the others have been asked for.
        assert threads.submitted == 2 * turn


@pytest.mark.parametrize("poll_wait_s", [1.0, 30.0])
def test_a_thousand_models_whose_store_was_away_do_not_come_back_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, poll_wait_s: float
) -> None:
    """All are listed within the longest pause, in turns of less than half of them."""
    caplog.set_level(logging.CRITICAL, "ie_serving")
    rules = StreamRules(labels_wait=True, poll_wait_s=poll_wait_s, drain_timeout_s=0.0)
    chance, longest_s = random.Random(0).random, max(poll_wait_s, LONGEST_PAUSE_S)

    def pause_s() -> float | None:
        trouble = ListingTrouble("m", "s3://b/m", chance=chance, clock=lambda: 0.0)
        for _ in range(5):
            trouble.failed(Unreachable("away"), rules.store_backoff(), is_new=False)
        return rules.pause_s(trouble, (), is_moving=False)

    async def test() -> None:
        began = asyncio.get_running_loop().time()
        now = [began]
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
        polls = Polls(lambda store: AtOnce(1))
        models = [Repository(f"m{number}", pause_s()) for number in range(1000)]
        for model in models:
            polls.follow(model)
            model.interval_s = None  # listed once
        turns = []
        for step in range(1, 101):
            now[0] = began + longest_s * step / 100
            await settle()
            turns.append(sum(len(model.told) for model in models) - sum(turns))
        assert sum(turns) == len(models)
        assert max(turns) < len(models) / 2

    asyncio.run(test())  # `run` counts its limit by the loop's clock


async def test_a_directory_that_hangs_holds_no_other_and_takes_a_limited_number_of_threads() -> (
    None
):
    go_on = threading.Event()
    with schedule() as polls:
        hanging = [Repository(during=lambda: go_on.wait(LIMIT_S)) for _ in range(MOST_THREADS - 1)]
        asked = [asyncio.ensure_future(polls.once(model)) for model in hanging]
        quick = [Repository(f"m{number}") for number in range(100)]
        await asyncio.gather(*(polls.once(model) for model in quick))
        assert not any(model.told for model in hanging)
        go_on.set()
        await asyncio.gather(*asked)


async def test_a_store_that_hangs_holds_no_other() -> None:
    go_on = threading.Event()
    with schedule() as polls:
        hanging = [
            Repository(store="s3://bucket", during=lambda: go_on.wait(LIMIT_S))
            for _ in range(2 * MOST_THREADS)
        ]
        asked = [asyncio.ensure_future(polls.once(model)) for model in hanging]
        await polls.once(Repository())
        go_on.set()
        await asyncio.gather(*asked)


async def test_a_caller_during_a_listing_gets_another_one_and_never_two_at_a_time() -> None:
    begun, go_on, at_once = threading.Event(), threading.Event(), threading.Lock()

    def during() -> None:
        assert at_once.acquire(blocking=False), "listed twice at a time"
        begun.set()
        go_on.wait(LIMIT_S)
        at_once.release()

    with schedule() as polls:
        model = Repository(during=during)
        first = asyncio.ensure_future(polls.once(model))
        await asyncio.to_thread(begun.wait, LIMIT_S)
        polls.follow(model)
        polls.now(model)
        second = asyncio.ensure_future(polls.once(model))
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(first, second)
        assert model.told == [NOTHING] * 2


async def test_now_lists_at_once_what_is_followed_and_nothing_else() -> None:
    with schedule() as polls:
        followed, left = Repository(), Repository()
        for model in (followed, left):
            polls.follow(model)
        polls.leave(left)
        for model in (followed, left):
            polls.now(model)
        await followed.until_told(1)
        await polls.once(Repository())
    assert not left.told


async def test_trouble_goes_to_the_model_and_to_the_waiting_caller() -> None:
    def fail() -> None:
        raise Unreachable("away")

    with schedule() as polls:
        model = Repository(during=fail)
        with pytest.raises(Unreachable):
            await polls.once(model)
        assert [type(told) for told in model.told] == [Unreachable]


async def test_a_defect_in_one_poll_is_logged_and_ends_no_polls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise RuntimeError("unforeseen")

    with schedule() as polls:
        odd, other = Repository("odd", 0.001, during=fail), Repository("other", 0.001)
        for model in (odd, other):
            polls.follow(model)
        while len(odd.threads) < 2:
            await other.until_told(len(other.told) + 1)
        for model in (odd, other):
            polls.leave(model)
    assert "poll failed model=odd" in caplog.text
    assert "unforeseen" in caplog.text


async def test_a_listing_that_a_stop_breaks_off_is_no_defect(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def stop() -> None:
        asked.set()
        raise NotAvailable("broken off, the server stops")

    asked = threading.Event()
    polls = Polls(NamedPools(1, "list").of)
    polls.follow(Repository(interval_s=0.001, during=stop))
    await asyncio.to_thread(asked.wait, LIMIT_S)
    await polls.once(Repository())
    assert "poll failed" not in caplog.text


def test_a_turn_that_is_due_already_does_not_stop_the_others() -> None:
    """On uvloop, which makes no timer for what is due: a loop that was held up for an interval."""

    async def story() -> None:
        late, other = Repository("late", interval_s=1e-9), Repository("other", interval_s=0.01)
        polls.follow(late)
        polls.follow(other)
        await asyncio.wait_for(asyncio.gather(late.until_told(3), other.until_told(3)), LIMIT_S)
        polls.leave(late)
        polls.leave(other)

    with schedule() as polls:
        uvloop.run(story())

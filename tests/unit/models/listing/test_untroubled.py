"""Quiet models, looked at in rounds: what they cost, and how one leaves its round."""

import asyncio
import threading
from collections.abc import Callable, Iterable

import pytest

from ie_serving.core.values.errors import Unreachable
from ie_serving.models.listing import polled_model
from ie_serving.models.listing.polled_model import LOOK, Look, LookEvent, LookState
from ie_serving.models.listing.schedule import MOST_THREADS, Polls
from ie_serving.models.repository.source import Listing
from tests.tables import named_by
from tests.unit.models.conftest import LIMIT_S
from tests.unit.models.repositories import NOTHING, Counting, Repository, schedule
from tests.unit.models.stand_ins import Stand, settle
from tests.unit.moves import check_moves

NEWS = Listing({}, moving=True)


class Rounds:
    """Quiet models on a schedule whose time passes, and whose threads work, when the test says so.

    Args of the constructor:
        number: how many models.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        self.callbacks = 0
        loop = asyncio.get_running_loop()
        self._now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: self._now)
        monkeypatch.setattr(loop, "call_soon_threadsafe", self._counted(loop.call_soon_threadsafe))
        self.threads = Counting()
        self.polls = Polls(lambda store: self.threads)
        self.models = [quiet(f"m{each}", 1.0) for each in range(number)]
        for model in self.models:
            self.polls.follow(model)

    def _counted(self, call: Callable[..., asyncio.Handle]) -> Callable[..., asyncio.Handle]:
        def counted(*args: object) -> asyncio.Handle:
            self.callbacks += 1
            return call(*args)

        return counted

    async def next(self) -> None:
        """Let an interval pass, and everything happen that it brings."""
        self._now += 1.0
        await settle()

    def looks(self) -> list[int]:
        """Give how often each model was listed."""
        return [len(model.threads) for model in self.models]


def quiet(name: str, interval_s: float, during: Callable[[], object] = lambda: None) -> Repository:
    model = Repository(name, interval_s, during=during)
    model.is_quiet = True
    return model


MOVES = """
           QUEUE   BEGIN      NO_NEWS    NEWS       WITHDRAW
IDLE       QUEUED  .          .          .          WITHDRAWN
QUEUED     .       BEGUN      .          .          WITHDRAWN
BEGUN      .       .          IDLE       FOUND      WITHDRAWN
FOUND      .       .          .          .          WITHDRAWN
WITHDRAWN  .       WITHDRAWN  WITHDRAWN  WITHDRAWN  .
"""


def test_every_event_in_every_state_of_a_look() -> None:
    check_moves(LOOK, LookState, LookEvent, MOVES)


async def test_a_round_of_quiet_models_is_one_job_and_no_callback_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = Rounds(monkeypatch, 1000)
    for turn in range(1, 4):
        await rounds.next()
        assert rounds.looks() == [turn] * 1000
        assert rounds.threads.submitted == turn
        assert rounds.callbacks == turn, "the end of the thread's work alone"
    assert not any(model.told or model.own_turns for model in rounds.models)


@named_by("count", ("count", "most"), [(50, 13), (81, 21), (640, 80), (1600, 100)])
async def test_a_round_that_is_spread_hands_over_a_few_models_at_a_time(
    monkeypatch: pytest.MonkeyPatch, count: int, most: int
) -> None:
    """Of ten thousand at once the event loop would announce each before it answers a request."""
    loop = asyncio.get_running_loop()
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now)
    parts: list[int] = []

    def begin(store: str, looks: Iterable[Look]) -> None:
        parts.append(len([look.make() for look in looks]))

    rounds = polled_model.Rounds(begin)
    models = [quiet(f"m{each}", 4.0) for each in range(count)]
    for model in models:
        rounds.join(model, 4.0, is_spread=True)

    async def looked_at(steps: int) -> set[int]:
        nonlocal now
        for _ in range(steps):
            now += polled_model.PART_S
            await settle()
        return {len(model.threads) for model in models}

    # Nothing is due when the round begins, which it does after one step.
    assert [await looked_at(1 + 16), await looked_at(16)] == [{1}, {2}]
    assert max(parts) == most
    rounds.withdraw(models[0])
    await looked_at(32)
    assert [model.name for model in models if len(model.threads) == 2] == ["m0"]
    late = [quiet(f"late{each}", 4.0) for each in range(count, 1600)]
    for model in late:  # while a part is planned for the others
        rounds.join(model, 4.0, is_spread=True)
    await looked_at(16 + 4)
    assert all(model.threads for model in late)


async def test_a_model_with_news_has_turns_of_its_own_until_it_is_quiet_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = Rounds(monkeypatch, 3)
    model = rounds.models[1]
    model.news = NEWS
    await rounds.next()
    assert [each.told for each in rounds.models] == [[], [NEWS], []]
    model.news, model.is_quiet = None, False
    await rounds.next()  # found not to be quiet, and listed at once in its own turn
    assert model.told == [NEWS, NOTHING]
    model.is_quiet = True
    await rounds.next()
    assert (model.told, model.own_turns) == ([NEWS, NOTHING, NOTHING], 2)
    for _ in range(2):
        await rounds.next()
    assert model.own_turns == 2
    assert rounds.looks() == [5] * 3


@pytest.mark.parametrize("error", [Unreachable("away"), RuntimeError("unforeseen")])
async def test_an_error_in_one_ends_neither_its_looks_nor_those_of_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def fail() -> None:
        raise error

    rounds = Rounds(monkeypatch, 2)
    odd = quiet("odd", 1.0, during=fail)
    rounds.polls.follow(odd)
    rounds.models.append(odd)
    for _ in range(3):
        await rounds.next()
    assert rounds.looks() == [3] * 3
    assert not any(model.told for model in rounds.models[:2])
    is_defect = isinstance(error, RuntimeError)
    assert odd.told == ([] if is_defect else [error] * 3)
    assert ("poll failed model=odd" in caplog.text) is is_defect


async def test_a_model_that_leaves_is_looked_at_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(monkeypatch, 2)
    await rounds.next()
    rounds.polls.leave(rounds.models[0])
    await rounds.next()
    assert rounds.looks() == [1, 2]


async def test_a_listing_on_request_comes_at_once_and_leaves_the_model_in_its_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = Rounds(monkeypatch, 2)
    model = rounds.models[0]
    await rounds.polls.once(model)
    rounds.polls.now(model)
    await settle()
    assert (model.own_turns, len(model.told)) == (2, 2)
    await rounds.next()
    assert (rounds.looks(), model.own_turns) == ([3, 1], 2)


async def test_a_caller_while_a_thread_looks_gets_another_listing_and_never_two_at_a_time() -> None:
    begun, go_on, at_once = threading.Event(), threading.Event(), threading.Lock()
    alone: list[bool] = []

    def during() -> None:
        alone.append(at_once.acquire(blocking=False))
        begun.set()
        go_on.wait(LIMIT_S)
        at_once.release()

    with schedule() as polls:
        model = quiet("m", 0.001, during)
        polls.follow(model)
        await asyncio.to_thread(begun.wait, LIMIT_S)
        polls.leave(model)
        polls.follow(model)
        polls.now(model)
        asked = asyncio.ensure_future(polls.once(model))
        await asyncio.sleep(0)
        assert not model.own_turns
        go_on.set()
        await asked
        assert model.own_turns
        polls.leave(model)
    assert all(alone)


async def test_models_that_hang_hold_no_other_of_their_round() -> None:
    go_on, looked_at = threading.Event(), threading.Event()
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        if len(looks) == 3:
            looked_at.set()

    with schedule() as polls:
        hanging = [
            quiet(f"h{each}", 0.001, lambda: go_on.wait(LIMIT_S))
            for each in range(MOST_THREADS - 1)
        ]
        other = quiet("other", 0.001, look)
        for model in (*hanging, other):
            polls.follow(model)
        await asyncio.to_thread(looked_at.wait, LIMIT_S)
        assert [len(model.threads) for model in hanging] == [1] * len(hanging)
        for model in (*hanging, other):
            polls.leave(model)
        go_on.set()


async def test_a_model_in_a_round_finds_changed_files_and_new_versions(stand: Stand) -> None:
    changed = asyncio.Event()
    stream = stand.stream(poll_wait_s=0.001, on_changed=changed.set)
    stand.store.versions = {1: "a"}
    await stream.start()
    await stand.poll(stream)
    await stand.end_load()
    await stand.poll(stream)
    assert stream.is_quiet
    listed = len(stand.store.listed)
    stand.store.versions = {1: "b"}
    await changed.wait()
    assert len(stand.store.listed) - listed == 1, "found by one comparison"
    stand.store.versions = {1: "b", 2: "c"}
    while 2 not in {status.version for status in stream.statuses()}:
        await stream.changed()
    stream.leave()


async def test_a_look_that_would_find_nothing_new_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = Rounds(monkeypatch, 3)
    resting = rounds.models[1]
    monkeypatch.setattr(resting, "announce", lambda after_s: False)
    await rounds.next()
    assert rounds.looks() == [1, 0, 1]
    monkeypatch.setattr(resting, "announce", lambda after_s: after_s == 1.0)
    await rounds.next()
    assert rounds.looks() == [2, 1, 2]

"""The reload and the polls that clients ask for: joined, and with a pause between two."""

import asyncio
from typing import cast

import pytest

from ie_serving.core.values.errors import ConfigError, NotFound, Unreachable
from ie_serving.models.admin.reload_requests import PollRequests, ReloadRequests
from ie_serving.models.manager import ModelManager
from ie_serving.models.served_models import ServedModel, ServedModels
from ie_serving.models.stream import ModelStream
from tests.unit.models.conftest import LIMIT_S
from tests.unit.models.stand_ins import settle


class NoModels:
    """A manager of nothing."""

    def __init__(self) -> None:
        self.served = ServedModels()

    async def settled(self) -> None:
        """There is none to wait for."""

    def streams(self) -> list[tuple[str, ModelStream]]:
        return []


async def no_poll(model: str) -> None:
    """There is none to list."""


async def test_a_fault_of_the_file_is_told_without_credentials() -> None:
    async def broken() -> bool:
        raise ConfigError(["base_path: 's3://key:hush@bucket' given; expected another"])

    reload = ReloadRequests(cast(ModelManager, NoModels()), no_poll, broken)
    with pytest.raises(ConfigError) as caught:
        await reload()
    assert str(caught.value) == (
        "Reloading config file failed. Check server logs for more info."
        " base_path: 's3://***@bucket' given; expected another"
    )


async def test_a_model_whose_directory_goes_meanwhile_is_no_failure() -> None:
    async def unchanged() -> bool:
        return False

    async def going(model: str) -> None:
        models.served.entries = {}
        raise NotFound(f"Could not find any versions of model {model}: no such model")

    models = NoModels()
    models.served.entries = {"m": cast(ServedModel, None)}
    reload = ReloadRequests(cast(ModelManager, models), going, unchanged)
    assert not await reload()


FOR_EVER_S = 3600.0


class Store:
    """Notes which model is listed, and ends each listing when the test says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.running = 0
        self.go_on = asyncio.Event()
        self.error: Exception | None = None

    async def poll(self, model: str) -> None:
        self.begun.append(model)
        self.running += 1
        assert self.running == 1
        try:
            await self.go_on.wait()
        finally:
            self.running -= 1
        if self.error:
            raise self.error


def ask(polls: PollRequests, times: int, model: str = "m") -> list["asyncio.Task[None]"]:
    return [asyncio.create_task(polls.once(model)) for _ in range(times)]


async def test_a_caller_that_asks_while_a_listing_runs_shares_the_next_one() -> None:
    """The one that runs may have begun before the upload of who asks now was complete."""
    store = Store()
    polls = PollRequests(store.poll, pause_s=0)
    first = ask(polls, 1)
    await settle()
    others = ask(polls, 100)
    await settle()
    assert store.begun == ["m"]
    store.go_on.set()
    await asyncio.wait_for(asyncio.gather(*first, *others), LIMIT_S)
    assert store.begun == ["m", "m"]


async def test_after_a_listing_a_model_is_not_listed_for_a_while() -> None:
    store = Store()
    store.go_on.set()
    polls = PollRequests(store.poll, pause_s=FOR_EVER_S)
    await asyncio.wait_for(polls.once("m"), LIMIT_S)
    waiting = ask(polls, 3)
    await settle()
    assert store.begun == ["m"]
    assert not any(task.done() for task in waiting)
    await asyncio.wait_for(polls.once("other"), LIMIT_S)
    assert store.begun == ["m", "other"]


async def test_a_waiting_client_is_told_the_fault_and_the_next_one_tries_again() -> None:
    store = Store()
    store.error = Unreachable("s3: no answer")
    polls = PollRequests(store.poll, pause_s=0)
    asked = ask(polls, 2)
    await settle()
    store.go_on.set()
    for task in asked:
        with pytest.raises(Unreachable, match="no answer"):
            await asyncio.wait_for(task, LIMIT_S)
    store.error = None
    await asyncio.wait_for(polls.once("m"), LIMIT_S)


async def test_a_caller_that_leaves_does_not_end_the_listing_of_the_others() -> None:
    store = Store()
    polls = PollRequests(store.poll, pause_s=0)
    first, *_ = ask(polls, 1)
    await settle()
    leaves, stays = ask(polls, 2)
    await settle()
    first.cancel()
    leaves.cancel()
    store.go_on.set()
    await asyncio.wait_for(stays, LIMIT_S)
    assert first.cancelled() and leaves.cancelled()
    assert store.begun == ["m", "m"]


async def test_a_model_that_does_not_exist_costs_no_pause() -> None:
    store = Store()
    store.error = NotFound("no such model")
    store.go_on.set()
    polls = PollRequests(store.poll, pause_s=FOR_EVER_S)
    for _ in range(2):
        with pytest.raises(NotFound):
            await asyncio.wait_for(polls.once("m"), LIMIT_S)


async def test_the_end_of_the_process_leaves_no_request_waiting() -> None:
    store = Store()
    polls = PollRequests(store.poll, pause_s=0)
    running = ask(polls, 1)
    await settle()
    waiting = ask(polls, 2)
    await settle()
    polls.close()
    ended = await asyncio.wait_for(
        asyncio.gather(*running, *waiting, return_exceptions=True), LIMIT_S
    )
    assert [type(each) for each in ended] == [asyncio.CancelledError] * 3
    assert store.begun == ["m"]


async def test_a_listing_that_is_cancelled_blocks_no_later_one() -> None:
    store = Store()
    polls = PollRequests(store.poll, pause_s=0)
    (first,) = ask(polls, 1)
    await settle()
    for task in polls.tasks:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(first, LIMIT_S)
    store.go_on.set()
    await asyncio.wait_for(polls.once("m"), LIMIT_S)
    assert store.begun == ["m", "m"]

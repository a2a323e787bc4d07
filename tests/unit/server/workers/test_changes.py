"""What a change of the configuration promises where a worker dies, hangs or refuses, and when."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import pytest

from ie_serving.core.runtime.handover import Handover
from ie_serving.core.values.errors import LoadFailed, NotAvailable
from ie_serving.server.workers.changes import Agreed, ChangeKind, ConfigChanges
from ie_serving.server.workers.crew import Crew, Ledger
from ie_serving.server.workers.member import Member, WorkerSilent

PATIENCE_S = 10.0
BOTH = pytest.mark.parametrize("how", [ChangeKind.BY_MODEL, ChangeKind.ALL_OR_NOTHING])
WORKERS = 3


class Worker:
    """A worker with its models.

    Attributes:
        had: the models that were served, the last ones at present.
        prepares: blocks preparations while it is not set.
        commits: blocks what follows the commit of the leader while it is not set.
        refusal: why nothing can be prepared.
        prepared: how many changes this worker has prepared.
    """

    def __init__(self, crew: Crew, slot: int) -> None:
        self.member = Member(crew, slot)
        self.ledger = Ledger(crew, slot, is_first=False)
        self.had = [self.ledger.read().decode()]
        self.changes = ConfigChanges(self.member, self.ledger, self._apply, self._newest)
        self.prepares, self.commits = asyncio.Event(), asyncio.Event()
        self.prepares.set()
        self.commits.set()
        self.refusal: Exception | None = None
        self.prepared = self.tries = 0

    @property
    def served(self) -> str:
        return self.had[-1]

    async def open(self) -> None:
        self.member.begin(dict)
        await self.changes.begin()

    async def change(self, how: ChangeKind, served: str) -> None:
        await asyncio.wait_for(self.changes.change(how, lambda: served), PATIENCE_S)

    async def serves(self, served: str) -> bool:
        await self.member.until(lambda: self.served == served, PATIENCE_S)
        return True

    async def tried(self) -> None:
        """Wait for the next try to prepare a change."""
        before = self.tries
        await self.member.until(lambda: self.tries > before, PATIENCE_S)

    def _newest(self) -> str:
        return self.ledger.newest_copy().decode()

    async def _apply(self, how: ChangeKind, wanted: str, agreed: Agreed) -> None:
        self.tries += 1
        await self.prepares.wait()
        if self.refusal:
            raise self.refusal
        self.prepared += 1
        await agreed()
        self.had.append(wanted)
        self.ledger.write(self.served.encode())
        await self.commits.wait()


@pytest.fixture
def crew(monkeypatch: pytest.MonkeyPatch) -> Crew:
    monkeypatch.setattr("ie_serving.server.workers.member.BEAT_S", 0.01)
    return Crew(WORKERS, Handover)


@pytest.fixture
async def workers(crew: Crew) -> AsyncIterator[list[Worker]]:
    found = [Worker(crew, slot) for slot in range(WORKERS)]
    for each in found:
        await each.open()
    for each in found:
        await each.member.until(lambda each=each: len(each.member.open) == 2, PATIENCE_S)  # type: ignore[misc]
    yield found
    for each in found:
        with suppress(Exception):  # those that a test has ended
            each.member.end()


def served(workers: Sequence[Worker]) -> list[str]:
    return [each.served for each in workers]


def stop(worker: Worker) -> None:
    """Have it show no sign of life, nor hear one."""
    worker.member.end()


def die(worker: Worker, crew: Crew) -> None:
    worker.member.end()
    worker.member.crew = worker.ledger.crew = Crew(WORKERS, Handover)  # it reaches none any more
    crew.left(worker.member.slot)


async def until(worker: Worker, prepared: int = 1) -> None:
    await worker.member.until(lambda: worker.prepared == prepared, PATIENCE_S)


@BOTH
async def test_a_change_that_is_answered_holds_in_all_workers(
    workers: list[Worker], how: ChangeKind
) -> None:
    for leader, name in zip(workers, "abc", strict=True):
        await leader.change(how, name)
        assert served(workers) == [name] * WORKERS


@pytest.mark.parametrize("refusing", [0, 2], ids=["the leader", "another"])
async def test_a_change_that_one_worker_cannot_prepare_no_worker_has(
    workers: list[Worker], refusing: int
) -> None:
    workers[refusing].refusal = LoadFailed("no memory")
    with pytest.raises(LoadFailed, match="no memory"):
        await workers[0].change(ChangeKind.ALL_OR_NOTHING, "a")
    assert served(workers) == ["", "", ""]
    workers[refusing].refusal = None
    await workers[1].change(ChangeKind.ALL_OR_NOTHING, "b")
    assert served(workers) == ["b", "b", "b"]


async def test_no_worker_has_what_not_all_have_prepared(workers: list[Worker]) -> None:
    workers[2].prepares.clear()
    change = asyncio.ensure_future(workers[0].change(ChangeKind.ALL_OR_NOTHING, "a"))
    await until(workers[0])
    await until(workers[1])
    assert served(workers) == ["", "", ""]
    workers[2].prepares.set()
    await change
    assert served(workers) == ["a", "a", "a"]


async def test_a_change_that_the_client_gives_up_is_undone(workers: list[Worker]) -> None:
    workers[2].prepares.clear()
    change = asyncio.ensure_future(workers[0].change(ChangeKind.ALL_OR_NOTHING, "a"))
    await until(workers[1])
    change.cancel()
    await asyncio.gather(change, return_exceptions=True)
    workers[2].prepares.set()
    await workers[1].change(ChangeKind.ALL_OR_NOTHING, "b")
    assert served(workers) == ["b", "b", "b"]


async def test_a_worker_that_is_late_has_nothing_that_was_given_up(workers: list[Worker]) -> None:
    """Also where the next change, which needs no preparation, is made meanwhile without it."""
    leader, other, late = workers
    late.prepares.clear()
    change = asyncio.ensure_future(leader.change(ChangeKind.ALL_OR_NOTHING, "a"))
    await until(other)
    change.cancel()
    await asyncio.gather(change, return_exceptions=True)
    change = asyncio.ensure_future(leader.change(ChangeKind.BY_MODEL, "b"))
    assert await other.serves("b")
    late.prepares.set()
    await change
    assert [each.had for each in workers] == [["", "b"]] * WORKERS


async def test_a_leader_that_dies_before_the_commit_leaves_nothing(
    workers: list[Worker], crew: Crew
) -> None:
    dying, *others = workers
    others[1].prepares.clear()
    change = asyncio.ensure_future(dying.change(ChangeKind.ALL_OR_NOTHING, "a"))
    await until(others[0])
    die(dying, crew)
    await others[0].member.until(lambda: others[0].member.own.answer.error, PATIENCE_S)
    change.cancel()
    others[1].prepares.set()
    await others[0].change(ChangeKind.ALL_OR_NOTHING, "b")
    assert served(others) == ["b", "b"]


@BOTH
async def test_a_leader_that_dies_after_its_commit_has_changed_all(
    workers: list[Worker], crew: Crew, how: ChangeKind
) -> None:
    dying, *others = workers
    dying.commits.clear()
    change = asyncio.ensure_future(dying.change(how, "a"))
    assert await dying.serves("a")
    die(dying, crew)
    assert await others[0].serves("a") and await others[1].serves("a")
    change.cancel()
    replacement = Worker(crew, 0)
    assert replacement.served == "a"


async def test_a_leader_that_hangs_holds_up_none_and_is_named(workers: list[Worker]) -> None:
    hanging, *others = workers
    hanging.prepares.clear()
    change = asyncio.ensure_future(hanging.change(ChangeKind.ALL_OR_NOTHING, "a"))
    await until(others[0])
    stop(hanging)
    await others[0].member.until(lambda: others[0].member.own.answer.error, PATIENCE_S)
    assert served(workers) == ["", "", ""]
    await until(others[1])
    with pytest.raises(WorkerSilent, match="has shown no sign of life"):
        await others[0].change(ChangeKind.ALL_OR_NOTHING, "b")
    hanging.prepares.set()
    hanging.member.begin(dict)  # it goes on, and learns that the others did not wait
    with pytest.raises(NotAvailable, match="did not go on"):
        await change
    assert served(workers) == ["", "", ""]


async def test_a_worker_that_hangs_is_left_out_where_nothing_is_prepared(
    workers: list[Worker],
) -> None:
    """It catches up when it goes on. What has to be prepared is refused."""
    *others, hanging = workers
    stop(hanging)
    slot, member = hanging.member.slot, others[0].member
    await member.until(lambda: member.is_silent(slot), PATIENCE_S)
    with pytest.raises(WorkerSilent):
        await others[0].change(ChangeKind.ALL_OR_NOTHING, "a")
    await others[0].change(ChangeKind.BY_MODEL, "b")
    assert served(workers) == ["b", "b", ""]
    hanging.member.begin(dict)
    assert await hanging.serves("b")


async def test_a_worker_that_has_missed_a_change_catches_up_before_it_leads_the_next(
    workers: list[Worker],
) -> None:
    """Labels, for example, are set in the configuration that all have."""
    *others, hanging = workers
    stop(hanging)
    slot, member = hanging.member.slot, others[0].member
    await member.until(lambda: member.is_silent(slot), PATIENCE_S)
    await others[0].change(ChangeKind.BY_MODEL, "a")
    hanging.member.begin(dict)
    await member.until(lambda: not member.is_silent(slot), PATIENCE_S)
    edit = hanging.changes.change(ChangeKind.LABELS, lambda: f"{hanging.served} b")
    await asyncio.wait_for(edit, PATIENCE_S)
    assert served(workers) == ["a b", "a b", "a b"]


async def test_a_worker_that_dies_is_not_waited_for(workers: list[Worker], crew: Crew) -> None:
    *others, dying = workers
    dying.prepares.clear()
    change = asyncio.ensure_future(others[0].change(ChangeKind.ALL_OR_NOTHING, "a"))
    await until(others[1])
    die(dying, crew)
    await change
    assert served(others) == ["a", "a"]


async def test_a_replacement_that_opens_meanwhile_takes_part(
    workers: list[Worker], crew: Crew
) -> None:
    *others, dying = workers
    die(dying, crew)
    others[1].prepares.clear()
    change = asyncio.ensure_future(others[0].change(ChangeKind.ALL_OR_NOTHING, "a"))
    await until(others[0])
    replacement = Worker(crew, 2)
    await replacement.open()
    await until(replacement)
    others[1].prepares.set()
    await change
    assert served([*others, replacement]) == ["a", "a", "a"]
    replacement.member.end()


async def test_a_worker_that_could_not_follow_tries_again(workers: list[Worker]) -> None:
    workers[2].refusal = LoadFailed("no memory")
    await workers[0].change(ChangeKind.BY_MODEL, "a")
    assert served(workers) == ["a", "a", ""]
    workers[2].refusal = None
    assert await workers[2].serves("a")


async def test_a_defect_while_a_worker_catches_up_is_logged_once_and_tried_again(
    workers: list[Worker], caplog: pytest.LogCaptureFixture
) -> None:
    stop(workers[2])
    workers[2].refusal = ZeroDivisionError("defect")
    await workers[0].change(ChangeKind.BY_MODEL, "a")
    workers[2].member.begin(dict)
    for _ in range(3):
        await workers[2].tried()
    lines = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [line.getMessage() for line in lines] == ["configuration not applied cause=defect"]
    assert lines[0].exc_info
    workers[2].refusal = None
    assert await workers[2].serves("a")


async def test_a_worker_that_ends_leaves_no_change_behind(workers: list[Worker]) -> None:
    workers[2].prepares.clear()
    change = asyncio.ensure_future(workers[0].change(ChangeKind.ALL_OR_NOTHING, "a"))
    await until(workers[1])
    (following,) = workers[2].changes.tasks
    stop(workers[2])
    workers[2].changes.close()
    await asyncio.wait([following], timeout=PATIENCE_S)
    assert following.cancelled()
    change.cancel()

"""What workers share, over real sockets and files: mailboxes, boards, questions, ledger, lock."""

import asyncio
import errno
import fcntl
import os
import pickle
import signal
import socket
from collections.abc import AsyncIterator

import pytest

from ie_serving.core.runtime.handover import Handover
from ie_serving.core.values.errors import ConfigError, LoadFailed, NotAvailable, ServingError
from ie_serving.core.values.versions import State, VersionStatus
from ie_serving.server.workers.changes import ConfigLock
from ie_serving.server.workers.crew import LOOK, NOT_ACCEPTING, AnsweringVersions, Crew, Ledger
from ie_serving.server.workers.member import Board, Member, WorkerPhase, WorkerSilent
from ie_serving.server.workers.questions import Questions, WorkerGone
from ie_serving.server.workers.spread import Spread

PATIENCE_S = 10.0


@pytest.fixture
def crew() -> Crew:
    return Crew(3, Handover)


def test_a_message_comes_with_its_descriptor(crew: Crew) -> None:
    here, there = socket.socketpair()
    assert crew.mailboxes.send(1, b"port 7", there.fileno())
    there.close()
    assert crew.mailboxes.receive(0) is None
    message = crew.mailboxes.receive(1)
    assert message is not None and message.words == b"port 7" and message.descriptor is not None
    with socket.socket(fileno=message.descriptor) as end:
        end.sendall(b"hello")
        assert here.recv(5) == b"hello"
    here.close()


def test_a_full_mailbox_refuses_and_does_not_wait(crew: Crew) -> None:
    sent = 0
    while crew.mailboxes.send(0, LOOK):
        sent += 1
    assert sent == len([*crew.mailboxes.unread(0)])


def test_messages_that_a_dead_worker_has_not_read_are_closed(crew: Crew) -> None:
    """A client at the other end hears of it, where no other worker takes connections."""
    here, there = socket.socketpair()
    crew.boards[1].write(b"something")
    crew.connections[1] = 4
    crew.given[0 * 3 + 1] += 1
    crew.mailboxes.send(1, b"port 7", there.fileno())
    there.close()
    crew.left(1)
    assert here.recv(1) == b""
    assert crew.boards[1].read() == b""
    assert crew.connections[1] == NOT_ACCEPTING
    assert crew.given_to(1) == crew.taken[1]
    assert crew.mailboxes.receive(0) == crew.mailboxes.receive(2) == (LOOK, None)
    here.close()


def test_a_connection_on_its_way_to_a_worker_that_dies_goes_to_another(crew: Crew) -> None:
    """To the one with the fewest, counting what is on its way there."""
    here, there = socket.socketpair()
    crew.connections[0], crew.connections[1], crew.connections[2] = 3, 1, 2
    crew.given[0 * 3 + 1] += 1
    crew.given[0 * 3 + 2] += 2
    crew.mailboxes.send(1, b"port 7", there.fileno())
    there.close()
    crew.left(1)
    message = crew.mailboxes.receive(0)
    assert message is not None and message.words == b"port 7" and message.descriptor is not None
    with socket.socket(fileno=message.descriptor) as end:
        end.sendall(b"hello")
        assert here.recv(5) == b"hello"
    assert (crew.load(0), crew.load(2)) == (4, 4), "until they are received"
    assert crew.given_to(1) == crew.taken[1]
    assert crew.mailboxes.receive(2) == (LOOK, None)
    here.close()


def test_where_the_mailbox_of_one_is_full_the_next_gets_the_connection(crew: Crew) -> None:
    here, there = socket.socketpair()
    crew.connections[0], crew.connections[2] = 1, 5
    while crew.mailboxes.send(0, LOOK):
        pass
    crew.mailboxes.send(1, b"port 7", there.fileno())
    there.close()
    crew.left(1)
    message = crew.mailboxes.receive(2)
    assert message is not None and message.words == b"port 7" and message.descriptor is not None
    os.close(message.descriptor)
    assert here.recv(1) == b""
    here.close()


def test_a_slot_that_is_free_is_taken_again(crew: Crew) -> None:
    assert crew.free_slot({0, 2}) == 1


def test_a_replacement_begins_with_the_newest_configuration(crew: Crew) -> None:
    first, second = (Ledger(crew, slot, is_first=True) for slot in (0, 1))
    first.write(b"at the start")
    second.number = 1
    second.write(b"by rpc")
    assert first.is_behind and not second.is_behind
    replacement = Ledger(crew, 0, is_first=False)
    assert replacement.read() == b"by rpc"
    assert replacement.number == 1 and not replacement.is_behind


def test_a_first_worker_begins_with_nothing_although_others_have_begun(crew: Crew) -> None:
    Ledger(crew, 0, is_first=True).write(b"of the other")
    assert Ledger(crew, 1, is_first=True).read() == b""


def test_of_equally_new_ones_a_replacement_takes_its_own(crew: Crew) -> None:
    for slot in range(3):
        Ledger(crew, slot, is_first=True).write(b"of %d" % slot)
    assert Ledger(crew, 2, is_first=False).read() == b"of 2"


def test_a_copy_that_cannot_be_written_does_not_pass_for_the_newest(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number counts all the same: the others commit as well."""
    first, second = (Ledger(crew, slot, is_first=True) for slot in (0, 1))
    first.write(b"before")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", _no_memory)
        first.number = 1
        with pytest.raises(OSError, match="memory"):
            first.write(b"after")
    assert second.has(1)
    second.number = 1
    second.write(b"after")
    assert Ledger(crew, 0, is_first=False).read() == b"after"


def _no_memory(*_: object) -> int:
    raise OSError(errno.ENOMEM, "no memory")


def test_versions_that_answered_are_known_from_others(crew: Crew) -> None:
    AnsweringVersions(crew, 0).write(b"{}")
    assert AnsweringVersions(crew, 2).read() == b"{}"


@pytest.fixture
async def members(crew: Crew) -> AsyncIterator[list[Member]]:
    found = [Member(crew, slot) for slot in range(2)]
    for member in found:
        member.begin(lambda: {"m": [VersionStatus(1, State.AVAILABLE, "")]})
    yield found
    for member in found:
        member.end()


async def test_a_board_is_seen_by_others(members: list[Member]) -> None:
    first, second = members
    assert not first.open
    second.show(phase=WorkerPhase.OPEN)
    await first.until(lambda: 1 in first.open, PATIENCE_S)
    assert first.open[1].pid == os.getpid()
    assert first.open[1].statuses == {"m": [VersionStatus(1, State.AVAILABLE, "")]}


async def test_a_board_that_is_read_while_it_is_written_is_read_again(
    members: list[Member], crew: Crew
) -> None:
    """Else a worker could show a state longer than another one that has read it a moment later."""
    reader, _ = members
    crew.shown[1] += 1
    reader.read_boards()
    crew.boards[1].write(pickle.dumps(Board(pid=7)))
    reader.read_boards()
    assert reader.boards[1].pid == 7
    crew.shown[1] += 1


async def test_a_change_is_shown_at_once_where_a_status_tells_it(
    members: list[Member],
) -> None:
    first, second = members
    first.changed()
    before = second.crew.shown[0]
    first.show_changes()
    assert second.crew.shown[0] == before + 2
    first.show_changes()
    assert second.crew.shown[0] == before + 2, "nothing has changed"


async def test_the_lowest_slot_that_takes_requests_is_the_first(members: list[Member]) -> None:
    first, second = members
    assert second.is_first
    first.show(phase=WorkerPhase.OPEN)
    await second.until(lambda: 0 in second.open, PATIENCE_S)
    assert first.is_first and not second.is_first


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (LoadFailed("no memory"), LoadFailed("no memory")),
        (ConfigError(["one", "two"]), ConfigError(["one", "two"])),
        (ValueError("odd"), ServingError("ValueError: odd")),
    ],
)
async def test_an_error_is_told_to_the_asking_worker(
    members: list[Member], raised: Exception, told: ServingError
) -> None:
    async def fail() -> None:
        raise raised

    asking, asked = map(Questions, members)
    asked.answer("fail", fail)
    with pytest.raises(type(told)) as caught:
        await asking.ask(1, "fail", limit_s=PATIENCE_S)
    assert type(caught.value) is type(told)
    assert str(caught.value) == str(told)


async def test_a_large_answer_comes_whole(members: list[Member]) -> None:
    async def doubled(text: str) -> str:
        return 2 * text

    asking, asked = map(Questions, members)
    asked.answer("double", doubled)
    assert await asking.ask(1, "double", "a" * 5_000_000, limit_s=PATIENCE_S) == "a" * 10_000_000


async def test_a_caller_of_a_worker_that_dies_waits_no_longer(
    members: list[Member], crew: Crew
) -> None:
    """Also where that has not read the question."""
    asked = asyncio.ensure_future(Questions(members[0]).ask(2, "anything", limit_s=PATIENCE_S))
    await asyncio.sleep(0)  # it begins
    await asyncio.sleep(0)  # so does its exchange
    crew.left(2)
    with pytest.raises(WorkerGone, match="ended: ask again"):
        await asked


async def test_a_worker_without_a_sign_of_life_is_not_waited_for(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the configuration file wait for it; until it shows one."""
    monkeypatch.setattr("ie_serving.server.workers.member.BEAT_S", 0.01)
    asking = Member(crew, 1)
    asking.begin(dict)
    crew.boards[0].write(pickle.dumps(Board(pid=7, phase=WorkerPhase.OPEN)))
    crew.shown[0] += 2
    await asking.until(lambda: 0 in asking.open, PATIENCE_S)
    assert not asking.is_first
    questions = Questions(asking)
    for _ in range(2):  # while it waits for the answer, and before it asks
        with pytest.raises(WorkerSilent, match=r"7 has shown no sign of life .*\(kill -CONT 7\)"):
            await questions.ask(0, "anything", limit_s=PATIENCE_S)

    async def answer() -> int:
        return 3

    questions.answer("anything", answer)
    with pytest.raises(WorkerSilent):
        await questions.ask_all("anything", limit_s=PATIENCE_S)
    assert await questions.ask_all("anything", limit_s=PATIENCE_S, of_silent=False) == [3]
    assert asking.is_first
    crew.beats[0] += 1
    assert not asking.is_silent(0)
    asking.end()


async def test_a_question_that_is_given_up_leaves_no_socket(members: list[Member]) -> None:
    before = set(os.listdir("/proc/self/fd"))
    for turns in range(6):
        asked = asyncio.ensure_future(Questions(members[0]).ask(2, "anything", limit_s=PATIENCE_S))
        for _ in range(turns):
            await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    for _, descriptor in members[0].crew.mailboxes.unread(2):
        if descriptor is not None:
            os.close(descriptor)
    async with asyncio.timeout(PATIENCE_S):
        while set(os.listdir("/proc/self/fd")) != before:
            await asyncio.sleep(0)


async def test_a_connection_that_was_lost_on_its_way_is_counted(
    members: list[Member], crew: Crew
) -> None:
    """The system drops a descriptor where its receiver has too many files open."""
    spread = Spread(members[0], lambda: 0)
    crew.given[1 * 3 + 0] += 1
    crew.mailboxes.send(0, b"port 7")
    await asyncio.wait_for(spread.arrived(), PATIENCE_S)
    assert crew.given_to(0) == crew.taken[0]


async def test_a_connection_that_the_kernel_has_queued_is_taken_at_the_stop(
    members: list[Member],
) -> None:
    spread, made = Spread(members[0], lambda: 0), asyncio.Event()

    class Line(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.set()
            transport.close()

    with socket.create_server(("127.0.0.1", 0)) as bound:
        bound.setblocking(False)
        spread.listen(bound, Line)
        client = socket.create_connection(bound.getsockname(), PATIENCE_S)
        spread.stop(bound)
    with client:
        await asyncio.wait_for(spread.arrived(), PATIENCE_S)
        assert made.is_set()
        assert await asyncio.to_thread(client.recv, 1) == b""


async def test_one_process_has_the_lock_at_a_time(crew: Crew) -> None:
    async with ConfigLock(crew.lock, lambda: None).held():
        assert not _may_take(crew.lock)
    assert _may_take(crew.lock)


async def test_a_worker_that_waits_for_the_lock_asks_whether_its_holder_is_silent(
    crew: Crew,
) -> None:
    """And has the lock as soon as its holder has died."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        fcntl.lockf(crew.lock, fcntl.LOCK_EX)
        os.write(write, b"!")
        signal.pause()  # until it is killed
    assert os.read(read, 1) == b"!"

    def check() -> None:
        raise NotAvailable("it is stopped")

    with pytest.raises(NotAvailable, match="it is stopped"):
        async with ConfigLock(crew.lock, check).held():
            pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    async with ConfigLock(crew.lock, check).held():
        pass
    os.close(read)
    os.close(write)


def _may_take(file: int) -> bool:
    """Tell whether another process could have it: locks belong to processes."""
    child = os.fork()
    if child == 0:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0

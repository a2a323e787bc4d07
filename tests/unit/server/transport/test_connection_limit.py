"""At the limit those that are idle longest give way; a probe of health is let in all the same."""

import asyncio
import logging

import pytest

from ie_serving.server.transport import connection_limit
from ie_serving.server.transport.connection_limit import (
    ENDING_S,
    EVICTED_PART,
    EXTRA,
    QUIET_S,
    ConnectionLimit,
    limit_of,
)

PATIENCE_S = 20.0


class Line:
    """A connection that says what was done to it.

    Args of the constructor:
        limit: what knows it.
        idle_since: seconds by the clock of the limit.
        drains: whether it takes time to end, as a gRPC connection does until its client answers.
        client: its address.
    """

    def __init__(
        self,
        limit: ConnectionLimit,
        idle_since: float | None,
        drains: bool = False,
        client: str | None = None,
    ) -> None:
        self.client = client
        self.limit = limit
        self.since = idle_since
        self.drains = drains
        self.ended = asyncio.Event()
        self.how = ""

    def idle_since(self) -> float | None:
        return None if self.how else self.since

    def address(self) -> str | None:
        return self.client

    def end_idle(self) -> None:
        self.how = "ended"
        if not self.drains:
            self.leave()

    def abort(self) -> None:
        self.how = "aborted"
        self.leave()

    def leave(self) -> None:
        self.ended.set()
        self.limit.closed(self)


def opened(
    limit: ConnectionLimit,
    *idle_since: float | None,
    drains: bool = False,
    client: str | None = None,
) -> list[Line]:
    lines = [Line(limit, since, drains, client) for since in idle_since]
    for line in lines:
        limit.opened(line)
    return lines


async def test_the_one_that_is_idle_longest_gives_way() -> None:
    limit = ConnectionLimit(3)
    lines = opened(limit, 5.0, 3.0, None, 9.0)
    assert [line.how for line in lines] == ["", "ended", "", ""]
    assert [line.how for line in (*lines, *opened(limit, 10.0))] == ["ended", "ended", "", "", ""]


async def test_of_many_several_give_way_at_once() -> None:
    """To look for idle ones at every new connection would be work for a client that opens many."""
    most = 4 * EVICTED_PART
    limit = ConnectionLimit(most)
    lines = opened(limit, *map(float, range(most + 1)))
    assert [line.how for line in lines] == ["ended"] * 4 + [""] * (most - 3)


async def test_connections_that_drain_have_given_way() -> None:
    """As many as are new have to go, in sixteenths; no others while these end."""
    most = 10 * EVICTED_PART
    limit = ConnectionLimit(most)
    old = opened(limit, *[1.0] * most, drains=True)
    new = opened(limit, *[2.0] * EVICTED_PART)
    assert [line.how for line in old].count("ended") == 2 * 10
    assert {line.how for line in new} == {""}


async def test_a_connection_that_never_leaves_counts_again() -> None:
    """Its client has begun a long call, so that its file descriptor is not free."""
    now = 0.0
    limit = ConnectionLimit(2, lambda: now)
    first, second, _ = opened(limit, 1.0, 2.0, 3.0, drains=True)
    assert (first.how, second.how) == ("ended", "")
    now = ENDING_S + 1
    opened(limit, 4.0)
    assert second.how == "ended"


async def test_descriptors_of_those_that_drain_are_not_given_away() -> None:
    limit = ConnectionLimit(2 * EXTRA * EVICTED_PART)
    opened(limit, *[1.0] * 2 * EXTRA * EVICTED_PART, drains=True)
    *let_in, refused = opened(limit, *[2.0] * (EXTRA + 1))
    assert {line.how for line in let_in} == {""}
    assert refused.how == "aborted"


async def test_where_none_is_idle_a_new_one_stays_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_limit, "EXTRA_S", 0.01)
    limit = ConnectionLimit(2)
    *busy, over, other = opened(limit, None, None, None, None)
    other.leave()  # a probe has got its answer
    assert over.how == ""
    await asyncio.wait_for(over.ended.wait(), PATIENCE_S)
    assert over.how == "aborted"
    assert [line.how for line in (*busy, other)] == ["", "", ""]


async def test_of_those_over_the_limit_as_many_stay_as_there_is_room_for_by_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_limit, "EXTRA_S", 0.01)
    limit = ConnectionLimit(2)
    left, _, first, second = opened(limit, None, None, None, None)
    left.leave()
    looked = asyncio.Event()
    asyncio.get_running_loop().call_later(connection_limit.EXTRA_S, looked.set)
    await asyncio.wait_for(looked.wait(), PATIENCE_S)
    assert [first.how, second.how] == ["aborted", ""]


async def test_one_over_the_limit_stays_if_another_is_idle_by_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_limit, "EXTRA_S", 0.01)
    limit = ConnectionLimit(1)
    old, over = opened(limit, None, None)
    old.since = 1.0
    await asyncio.wait_for(old.ended.wait(), PATIENCE_S)
    assert [old.how, over.how] == ["ended", ""]


async def test_beyond_the_extra_ones_nothing_is_accepted() -> None:
    limit = ConnectionLimit(1)
    *let_in, refused = opened(limit, *[None] * (EXTRA + 2))
    assert {line.how for line in let_in} == {""}
    assert refused.how == "aborted"


async def test_the_log_says_why_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    now = 0.0
    limit = ConnectionLimit(1, lambda: now)
    opened(limit, *map(float, range(10)))
    now = QUIET_S
    opened(limit, 11.0)
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    assert "connection limit reached limit=1 closed_idle=1 refused=0" in texts[0]
    assert "closed_idle=9" in texts[1]


async def test_of_one_address_its_own_give_way(caplog: pytest.LogCaptureFixture) -> None:
    limit = limit_of(100, 2)
    others = opened(limit, 1.0, 1.0, client="::1")
    lines = opened(limit, 5.0, 3.0, None, None, client="192.0.2.1")
    assert [line.how for line in lines] == ["ended", "ended", "", ""]
    (refused,) = opened(limit, 4.0, client="192.0.2.1")
    assert refused.how == "aborted"
    assert not any(line.how for line in (*others, *lines[2:]))
    assert [line for line in caplog.messages if "address=192.0.2.1 limit=2" in line]
    assert len(caplog.messages) == 1
    lines[2].leave()
    assert not opened(limit, None, client="192.0.2.1")[0].how
    for line in (*others, *lines):
        line.leave()


async def test_unix_sockets_have_no_address() -> None:
    assert not any(line.how for line in opened(limit_of(100, 1), 1.0, 2.0, 3.0))


async def test_one_that_ends_by_and_by_has_given_way() -> None:
    lines = opened(limit_of(100, 1), 0.0, 1.0, 2.0, drains=True, client="192.0.2.1")
    assert [line.how for line in lines] == ["ended", "ended", ""]


def test_without_a_limit_addresses_are_not_counted() -> None:
    assert type(limit_of(100, 0)) is ConnectionLimit

"""At the limit those that are idle longest give way; a probe of health is let in all the same."""

import asyncio
import logging

import pytest

from ie_serving.server.transport import connection_limit
from ie_serving.server.transport.connection_limit import GUESTS, QUIET_S, ROUND, ConnectionLimit

PATIENCE_S = 20.0


class Line:
    """A connection that says what was done to it."""

    def __init__(self, limit: ConnectionLimit, idle_since: float | None) -> None:
        self.limit = limit
        self.since = idle_since
        self.ended = asyncio.Event()
        self.how = ""

    def idle_since(self) -> float | None:
        return self.since

    def end_idle(self) -> None:
        self._end("ended")

    def abort(self) -> None:
        self._end("aborted")

    def _end(self, how: str) -> None:
        self.how = how
        self.ended.set()
        self.limit.closed(self)


def opened(limit: ConnectionLimit, *idle_since: float | None) -> list[Line]:
    lines = [Line(limit, since) for since in idle_since]
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
    most = 4 * ROUND
    limit = ConnectionLimit(most)
    lines = opened(limit, *map(float, range(most + 1)))
    assert [line.how for line in lines] == ["ended"] * 4 + [""] * (most - 3)


async def test_where_none_is_idle_a_new_one_stays_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_limit, "GUEST_S", 0.01)
    limit = ConnectionLimit(2)
    *busy, guest, other = opened(limit, None, None, None, None)
    limit.closed(other)  # a probe has got its answer and left
    assert guest.how == ""
    await asyncio.wait_for(guest.ended.wait(), PATIENCE_S)
    assert guest.how == "aborted"
    assert [line.how for line in (*busy, other)] == ["", "", ""]


async def test_beyond_the_guests_nothing_is_accepted() -> None:
    limit = ConnectionLimit(1)
    *let_in, refused = opened(limit, *[None] * (GUESTS + 2))
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

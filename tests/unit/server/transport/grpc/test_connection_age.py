"""When old connections are told, and when they are ended; by a loop whose time the test gives."""

import asyncio
from collections.abc import Callable

import pytest

from ie_serving.server.transport.grpc.http2_server import JITTER, ConnectionAge


class Recorded:
    """A connection that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def drain(self) -> None:
        self.told.append("drain")

    def stop(self) -> None:
        self.told.append("stop")


class Timer:
    """What `call_later` was asked for."""

    def __init__(self, delay_s: float, act: Callable[[], None]) -> None:
        self.delay_s = delay_s
        self.act = act
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


@pytest.fixture
async def timers(monkeypatch: pytest.MonkeyPatch) -> list[Timer]:
    found: list[Timer] = []

    def call_later(delay_s: float, act: Callable[..., None], *given: object) -> Timer:
        found.append(Timer(delay_s, lambda: act(*given)))
        return found[-1]

    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", call_later)
    return found


@pytest.mark.parametrize(
    ("chance", "delay_s"),
    [(0.0, 100 * (1 - JITTER)), (0.5, 100.0), (1.0, 100 * (1 + JITTER))],
)
async def test_ages_differ_by_the_jitter(
    timers: list[Timer], chance: float, delay_s: float
) -> None:
    ConnectionAge(100.0, 0.0, lambda: chance).watch(Recorded())
    assert [timer.delay_s for timer in timers] == [pytest.approx(delay_s)]


async def test_without_an_age_there_is_no_timer(timers: list[Timer]) -> None:
    ConnectionAge(0.0, 5.0).watch(Recorded())
    assert timers == []


@pytest.mark.parametrize(("grace_s", "told"), [(5.0, ["drain", "stop"]), (0.0, ["drain"])])
async def test_the_grace_follows_the_age(
    timers: list[Timer], grace_s: float, told: list[str]
) -> None:
    connection = Recorded()
    ConnectionAge(100.0, grace_s).watch(connection)
    for timer in timers:  # grows while it is walked: the age's timer sets that of the grace
        timer.act()
    assert connection.told == told
    assert [timer.delay_s for timer in timers[1:]] == ([grace_s] if grace_s else [])


async def test_a_closed_connection_has_no_timer(timers: list[Timer]) -> None:
    ages, connection = ConnectionAge(100.0, 5.0), Recorded()
    ages.watch(connection)
    ages.forget(connection)
    ages.forget(connection)
    assert [timer.cancelled for timer in timers] == [True]

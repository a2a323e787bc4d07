"""Frames that carry nothing are allowed up to a number and a rate; answers earn more."""

import pytest

from ie_serving.server.transport.http2.frames import ConnectionFault, ErrorCode
from ie_serving.server.transport.http2.rules import BURST, EARNED, PER_S, FloodGuard


class Guarded:
    """A guard, its clock, and what was sent."""

    def __init__(self) -> None:
        self.now = 5.0
        self.sent = 0
        self.guard = FloodGuard(lambda: self.now, lambda: self.sent)

    def allowed(self) -> int:
        """Count frames until one is too many."""
        for count in range(20 * BURST):
            try:
                self.guard.count()
            except ConnectionFault as fault:
                assert fault.code is ErrorCode.ENHANCE_YOUR_CALM
                return count
        raise AssertionError("without end")


@pytest.mark.parametrize(
    ("seconds", "sent", "allowed"),
    [
        pytest.param(0, 0, BURST, id="at once"),
        pytest.param(1, 0, BURST + PER_S, id="in a second"),
        pytest.param(3600, 0, 2 * BURST, id="after an hour of silence"),
        pytest.param(0, 100, BURST + 100 * EARNED, id="with 100 answers"),
        pytest.param(0, 1_000_000, 2 * BURST, id="with a million answers"),
    ],
)
def test_a_burst_and_a_rate_are_allowed(seconds: float, sent: int, allowed: int) -> None:
    guarded = Guarded()
    guarded.now += seconds
    guarded.sent += sent
    assert guarded.allowed() == allowed


def test_a_weight_counts_as_so_many() -> None:
    guarded = Guarded()
    guarded.guard.count(BURST)
    with pytest.raises(ConnectionFault):
        guarded.guard.count()


def test_a_steady_stream_below_the_rate_is_allowed() -> None:
    """Hours of keep-alives and cancelled calls."""
    guarded = Guarded()
    for _ in range(20 * BURST):
        guarded.now += 1.001 / PER_S
        guarded.guard.count()


def test_a_ping_and_two_window_updates_for_every_answer_are_allowed_at_any_rate() -> None:
    """So clients in Go and Java estimate bandwidth."""
    guarded = Guarded()
    for _ in range(2 * BURST):
        guarded.sent += 1
        guarded.guard.count(EARNED)

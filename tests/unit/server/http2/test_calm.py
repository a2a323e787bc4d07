"""Frames that carry nothing are borne up to a number, then no more."""

import pytest

from ie_serving.server.http2 import calm
from ie_serving.server.http2.calm import Calm
from ie_serving.server.http2.frames import ConnectionFault, ErrorCode


@pytest.mark.parametrize("weight", [1, 10])
def test_a_flood_ends_the_connection(weight: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calm, "monotonic", lambda: 5.0)
    patience = Calm()
    with pytest.raises(ConnectionFault) as fault:
        for _ in range(calm.BURST + 1):
            patience.bear(weight)
    assert fault.value.code is ErrorCode.ENHANCE_YOUR_CALM


def test_a_steady_stream_below_the_rate_is_borne(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours of keep-alives and cancelled calls."""
    now = 0.0
    monkeypatch.setattr(calm, "monotonic", lambda: now)
    patience = Calm()
    for _ in range(20 * calm.BURST):
        now += 1 / calm.PER_S
        patience.bear()


def test_a_ping_for_every_reply_is_borne_at_any_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """So clients in Go and Java estimate bandwidth."""
    monkeypatch.setattr(calm, "monotonic", lambda: 5.0)
    patience = Calm()
    for _ in range(2 * calm.BURST):
        patience.forgive()
        patience.bear()


def test_replies_are_no_credit_for_a_larger_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calm, "monotonic", lambda: 5.0)
    patience = Calm()
    for _ in range(calm.BURST):
        patience.forgive()
    with pytest.raises(ConnectionFault):
        for _ in range(calm.BURST + 1):
            patience.bear()

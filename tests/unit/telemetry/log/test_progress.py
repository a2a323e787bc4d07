"""A line for a person at a terminal alone."""

import io
import os

import pytest

from ie_serving.telemetry.log import progress
from ie_serving.telemetry.log.progress import ERASE, PIECE, ProgressLine, in_pieces
from tests.terminal import Terminal


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "BEFORE_S", 0.0)
    monkeypatch.setattr(progress, "PAUSE_S", 0.0)


def test_a_terminal_shows_how_far_it_is_and_nothing_is_left() -> None:
    with Terminal() as terminal, os.fdopen(terminal.end, "w", closefd=False) as stream:
        with ProgressLine("sending", 4_000_000, stream=stream) as sending:
            sending.show(1_000_000)
            terminal.until(r"sending \[######\.{18}\] 1\.0 MB of 4\.0 MB \d s")
            sending.say("receiving")
            sending.show(2_000_000, 2_000_000)
            terminal.until(r"receiving \[#{24}\] 2\.0 MB of 2\.0 MB")
        stream.write("the end")
        stream.flush()
        assert terminal.until("the end").endswith(f"{ERASE}the end")


def test_a_log_shows_none_of_it() -> None:
    log = io.StringIO()
    with ProgressLine("checking", 3, "models", log) as checking:
        checking.show(1)
        checking.erase()
    assert log.getvalue() == ""


def test_a_task_that_is_over_soon_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "BEFORE_S", 30.0)
    with Terminal() as terminal, os.fdopen(terminal.end, "w", closefd=False) as stream:
        with ProgressLine("checking", unit="", stream=stream):
            pass
        stream.write("the end")
        stream.flush()
        assert terminal.until("the end") == "the end"


def test_a_large_body_is_sent_in_pieces_that_are_counted() -> None:
    body, sending = os.urandom(2 * PIECE + 5), ProgressLine("sending", stream=io.StringIO())
    assert b"".join(in_pieces(body, sending)) == body
    small = b"x" * PIECE
    assert in_pieces(small, sending) is small

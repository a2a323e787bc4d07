"""A connection sends within the client's windows, and loses, doubles and moves nothing."""

from collections import deque
from itertools import groupby

import pytest
from hyperframe.frame import DataFrame, Frame, HeadersFrame, RstStreamFrame
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.server.transport.http2 import frames
from ie_serving.server.transport.http2.frames import ConnectionFault, ErrorCode
from ie_serving.server.transport.http2.sender import TURN, Sender
from ie_serving.server.transport.http2.stream_states import (
    SendEvent,
    SendState,
    StreamEvent,
    StreamState,
)
from ie_serving.server.transport.http2.streams import Http2Stream, StreamTable
from tests.unit.server.transport.http2.peer import pattern
from tests.unit.server.transport.http2.wire import parsed


class Told(Http2Stream):
    """A stream that knows what it was told."""

    def __init__(self, number: int, window: int) -> None:
        self.number = number
        self.state = StreamState.HALF_CLOSED_REMOTE
        self.send_window = window
        self.trailers = None
        self.unsent = deque()
        self.told: list[str] = []

    def all_sent(self) -> None:
        self.told.append("all sent")

    def finished(self) -> None:
        self.told.append("finished")

    def cancelled(self) -> None:
        self.told.append("cancelled")


class Half:
    """A sender whose bytes are taken as soon as it has any, and streams that the client knows."""

    def __init__(self) -> None:
        self.streams = StreamTable()
        self.written = b""
        self.sender = Sender(self.streams, self.take)

    def take(self) -> None:
        sender = self.sender
        if sender.state is not SendState.PAUSED:
            self.written += b"".join(sender.out)
            sender.out.clear()
            while pieces := sender.turn():
                self.written += b"".join(pieces)

    def stream(self, number: int, window: int = 65_535) -> Told:
        stream = self.streams.open[number] = Told(number, window)
        return stream

    def reply(self, stream: Http2Stream, *contents: bytes) -> None:
        self.sender.write(frames.headers(stream.number, b"", ends=False))
        for content in contents:
            self.sender.send(stream, content)
        self.sender.end(stream, frames.headers(stream.number, b"", ends=True))

    def frames(self) -> list[Frame]:
        return parsed(self.written)

    def body(self, number: int) -> bytes:
        found = [f for f in self.frames() if f.stream_id == number]
        return b"".join(f.data for f in found if isinstance(f, DataFrame))

    def order(self) -> list[int]:
        return [f.stream_id for f in self.frames() if isinstance(f, DataFrame)]


def whole(number: int, content: bytes) -> bytes:
    """All frames of an answer."""
    head = frames.head(frames.DATA, 0, number, len(content))
    return b"".join(
        (
            frames.headers(number, b"", ends=False),
            head + content,
            frames.headers(number, b"", ends=True),
        )
    )


def send_whole(half: Half, stream: Http2Stream, content: bytes) -> bool:
    return half.sender.send_whole(stream, len(content), whole(stream.number, content))


SIZES = st.lists(st.sampled_from([0, 1, 5, 100, 16_379, 16_384, 40_000, 300_000]), max_size=3)
CHANGES = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from([1, 4, 5, 6, 100, 16_384, 70_000, 1_000_000])),
    max_size=30,
)


@given(st.lists(SIZES, min_size=1, max_size=4), CHANGES, st.sampled_from([0, 1, 5, 65_535]))
def test_windows_are_kept_and_nothing_is_lost(
    sizes: list[list[int]], changes: list[tuple[int, int]], initial: int
) -> None:
    """Any windows, widened at any time, of the connection (0) and of four streams."""
    half = Half()
    streams = [half.stream(2 * i + 1, initial) for i in range(len(sizes))]
    allowed = {0: 65_535} | {s.number: initial for s in streams}
    for stream, lengths in zip(streams, sizes, strict=True):
        half.reply(stream, *map(pattern, lengths))
        check_windows(half, allowed)
    finish = [(i, 4_000_000) for i in range(len(sizes) + 1)]
    for which, increment in (*changes, *finish):
        if which > len(streams):
            continue
        if which:
            stream = streams[which - 1]
            allowed[stream.number] += increment
            assert half.sender.widen(stream, increment)
        else:
            allowed[0] += increment
            half.sender.widen_connection(increment)
            half.take()
        check_windows(half, allowed)
    for stream, lengths in zip(streams, sizes, strict=True):
        assert half.body(stream.number) == b"".join(pattern(n) for n in lengths)
        assert stream.told.count("finished") == 1
        own = [f for f in half.frames() if f.stream_id == stream.number]
        assert isinstance(own[0], HeadersFrame)
        assert isinstance(own[-1], HeadersFrame)
        assert ["END_STREAM" in f.flags for f in own] == [False] * (len(own) - 1) + [True]


def check_windows(half: Half, allowed: dict[int, int]) -> None:
    sent = {number: len(half.body(number)) for number in allowed if number}
    assert sum(sent.values()) <= allowed[0]
    assert all(size <= allowed[number] for number, size in sent.items())
    assert all(f.body_len <= frames.DEFAULT_FRAME for f in half.frames())


def test_a_small_answer_is_sent_at_once() -> None:
    """Who sends it knows that it has finished, and is not told."""
    half = Half()
    stream = half.stream(1)
    assert send_whole(half, stream, b"reply")
    assert [type(f) for f in half.frames()] == [HeadersFrame, DataFrame, HeadersFrame]
    assert half.body(1) == b"reply"
    assert (stream.state, stream.told, half.streams.open) == (StreamState.ENDED, [], {})


@pytest.mark.parametrize(
    ("window", "size"), [(7, 8), (65_535, 16_385)], ids=["the window", "the frame"]
)
def test_an_answer_that_does_not_fit_is_not_sent_at_once(window: int, size: int) -> None:
    half = Half()
    stream = half.stream(1, window)
    assert not send_whole(half, stream, bytes(size))
    assert not half.written
    assert stream.state is StreamState.HALF_CLOSED_REMOTE


def test_answers_at_once_use_up_the_window_of_the_connection() -> None:
    half = Half()
    sent = 0
    while send_whole(half, half.stream(2 * sent + 1), bytes(1000)):
        sent += 1
    assert sent == 65_535 // 1000


def test_nothing_overtakes_what_waits_for_the_connection() -> None:
    """A small answer waits behind a large one, in turns, not beside it."""
    half = Half()
    half.reply(half.stream(1, 1 << 20), pattern(100_000))
    assert not send_whole(half, half.stream(3), b"small")


def test_large_answers_take_turns() -> None:
    """Each stream sends TURN bytes, then the next."""
    half = Half()
    half.sender.widen_connection(100 * TURN)
    half.sender.apply(SendEvent.PAUSE)
    for number in (1, 3):
        half.reply(half.stream(number, 100 * TURN), pattern(3 * TURN))
    half.sender.apply(SendEvent.RESUME)
    half.take()
    assert [number for number, _ in groupby(half.order())] == [1, 3] * 3


def test_a_stream_without_window_does_not_hold_others_back() -> None:
    half = Half()
    half.reply(half.stream(1, 0), b"blocked")
    assert send_whole(half, half.stream(3), b"free")


def test_a_failure_takes_the_place_of_what_waits() -> None:
    """The status arrives, though the message cannot."""
    half = Half()
    stream = half.stream(1, 10)
    half.reply(stream, pattern(100))
    half.sender.finish(stream, frames.headers(1, b"", ends=True))
    assert half.sender.widen(stream, 1000)
    assert half.body(1) == pattern(10)
    assert "END_STREAM" in half.frames()[-1].flags
    assert stream.told == ["finished"]


@pytest.mark.parametrize(
    ("state", "ends", "after", "late"),
    [
        (StreamState.OPEN, False, StreamState.RESET, StreamState.RESET),
        (StreamState.HALF_CLOSED_REMOTE, False, StreamState.ENDED, StreamState.ENDED),
    ],
)
def test_a_stream_that_is_reset_sends_no_more(
    state: StreamState, ends: bool, after: StreamState, late: StreamState
) -> None:
    """What is under way of its request is known afterwards, unless it had ended."""
    half = Half()
    half.streams.last = 1
    stream = half.stream(1, 10)
    stream.state = state
    half.reply(stream, pattern(100))
    half.sender.reset(1, ErrorCode.CANCEL, ends=ends)
    half.sender.widen_connection(100)
    half.take()
    assert len(half.body(1)) == 10
    assert isinstance(half.frames()[-1], RstStreamFrame)
    assert (stream.state, stream.told, half.streams.state_of(1)) == (after, ["cancelled"], late)


def test_an_answer_before_the_end_of_its_request_stops_it() -> None:
    """By NO_ERROR, section 8.1; unless the end was in what was read together."""
    half = Half()
    streams = [half.stream(1), half.stream(3)]
    for stream in streams:
        stream.state = StreamState.OPEN
        assert send_whole(half, stream, b"early")
        assert stream.state is StreamState.HALF_CLOSED_LOCAL
    half.streams.close(3, StreamEvent.END_RECEIVED)
    half.sender.stop_requests()
    resets = [f for f in half.frames() if isinstance(f, RstStreamFrame)]
    assert [(f.stream_id, f.error_code) for f in resets] == [(1, ErrorCode.NO_ERROR)]
    assert half.streams.open == {}


def test_a_stream_learns_that_all_was_sent() -> None:
    """Once for each time that nothing waits any more, not before."""
    half = Half()
    stream = half.stream(1, 10)
    half.sender.send(stream, pattern(20))
    assert stream.told == []
    assert half.sender.widen(stream, 10)
    assert stream.told == ["all sent"]


def test_nothing_is_taken_for_a_client_that_does_not_read() -> None:
    """And all of it, in order, when it reads again."""
    half = Half()
    half.sender.apply(SendEvent.PAUSE)
    assert not send_whole(half, half.stream(3), b"x")
    half.reply(half.stream(1), pattern(1000))
    assert not half.written
    half.sender.apply(SendEvent.RESUME)
    half.take()
    assert half.body(1) == pattern(1000)


def test_a_connection_s_window_above_the_largest_is_a_fault() -> None:
    half = Half()
    with pytest.raises(ConnectionFault) as fault:
        half.sender.widen_connection(frames.LARGEST_WINDOW)
    assert fault.value.code is ErrorCode.FLOW_CONTROL_ERROR


def test_a_stream_s_window_above_the_largest_is_told() -> None:
    half = Half()
    stream = half.stream(1)
    assert half.sender.widen(stream, frames.LARGEST_WINDOW - 65_535)
    assert not half.sender.widen(stream, 1)


def test_requests_that_are_read_together_are_answered_together() -> None:
    half = Half()
    half.sender.apply(SendEvent.READING)
    assert send_whole(half, half.stream(1), b"1")
    assert send_whole(half, half.stream(3), b"2")
    assert not half.written
    half.sender.apply(SendEvent.READ)
    half.take()
    assert half.order() == [1, 3]


def test_after_the_client_is_gone_nothing_is_kept() -> None:
    half = Half()
    half.reply(half.stream(1, 0), b"waits")
    half.sender.apply(SendEvent.LOST)
    half.sender.write(frames.SETTINGS_ACK)
    half.reply(half.stream(3), b"late")
    assert half.sender.idle

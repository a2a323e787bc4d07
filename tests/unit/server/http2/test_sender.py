"""A connection sends within the client's windows, and loses, doubles and moves nothing."""

from collections import deque
from itertools import groupby

import pytest
from hyperframe.frame import DataFrame, HeadersFrame
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.server.calls import Buffer
from ie_serving.server.http2 import frames, replies
from ie_serving.server.http2.frames import ConnectionFault, ErrorCode
from ie_serving.server.http2.sender import MOST_UNSENT, TURN, Sender
from tests.unit.server.http2.peer import message, pattern
from tests.unit.server.http2.wire import Wire


class Stream:
    """See `sender.Outgoing`."""

    def __init__(self, number: int, window: int) -> None:
        self.number = number
        self.window = window
        self.unsent: deque[Buffer] = deque()
        self.trailers: bytes | None = None
        self.times_drained = 0

    def drained(self) -> None:
        self.times_drained += 1


class Half:
    """A sender, its wire, and streams that the client knows."""

    def __init__(self) -> None:
        self.ended: list[int] = []
        self.wire = Wire()
        self.sender = Sender(self.ended.append)
        self.sender.attach(self.wire)

    def stream(self, number: int, window: int = 65_535) -> Stream:
        return Stream(number, window)

    def reply(self, stream: Stream, *contents: bytes) -> None:
        self.sender.write(replies.headers_frame(stream.number, replies.HEADERS, ends=False))
        for content in contents:
            self.sender.send(stream, content)
        self.sender.end(stream, replies.headers_frame(stream.number, replies.SUCCESS, ends=True))

    def body(self, number: int) -> bytes:
        found = [f for f in self.wire.frames() if f.stream_id == number]
        return b"".join(f.data for f in found if isinstance(f, DataFrame))

    def order(self) -> list[int]:
        return [f.stream_id for f in self.wire.frames() if isinstance(f, DataFrame)]


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
            stream.window += increment
            half.sender.widened(stream)
        else:
            allowed[0] += increment
            half.sender.widen(increment)
        check_windows(half, allowed)
    for stream, lengths in zip(streams, sizes, strict=True):
        assert half.body(stream.number) == b"".join(message(pattern(n)) for n in lengths)
        assert half.ended.count(stream.number) == 1
        own = [f for f in half.wire.frames() if f.stream_id == stream.number]
        assert isinstance(own[0], HeadersFrame)
        assert isinstance(own[-1], HeadersFrame)
        assert ["END_STREAM" in f.flags for f in own] == [False] * (len(own) - 1) + [True]


def check_windows(half: Half, allowed: dict[int, int]) -> None:
    sent = {number: len(half.body(number)) for number in allowed if number}
    assert sum(sent.values()) <= allowed[0]
    assert all(size <= allowed[number] for number, size in sent.items())
    assert all(f.body_len <= frames.DEFAULT_FRAME for f in half.wire.frames())


def test_a_small_reply_is_one_write_of_three_frames() -> None:
    half = Half()
    stream = half.stream(1)
    assert half.sender.reply_at_once(stream, b"reply")
    assert [type(f) for f in half.wire.frames()] == [HeadersFrame, DataFrame, HeadersFrame]
    assert half.body(1) == message(b"reply")
    assert half.ended == [1]


@pytest.mark.parametrize(
    ("window", "size"), [(7, 3), (65_535, 16_380)], ids=["the window", "the frame"]
)
def test_a_reply_that_does_not_fit_is_not_sent_at_once(window: int, size: int) -> None:
    half = Half()
    assert not half.sender.reply_at_once(half.stream(1, window), bytes(size))
    assert not half.wire.written


def test_replies_at_once_use_up_the_window_of_the_connection() -> None:
    half = Half()
    sent = 0
    while half.sender.reply_at_once(half.stream(2 * sent + 1), bytes(1000)):
        sent += 1
    assert sent == 65_535 // 1005


def test_nothing_overtakes_what_waits_for_the_connection() -> None:
    """A small reply waits behind a large one, in turns, not beside it."""
    half = Half()
    half.reply(half.stream(1, 1 << 20), pattern(100_000))
    assert not half.sender.reply_at_once(half.stream(3), b"small")


def test_an_empty_message_needs_no_more_window_than_its_prefix() -> None:
    half = Half()
    half.reply(half.stream(1, 5), b"")
    assert half.ended == [1]


def test_large_replies_take_turns() -> None:
    """Each stream sends TURN bytes, then the next."""
    half = Half()
    half.sender.widen(100 * TURN)
    half.sender.pause()
    for number in (1, 3):
        half.reply(half.stream(number, 100 * TURN), pattern(3 * TURN))
    half.sender.resume()
    assert [number for number, _ in groupby(half.order())] == [1, 3] * 4


def test_a_stream_without_window_does_not_hold_others_back() -> None:
    half = Half()
    half.reply(half.stream(1, 0), b"blocked")
    assert half.sender.reply_at_once(half.stream(3), b"free")


def test_a_failure_takes_the_place_of_what_waits() -> None:
    """The status arrives, though the message cannot."""
    half = Half()
    stream = half.stream(1, 10)
    half.reply(stream, pattern(100))
    half.sender.finish(stream, replies.headers_frame(1, replies.SUCCESS, ends=True))
    stream.window += 1000
    half.sender.widened(stream)
    assert half.body(1) == message(pattern(100))[:10]
    assert "END_STREAM" in half.wire.frames()[-1].flags


def test_a_forgotten_stream_sends_no_more() -> None:
    half = Half()
    stream = half.stream(1, 10)
    half.reply(stream, pattern(100))
    half.sender.forget(stream)
    half.sender.widen(100)
    assert len(half.body(1)) == 10
    assert half.ended == []


def test_a_stream_learns_that_all_was_sent() -> None:
    """Once for each time that nothing waits any more, not before."""
    half = Half()
    stream = half.stream(1, 10)
    half.sender.send(stream, pattern(20))
    assert stream.times_drained == 0
    stream.window += 15
    half.sender.widened(stream)
    assert stream.times_drained == 1


def test_nothing_is_written_to_a_client_that_does_not_read() -> None:
    """And all of it, in order, when it reads again."""
    half = Half()
    half.sender.pause()
    assert not half.sender.reply_at_once(half.stream(3), b"x")
    half.reply(half.stream(1), pattern(1000))
    assert not half.wire.written
    half.sender.resume()
    assert half.body(1) == message(pattern(1000))
    assert half.ended == [1]


def test_a_client_that_does_not_read_is_given_up() -> None:
    """Its frames would fill our memory."""
    half = Half()
    half.sender.pause()
    for _ in range(MOST_UNSENT):
        half.sender.write(frames.SETTINGS_ACK)
    assert not half.wire.aborted
    half.sender.write(frames.SETTINGS_ACK)
    assert half.wire.aborted


def test_a_window_above_the_largest_ends_the_connection() -> None:
    half = Half()
    with pytest.raises(ConnectionFault) as fault:
        half.sender.widen(frames.LARGEST_WINDOW)
    assert fault.value.code is ErrorCode.FLOW_CONTROL_ERROR


def test_what_is_held_is_written_together() -> None:
    half = Half()
    half.sender.hold()
    assert half.sender.reply_at_once(half.stream(1), b"1")
    assert not half.wire.written
    half.sender.release()
    assert half.wire.written


def test_after_the_client_is_gone_nothing_is_kept() -> None:
    half = Half()
    half.reply(half.stream(1, 0), b"waits")
    half.sender.detach()
    before = bytes(half.wire.written)
    half.sender.write(frames.SETTINGS_ACK)
    half.reply(half.stream(3), b"late")
    assert bytes(half.wire.written) == before

"""Clients may send on and on: what they have sent is given back before a window is used up."""

import pytest
from hyperframe.frame import WindowUpdateFrame
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.server.http2.call import Call
from ie_serving.server.http2.credit import Credit
from ie_serving.server.http2.greeting import CONNECTION_WINDOW, STREAM_WINDOW
from ie_serving.server.http2.headers import RequestHead
from ie_serving.server.http2.sender import Sender
from tests.unit.server.http2.wire import Wire

STREAMS = (1, 3, 5, 7, 9, 11)


SIZES = st.integers(1, STREAM_WINDOW // 2) | st.just(STREAM_WINDOW // 2)


@given(st.lists(st.tuples(st.sampled_from(STREAMS), SIZES), min_size=20, max_size=60))
def test_no_window_is_ever_used_up(pieces: list[tuple[int, int]]) -> None:
    """Of the connection (0) and of each stream; nor does one grow beyond what it began with."""
    wire = Wire()
    sender = Sender(lambda _: None)
    sender.attach(wire)
    calls = {number: Call(number, RequestHead(), sender, 1 << 30) for number in STREAMS}
    credit = Credit(sender, lambda: None)
    used = dict.fromkeys((0, *STREAMS), 0)
    for number, size in pieces:
        used[0] += size
        used[number] += size
        assert used[0] <= CONNECTION_WINDOW
        assert used[number] <= STREAM_WINDOW
        wire.written.clear()
        credit.give_back(calls[number], size, ends=False)
        for frame in wire.frames():
            assert isinstance(frame, WindowUpdateFrame)
            used[frame.stream_id] -= frame.window_increment
        assert min(used.values()) >= 0


@pytest.mark.parametrize(
    ("open_", "size", "ends", "counted"),
    [
        pytest.param(True, 0, False, 1, id="empty"),
        pytest.param(True, 1, False, 0, id="a byte"),
        pytest.param(True, 0, True, 0, id="empty, ends the request: so .NET, Node and Rust do"),
        pytest.param(False, 0, True, 1, id="empty, ends what has ended already"),
    ],
)
def test_data_that_carries_nothing_is_counted(
    open_: bool, size: int, ends: bool, counted: int
) -> None:
    sender = Sender(lambda _: None)
    borne: list[None] = []
    credit = Credit(sender, lambda: borne.append(None))
    call = Call(1, RequestHead(), sender, 1 << 30) if open_ else None
    credit.give_back(call, size, ends=ends)
    assert len(borne) == counted

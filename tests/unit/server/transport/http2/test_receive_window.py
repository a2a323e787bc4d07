"""Clients may send on and on: what they have sent is given back before a window is used up."""

from hyperframe.frame import WindowUpdateFrame
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.server.transport.http2.streams import ReceiveWindow
from tests.unit.server.transport.http2.wire import parsed

SIZE = 1000


@given(st.lists(st.integers(0, SIZE // 2), max_size=60))
def test_a_window_that_is_renewed_in_time_is_never_used_up(pieces: list[int]) -> None:
    """Nor does it grow beyond what it began with."""
    window = ReceiveWindow(7, SIZE)
    allowed = SIZE
    for size in pieces:
        assert size <= allowed
        window.left -= size
        allowed -= size
        if window.left < window.half:
            (frame,) = parsed(window.renew())
            assert isinstance(frame, WindowUpdateFrame)
            assert frame.stream_id == 7
            allowed += frame.window_increment
        assert window.left == allowed

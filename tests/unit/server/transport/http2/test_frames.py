"""Frames that the server writes are read by hyperframe, and those of hyperframe by the server."""

import pytest
from hyperframe.frame import DataFrame, Frame, HeadersFrame, SettingsFrame
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.server.transport.http2 import frames
from ie_serving.server.transport.http2.frames import ConnectionFault, ErrorCode

STREAMS = st.integers(1, frames.LAST_STREAM)


def parsed(written: bytes) -> Frame:
    frame, length = Frame.parse_frame_header(memoryview(written[:9]))
    assert length == len(written) - 9
    frame.parse_body(memoryview(written[9:]))
    return frame


@given(STREAMS, st.sampled_from(ErrorCode))
def test_rst_stream(number: int, code: ErrorCode) -> None:
    frame = parsed(frames.rst_stream(number, code))
    assert (frame.stream_id, frame.error_code) == (number, code)


@given(st.just(0) | STREAMS, st.integers(1, frames.LARGEST_WINDOW))
def test_window_update(number: int, increment: int) -> None:
    frame = parsed(frames.window_update(number, increment))
    assert (frame.stream_id, frame.window_increment) == (number, increment)


@given(STREAMS, st.sampled_from(ErrorCode), st.text(max_size=50))
def test_goaway_is_read_by_hyperframe(last: int, code: ErrorCode, text: str) -> None:
    frame = parsed(frames.goaway(last, code, text))
    told = (frame.last_stream_id, frame.error_code, frame.additional_data)
    assert told == (last, code, text.encode("utf-8", "surrogatepass"))


def test_ping_is_read_by_hyperframe() -> None:
    frame = parsed(frames.ping(b"12345678", frames.ACK))
    assert (frame.opaque_data, "ACK" in frame.flags) == (b"12345678", True)


@given(st.dictionaries(st.integers(7, 0xFF), st.integers(0, 0xFFFFFFFF), max_size=20))
def test_settings_are_read_both_ways(values: dict[int, int]) -> None:
    """Both directions; unknown settings are no fault."""
    assert parsed(frames.settings(values)).settings == values
    assert frames.read_settings(SettingsFrame(0, values).serialize()[9:]) == values


def test_of_a_setting_that_comes_again_the_last_counts() -> None:
    """One frame may hold thousands: each is work for every open call."""
    payload = frames.settings({4: 1})[9:] + frames.settings({4: 2})[9:]
    assert frames.read_settings(payload) == {4: 2}


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        pytest.param(
            frames.settings({4: 1 << 31})[9:], ErrorCode.FLOW_CONTROL_ERROR, id="large window"
        ),
        pytest.param(frames.settings({5: 16_383})[9:], ErrorCode.PROTOCOL_ERROR, id="small frame"),
        pytest.param(frames.settings({5: 1 << 24})[9:], ErrorCode.PROTOCOL_ERROR, id="large frame"),
        pytest.param(frames.settings({2: 2})[9:], ErrorCode.PROTOCOL_ERROR, id="push is a flag"),
    ],
)
def test_settings_out_of_their_range_end_the_connection(payload: bytes, code: ErrorCode) -> None:
    with pytest.raises(ConnectionFault) as fault:
        frames.read_settings(payload)
    assert fault.value.code is code


@given(st.binary(max_size=300), st.integers(0, 255))
def test_padding_is_taken_off(content: bytes, padding: int) -> None:
    frame = DataFrame(1, content, pad_length=padding, flags=["PADDED"])
    assert frames.unpadded(frames.PADDED, frame.serialize()[9:]) == content


def test_priority_is_taken_off() -> None:
    frame = HeadersFrame(1, b"block", pad_length=7, flags=["PADDED", "PRIORITY"])
    flags = frames.PADDED | frames.WITH_PRIORITY
    assert frames.unpadded(flags, frame.serialize()[9:]) == b"block"


@pytest.mark.parametrize(
    ("flags", "payload"),
    [
        pytest.param(frames.PADDED, b"", id="no length"),
        pytest.param(frames.PADDED, b"\3ab", id="more than there is"),
        pytest.param(frames.WITH_PRIORITY, b"1234", id="half a priority"),
    ],
)
def test_more_padding_than_payload_ends_the_connection(flags: int, payload: bytes) -> None:
    with pytest.raises(ConnectionFault):
        frames.unpadded(flags, payload)


@given(STREAMS, st.binary(max_size=100), st.booleans())
def test_headers_are_read_by_hyperframe(number: int, block: bytes, ends: bool) -> None:
    frame = parsed(frames.headers(number, block, ends=ends))
    assert (frame.stream_id, frame.data) == (number, block)
    assert frame.flags == ({"END_HEADERS", "END_STREAM"} if ends else {"END_HEADERS"})


@pytest.mark.parametrize("flags", [["PRIORITY"], ["PRIORITY", "PADDED"]])
def test_the_stream_that_headers_depend_on_is_read(flags: list[str]) -> None:
    frame = HeadersFrame(1, b"block", pad_length=7, depends_on=5, exclusive=True, flags=flags)
    bits = frames.WITH_PRIORITY | (frames.PADDED if "PADDED" in flags else 0)
    assert frames.depends_on(bits, frame.serialize()[9:]) == 5
    assert frames.depends_on(0, b"") is None

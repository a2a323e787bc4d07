"""A transport in memory."""

import asyncio
from typing import Any

from hyperframe.frame import Frame

from ie_serving.server.transport.http2.driver import HIGH_WATER


class Wire(asyncio.Transport):
    """Keeps what is written, all of it and write by write, and the protocol that it is given."""

    protocol: asyncio.BaseProtocol

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.writes: list[bytes] = []
        self.aborted = False
        self.closed = False
        self.reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == HIGH_WATER

    def write(self, data: Any) -> None:
        self.written += data
        self.writes.append(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.written += b"".join(list_of_data)

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_reading(self) -> bool:
        return self.reading

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def frames(self) -> list[Frame]:
        return parsed(bytes(self.written))


def parsed(written: bytes) -> list[Frame]:
    """Read frames by hyperframe."""
    found, rest = [], memoryview(written)
    while rest:
        frame, length = Frame.parse_frame_header(rest[:9])
        frame.parse_body(rest[9 : 9 + length])
        found.append(frame)
        rest = rest[9 + length :]
    return found

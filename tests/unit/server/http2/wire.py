"""A transport in memory."""

import asyncio
from typing import Any

from hyperframe.frame import Frame

from ie_serving.server.http2.sender import HIGH_WATER


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.aborted = False
        self.closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == HIGH_WATER

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, list_of_data: Any) -> None:
        self.written += b"".join(list_of_data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def frames(self) -> list[Frame]:
        found, rest = [], memoryview(bytes(self.written))
        while rest:
            frame, length = Frame.parse_frame_header(rest[:9])
            frame.parse_body(rest[9 : 9 + length])
            found.append(frame)
            rest = rest[9 + length :]
        return found

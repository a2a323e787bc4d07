"""Inflates clients' compressed data in pieces, for both transports.

Compressed bytes grow up to a thousandfold, so limit and budget are checked while they grow, and no
more memory is used than for the output so far. Work that may take longer than 1 ms runs in a
thread; zlib lets the event loop run meanwhile.
"""

import asyncio
import mmap
import zlib
from typing import Final, TypeAlias

import numpy as np

from ie_serving.core.runtime.budget import BUDGET, SMALL, Lease, kept

DeflatedBytes: TypeAlias = bytes | memoryview

GZIP: Final = zlib.MAX_WBITS | 16
DEFLATE: Final = zlib.MAX_WBITS
"""Window bits for zlib, which select the format: RFC 1952, or RFC 1950."""

LARGE: Final = 4 * 1024
"""Compressed bytes from which a thread inflates them: they may become 4 MB, which take 10 ms of the
event loop."""
_INPUT: Final = 16 * 1024
"""Compressed bytes that zlib gets at a time. It copies those that it does not use."""
_OUTPUT: Final = 256 * 1024
"""Most bytes that zlib returns at a time."""


class MalformedData(Exception):
    """The bytes do not have the announced format; the text says why."""


class DataTooLong(Exception):
    """The inflated data exceeds the limit."""


async def inflated(data: DeflatedBytes, window_bits: int, limit: int) -> DeflatedBytes:
    """Inflate one stream of gzip or zlib.

    Args:
        data: the whole stream, and nothing behind it.
        window_bits: `GZIP` or `DEFLATE`.
        limit: most inflated bytes.

    Returns:
        The inflated bytes. The budget counts their memory from `SMALL` on.

    Raises:
        MalformedData: not such a stream, truncated, or followed by other data.
        DataTooLong: more than `limit` bytes.
        ServingError: the budget is spent.
    """
    if len(data) < LARGE:
        return inflate(data, window_bits, limit)
    # The bytes go into a list, not into the future: a future that is cancelled meanwhile keeps its
    # result until the garbage collector runs.
    found: list[DeflatedBytes] = []
    await asyncio.to_thread(lambda: found.append(inflate(data, window_bits, limit)))
    return found.pop()


def inflate(data: DeflatedBytes, window_bits: int, limit: int) -> DeflatedBytes:
    """Inflate as `inflated` does, in this thread."""
    inflater = zlib.decompressobj(window_bits)
    output = _InflatedOutput(limit)
    try:
        _inflate(inflater, memoryview(data), output)
    except BaseException:
        output.forget()
        raise
    return output.whole()


def _inflate(inflater: "zlib._Decompress", view: memoryview, output: "_InflatedOutput") -> None:
    for start in range(0, len(view), _INPUT):
        _feed(inflater, view[start : start + _INPUT], output)
        if inflater.eof and (inflater.unused_data or start + _INPUT < len(view)):
            raise MalformedData("something follows its end: send it as one member")
    if not inflater.eof:
        raise MalformedData("it ends too early")


def _feed(inflater: "zlib._Decompress", data: DeflatedBytes, output: "_InflatedOutput") -> None:
    """Feed zlib some input and take all output for it."""
    more = True
    while more and not inflater.eof:
        try:
            piece = inflater.decompress(data, _OUTPUT)
        except zlib.error as error:
            raise MalformedData(str(error)) from error
        output.add(piece)
        data = inflater.unconsumed_tail
        # If the output was full, zlib may hold back more although it has read all input.
        more = bool(data) or len(piece) == _OUTPUT


class _InflatedOutput:
    """Gathers the output: pieces in a list, and from `_MAPPED` on in a mapping that grows.

    The kernel grows a mapping without copying it, and takes it back as soon as it is freed.
    """

    _MAPPED: Final = 1 << 20

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._lease = Lease(BUDGET)
        self._pieces: list[bytes] = []
        self._map: mmap.mmap | None = None

    def add(self, piece: bytes) -> None:
        """Add a piece; raises DataTooLong or the budget's error."""
        size = self._size + len(piece)
        if size > self._limit:
            raise DataTooLong
        if size > SMALL:
            self._lease.take(size - self._lease.size)
        if size <= self._MAPPED:
            self._pieces.append(piece)
        else:
            self._mapped(size)[self._size : size] = piece
        self._size = size

    def forget(self) -> None:
        """Free all memory: any reference to the error keeps this object alive, too."""
        self._pieces.clear()
        self._map = None
        self._lease.release()

    def whole(self) -> DeflatedBytes:
        """Return all of the output; called once."""
        if not self._lease.size:
            return b"".join(self._pieces)
        source = self._map or b"".join(self._pieces)
        array = kept(np.frombuffer(source, np.uint8, self._size), self._lease)
        return array.data.toreadonly()

    def _mapped(self, size: int) -> mmap.mmap:
        if self._map is None:
            # Private: a shared mapping is backed by a file, and would not grow.
            self._map = mmap.mmap(-1, 2 * size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self._map[: self._size] = b"".join(self._pieces)
            self._pieces.clear()
        elif size > len(self._map):
            self._map.resize(max(size, min(2 * len(self._map), self._limit)))
        return self._map

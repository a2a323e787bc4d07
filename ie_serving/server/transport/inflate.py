"""Inflates what clients have compressed, in pieces: for both transports.

Compressed bytes grow up to a thousandfold, so the limit and the budget hold while they grow, and
no more memory is taken than what has come out. What may take longer than a millisecond runs in a
thread; zlib lets the event loop go on meanwhile.
"""

import asyncio
import mmap
import zlib
from typing import Final, TypeAlias

import numpy as np

from ie_serving.core.runtime.budget import BUDGET, SMALL, Lease, kept

Buffer: TypeAlias = bytes | memoryview

GZIP: Final = zlib.MAX_WBITS | 16
DEFLATE: Final = zlib.MAX_WBITS
"""Window bits for zlib, which tell it the format: RFC 1952, or RFC 1950."""

LARGE: Final = 4 * 1024
"""Compressed bytes from which on they are inflated in a thread: 4 MB may come out, 10 ms of the
event loop."""
_INPUT: Final = 16 * 1024
"""Compressed bytes that zlib is given at a time. It copies what it leaves of them."""
_OUTPUT: Final = 256 * 1024
"""Bytes that zlib gives at a time."""


class Malformed(Exception):
    """The bytes are not what they are said to be; the text says why."""


class TooLong(Exception):
    """More bytes come out than are taken."""


async def inflated(data: Buffer, window_bits: int, limit: int) -> Buffer:
    """Inflate one stream of gzip or zlib.

    Args:
        data: all of it, and nothing behind it.
        window_bits: `GZIP` or `DEFLATE`.
        limit: bytes that may come out.

    Returns:
        What comes out. Memory that is counted in the budget from `SMALL` on.

    Raises:
        Malformed: it is no such stream, ends too early, or something follows it.
        TooLong: more than `limit` bytes come out.
        ServingError: the budget is spent.
    """
    if len(data) < LARGE:
        return inflate(data, window_bits, limit)
    # In a list, not as the future's result: a future that is cancelled meanwhile keeps what it gets
    # until the garbage collector runs.
    found: list[Buffer] = []
    await asyncio.to_thread(lambda: found.append(inflate(data, window_bits, limit)))
    return found.pop()


def inflate(data: Buffer, window_bits: int, limit: int) -> Buffer:
    """Do the same at once."""
    inflater = zlib.decompressobj(window_bits)
    output = _Output(limit)
    try:
        _inflate(inflater, memoryview(data), output)
    except BaseException:
        output.forget()
        raise
    return output.whole()


def _inflate(inflater: "zlib._Decompress", view: memoryview, output: "_Output") -> None:
    for start in range(0, len(view), _INPUT):
        _feed(inflater, view[start : start + _INPUT], output)
        if inflater.eof and (inflater.unused_data or start + _INPUT < len(view)):
            raise Malformed("something follows its end: send it as one member")
    if not inflater.eof:
        raise Malformed("it ends too early")


def _feed(inflater: "zlib._Decompress", data: Buffer, output: "_Output") -> None:
    """Give zlib some input and take all that comes of it."""
    more = True
    while more and not inflater.eof:
        try:
            piece = inflater.decompress(data, _OUTPUT)
        except zlib.error as error:
            raise Malformed(str(error)) from error
        output.add(piece)
        data = inflater.unconsumed_tail
        # Where the output was full, zlib may hold some back although it has read all input.
        more = bool(data) or len(piece) == _OUTPUT


class _Output:
    """Gathers what comes out: pieces in a list, and from `_MAPPED` on in a mapping that grows.

    The kernel grows a mapping without copying it, and takes it back at once when it is freed.
    """

    _MAPPED: Final = 1 << 20

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._lease = Lease(BUDGET)
        self._pieces: list[bytes] = []
        self._map: mmap.mmap | None = None

    def add(self, piece: bytes) -> None:
        """Take a piece; raises TooLong or what the budget does."""
        size = self._size + len(piece)
        if size > self._limit:
            raise TooLong
        if size > SMALL:
            self._lease.take(size - self._lease.size)
        if size <= self._MAPPED:
            self._pieces.append(piece)
        else:
            self._mapped(size)[self._size : size] = piece
        self._size = size

    def forget(self) -> None:
        """Free all of it: whatever refers to the error refers to this, too."""
        self._pieces.clear()
        self._map = None
        self._lease.release()

    def whole(self) -> Buffer:
        """Give all of it, once."""
        if not self._lease.size:
            return b"".join(self._pieces)
        source = self._map or b"".join(self._pieces)
        array = kept(np.frombuffer(source, np.uint8, self._size), self._lease)
        return array.data.toreadonly()

    def _mapped(self, size: int) -> mmap.mmap:
        if self._map is None:
            # Private: a shared mapping has a file behind it, which would not grow.
            self._map = mmap.mmap(-1, 2 * size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self._map[: self._size] = b"".join(self._pieces)
            self._pieces.clear()
        elif size > len(self._map):
            self._map.resize(max(size, min(2 * len(self._map), self._limit)))
        return self._map

"""Encodes and decodes the frames between the server and a child process. Pure.

A frame is a head, then the head of each tensor, then the small tensors themselves. A tensor of
`SHARED_FROM` bytes or more is in shared memory, at the offset in its head. Numbers have numpy's
bytes; strings are all their lengths, then all their bytes. Both ends are this package on one
machine, so the byte order is the machine's.
"""

import enum
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ie_serving.core.values.tensors import BY_NUMBER, BY_NUMPY, Array, DataType

FrameBytes = bytes | bytearray | memoryview

SHARED_FROM = 1 << 16
"""Bytes from which a tensor goes through shared memory. For smaller tensors a write to the socket
costs less than the pages that both sides would touch."""

ALIGNMENT = 64
"""Alignment of tensors in shared memory, in bytes: a cache line, enough for vector loads."""

_INLINE_ALIGNMENT = 8
"""Alignment of tensors inside a frame, in bytes: the size of the largest element."""

HEAD = struct.Struct("<BxHIQ")
"""Kind, number, count of tensors, and bytes that follow."""

_TENSOR = struct.Struct("<BBBxIQQ")
"""Number of the dtype, rank, location, zero, offset and bytes; then each dimension."""

_INLINE, _SHARED = 0, 1

KEPT = 1
"""Number of a RESULT whose inputs are still in use; otherwise it is 0."""


class FrameKind(enum.IntEnum):
    """The kinds of frames."""

    JOB = 1
    """The job, sent to the process once: the version to load, as JSON."""
    READY = 2
    """Sent by the process once: the loaded signatures, as JSON, and the defaults of inputs."""
    RUN = 3
    """Sent to the process: inputs in the signature's order. Its number is that of the signature."""
    RESULT = 4
    """Sent by the process: outputs in the signature's order. Its number is `KEPT` if the process
    still uses the inputs: then their memory must not be written to again."""
    FAULT = 5
    """Sent by the process instead of READY or RESULT: an error text. Its number is a gRPC code."""
    STREAM = 6
    """Sent to the process: a stream begins; its context. This and the next three are for
    streams."""
    NEXT = 7
    """Sent by the process: the stream requests its next inputs; the reply is a RUN, or an END."""
    TAKEN = 8
    """Sent to the process: the last RESULT of the stream is read; the next one may come."""
    END = 9
    """Sent to the process: there are no more inputs. Sent by it: the process has ended the
    stream."""


@dataclass(frozen=True)
class ProcessFrame:
    """One frame, ready to be sent.

    Attributes:
        data: bytes for the socket.
        shared: tensors to copy into shared memory first, each with its offset.
        shared_bytes: bytes of shared memory that these tensors take.
    """

    data: bytes
    shared: Sequence[tuple[int, memoryview]]
    shared_bytes: int


@dataclass(frozen=True)
class FrameHead:
    """The first bytes of a frame.

    Attributes:
        kind: kind of the frame.
        number: number whose meaning `FrameKind` gives.
        tensors: number of tensors in the frame.
        size: bytes that follow.
    """

    kind: FrameKind
    number: int
    tensors: int
    size: int


def pack(
    kind: FrameKind,
    number: int,
    tensors: Sequence[Array],
    shared_from: float = SHARED_FROM,
    behind: int = 0,
) -> ProcessFrame:
    """Make a frame.

    Args:
        kind: kind of the frame.
        number: number whose meaning `FrameKind` gives.
        tensors: arrays of a numpy dtype of `DataType`; strings as objects of bytes.
        shared_from: bytes from which a tensor goes into shared memory.
        behind: bytes at the beginning of the shared memory to leave unchanged.
    """
    raws = [_raw(array) for array in tensors]
    heads, inline = bytearray(), bytearray()
    shared: list[tuple[int, memoryview]] = []
    end = behind
    for array, raw in zip(tensors, raws, strict=True):
        if raw.nbytes >= shared_from:
            location, offset = _SHARED, _aligned(end, ALIGNMENT)
            shared.append((offset, raw))
            end = offset + raw.nbytes
        else:
            inline += bytes(_aligned(len(inline), _INLINE_ALIGNMENT) - len(inline))
            location, offset = _INLINE, len(inline)
            inline += raw
        number_of_dtype = BY_NUMPY[array.dtype].number
        heads += _TENSOR.pack(number_of_dtype, array.ndim, location, 0, offset, raw.nbytes)
        heads += struct.pack(f"<{array.ndim}q", *array.shape)
    head = HEAD.pack(kind, number, len(tensors), len(heads) + len(inline))
    return ProcessFrame(b"".join((head, heads, inline)), shared, end)


def numbered(frame: ProcessFrame, number: int) -> ProcessFrame:
    """Give the frame with another number."""
    head = head_of(frame.data[: HEAD.size])
    data = HEAD.pack(head.kind, number, head.tensors, head.size) + frame.data[HEAD.size :]
    return ProcessFrame(data, frame.shared, frame.shared_bytes)


def head_of(data: FrameBytes) -> FrameHead:
    """Read the first `HEAD.size` bytes of a frame. Raises: ValueError."""
    kind, number, tensors, size = HEAD.unpack(data)
    return FrameHead(FrameKind(kind), number, tensors, size)


def unpack(head: FrameHead, body: FrameBytes, memory: FrameBytes) -> list[Array]:
    """Give the tensors of a frame.

    Args:
        head: head of the frame.
        body: the `size` bytes after it.
        memory: the shared memory from its beginning, at least `shared_bytes` bytes.

    Returns:
        Arrays that are views of `body` or of `memory`; strings are copies.
    """
    found: list[tuple[DataType, tuple[int, ...], int, int, int]] = []
    at = 0
    for _ in range(head.tensors):
        number, rank, location, _, offset, size = _TENSOR.unpack_from(body, at)
        at += _TENSOR.size
        shape = struct.unpack_from(f"<{rank}q", body, at)
        at += 8 * rank
        found.append((BY_NUMBER[number], shape, location, offset, size))
    return [
        _array(
            dtype,
            shape,
            memory if location == _SHARED else body,
            offset + at * (location == _INLINE),
        )
        for dtype, shape, location, offset, _ in found
    ]


def shared_bytes(head: FrameHead, body: FrameBytes) -> int:
    """Give the bytes of shared memory that the tensors of a frame occupy."""
    end = at = 0
    for _ in range(head.tensors):
        _, rank, location, _, offset, size = _TENSOR.unpack_from(body, at)
        at += _TENSOR.size + 8 * rank
        end = max(end, offset + size) if location == _SHARED else end
    return end


def text(words: str) -> Array:
    """Give text as a tensor."""
    return np.array(words.encode(), np.object_)


def words(tensor: Array) -> str:
    """Give the text of a tensor made by `text`."""
    return bytes(tensor.item()).decode()


def _raw(array: Array) -> memoryview:
    if array.dtype != np.object_:
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    strings = array.ravel().tolist()
    # Lengths come first, so that splitting does not scan the strings' bytes.
    lengths = np.fromiter(map(len, strings), np.uint64, len(strings))
    return memoryview(b"".join((lengths.tobytes(), *strings)))


def _array(dtype: DataType, shape: tuple[int, ...], buffer: FrameBytes, offset: int) -> Array:
    count = math.prod(shape)
    if dtype is not DataType.STRING:
        return np.frombuffer(buffer, dtype.numpy, count, offset).reshape(shape)
    lengths: list[int] = np.frombuffer(buffer, np.uint64, count, offset).tolist()
    strings = np.empty(count, np.object_)
    at = offset + 8 * count
    for number, length in enumerate(lengths):
        strings[number] = bytes(buffer[at : at + length])
        at += length
    return strings.reshape(shape)


def _aligned(offset: int, to: int) -> int:
    return -(-offset // to) * to

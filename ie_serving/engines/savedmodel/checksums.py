"""Compares variables with the checksums that TensorFlow writes beside them.

Source: tensor_bundle.cc (`BundleReader::GetValue`, `WriteStringTensor`), format.cc and crc32c.h of
TensorFlow.
"""

import math
import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import google_crc32c

from ie_serving.core.values.tensors import DataType
from ie_serving.engines.savedmodel.file import VARIANT
from ie_serving.wire.protobuf.fields import Unclear, read_varint
from ie_serving.wire.protobuf.messages import Proto

_BLOCK_BYTES = 1 << 18
"""Bytes that are summed at a time: they hold the interpreter for less than 0.1 ms, while other
versions serve. Larger blocks are no faster."""
_SUM_BYTES = 4


def block_is_whole(content: bytes, stored: bytes) -> bool:
    """Compare a block of the index, with the byte that tells its compression, with its sum."""
    return not _is_fast() or _masked(_extended(0, content)) == int.from_bytes(stored, "little")


def of_block(content: bytes) -> bytes:
    """Give the sum that stands behind a block of the index."""
    return _masked(_extended(0, content)).to_bytes(4, "little")


def damaged(file: BinaryIO, entries: Iterable[tuple[bytes, Proto]]) -> bytes | None:
    """Name the first variable whose bytes do not match their checksum.

    Args:
        file: one data file.
        entries: names and BundleEntryProtos of the variables in it.
    """
    if not _is_fast():
        return None
    for name, entry in sorted(entries, key=lambda each: each[1].offset):
        # Without a sum nothing is known; TensorFlow writes one even for an empty tensor. Messages
        # are nothing that a checkpoint is read for here.
        if entry.crc32c and entry.dtype != VARIANT and _sum_of(file, entry) != entry.crc32c:
            return name
    return None


def _is_fast() -> bool:
    # Without its C part the library takes a minute for 100 MB.
    return google_crc32c.implementation == "c"


def _sum_of(file: BinaryIO, entry: Proto) -> int | None:
    """Give the masked sum of a variable's bytes; None where they cannot be told apart."""
    file.seek(entry.offset)
    if entry.dtype == DataType.STRING.number:
        return _sum_of_strings(file.read(entry.size), math.prod(d.size for d in entry.shape.dim))
    crc = 0
    for block in _blocks(file, entry.size):
        crc = _extended(crc, block)
    return _masked(crc)


def _sum_of_strings(data: bytes, count: int) -> int | None:
    """Sum the lengths as numbers of fixed size, then the bytes after them in the file."""
    view, at, crc = memoryview(data), 0, 0
    try:
        for _ in range(count):
            length, at = read_varint(view, at)
            crc = _extended(crc, struct.pack("<I" if length < 1 << 32 else "<Q", length))
    except (Unclear, IndexError):
        return None
    stored = int.from_bytes(data[at : at + _SUM_BYTES], "little")
    return _masked(_extended(crc, data[at:])) if stored == _masked(crc) else None


def _blocks(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size and (block := file.read(min(size, _BLOCK_BYTES))):
        yield block
        size -= len(block)


def _extended(crc: int, data: bytes) -> int:
    return int(google_crc32c.extend(crc, data))


def _masked(crc: int) -> int:
    """Rotate a sum, as it is stored, so that it may be summed again."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF

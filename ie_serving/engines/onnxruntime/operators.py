"""Which operators an ONNX graph uses, read from the file without loading it.

Field numbers: onnx.proto3 (ModelProto, GraphProto, NodeProto); wire format: protobuf's encoding
guide. Weights are skipped, not read, so a file of gigabytes takes milliseconds.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

# ModelProto.graph, GraphProto.node, NodeProto.op_type and .domain; the wire types of protobuf.
_GRAPH, _NODE, _TYPE, _DOMAIN = 7, 1, 4, 7
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def uses_domain(path: Path, domain: str) -> bool:
    """Tell whether an operator of the main graph is of `domain`; False for what is no ONNX file."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return any(found == domain.encode() for found in _texts(file, size, _DOMAIN))
    except (OSError, ValueError):
        return False


def operators_of(path: Path) -> frozenset[str]:
    """Name the operators of the main graph; none for what is no ONNX file."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return frozenset(found.decode() for found in _texts(file, size, _TYPE))
    except (OSError, ValueError):
        return frozenset()


def _texts(file: BinaryIO, size: int, field: int) -> Iterator[bytes]:
    """Give a field of each node."""
    for graph in _parts(file, (0, size), _GRAPH):
        for node in _parts(file, graph, _NODE):
            for start, end in _parts(file, node, field):
                file.seek(start)
                yield file.read(end - start)


def _parts(file: BinaryIO, within: tuple[int, int], wanted: int) -> Iterator[tuple[int, int]]:
    for number, start, end in _fields(file, *within):
        if number == wanted:
            yield start, end


def _fields(file: BinaryIO, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Give number, start and end of each field between two places of the file."""
    while at < end:
        file.seek(at)
        key = _varint(file)
        length = _length(file, key & 7)
        start = file.tell()
        at = start + length
        if at > end:
            raise ValueError("a field ends beyond its message")
        yield key >> 3, start, at


def _length(file: BinaryIO, kind: int) -> int:
    """Read up to where a field's content begins, and give its length in bytes.

    The content of a varint is read over, as nobody asks for one.
    """
    if kind == _VARINT:
        _varint(file)
        return 0
    if kind == _BYTES:
        return _varint(file)
    if kind not in (_FIXED64, _FIXED32):
        raise ValueError("not a protocol buffer")  # groups end here too: ONNX has none
    return 8 if kind == _FIXED64 else 4


def _varint(file: BinaryIO) -> int:
    value = 0
    # Ten bytes of seven bits carry 64 bits; an eleventh makes the varint malformed.
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            break
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    raise ValueError("not a protocol buffer")

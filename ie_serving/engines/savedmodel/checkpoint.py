"""Reads variables of a SavedModel by name from `variables.index` and `variables.data-*`.

The index is a sorted table of LevelDB's form whose values are BundleEntryProto; the data files hold
the tensors' bytes one after the other. Variables are compared with the checksums that TensorFlow
writes beside them.

Source: tensor_bundle.cc (`BundleReader::GetValue`, `WriteStringTensor`), tensor_bundle.proto,
crc32c.h, and lib/io/format.cc and block.cc of TensorFlow.
"""

import math
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import google_crc32c
import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import BY_NUMBER, Array, DataType
from ie_serving.engines.savedmodel.file import VARIANT
from ie_serving.wire.protobuf import graph
from ie_serving.wire.protobuf.fields import UnusualField, read_varint, varint
from ie_serving.wire.protobuf.messages import Proto

VARIABLES = "variables/variables"
"""Prefix of the names of the variables' files in a version's directory."""
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5
"""Bytes behind a block: the byte of its compression, and its checksum."""
_MAGIC = 0xDB4775248B80FB57
_OBJECTS = b"_CHECKPOINTABLE_OBJECT_GRAPH"
_OBJECTS_READ_BYTES = 1 << 14
"""Bytes of the graph of objects from which OpenVINO 2026.4 reads no names of variables."""
_PLAIN = 0
"""Compression of a block: none. TensorFlow writes no other into a checkpoint's index."""


class _CompressedIndex(ValueError):
    """The index is compressed, which TensorFlow never does."""


class Checkpoint:
    """The variables of a SavedModel.

    Args of the constructor:
        prefix: path of the files up to `.index`.

    Raises:
        LoadFailed: the index cannot be read.
    """

    def __init__(self, prefix: Path) -> None:
        self._prefix = prefix
        try:
            data = Path(f"{prefix}.index").read_bytes()
            self._entries = dict(_entries(memoryview(data)))
        except OSError as error:
            raise LoadFailed(f"{prefix.name}.index cannot be read: {error.strerror}") from error
        except (ValueError, IndexError, UnusualField) as error:
            raise LoadFailed(
                f"{prefix.name}.index is damaged, {_as_text(error)}: upload the version again"
            ) from error
        self._header = graph.BundleHeaderProto.FromString(self._entries.pop(b"", b""))
        self._shards = max(self._header.num_shards, 1)

    @property
    def is_unread(self) -> bool:
        """Whether OpenVINO would find no variable, or the wrong one, by the graph of objects.

        It finds none where that graph is too long, and the wrong one where several variables share
        a name: those without a name are all called Variable in TensorFlow 2.0 to 2.3.
        """
        entry = graph.BundleEntryProto.FromString(self._entries.get(_OBJECTS, b""))
        if not entry.size:
            return False
        if entry.size > _OBJECTS_READ_BYTES:
            return True
        names = [each.full_name for each in self._saved if each.full_name]
        return len({*names}) < len(names)

    @cached_property
    def _saved(self) -> list[Proto]:
        objects = graph.TrackableObjectGraph.FromString(self.read(_OBJECTS).item())
        return [each for node in objects.nodes for each in node.attributes]

    @cached_property
    def keys(self) -> dict[bytes, bytes]:
        """Names of entries by the names of variables in TensorFlow 2, from the graph of objects."""
        return {each.full_name.encode(): each.checkpoint_key.encode() for each in self._saved}

    def index_by(self, keys: Mapping[bytes, bytes]) -> bytes:
        """Write an index of the same files by other names, without the graph of objects.

        Args:
            keys: keys of entries, by their new names.
        """
        named = {name: self._entries[key] for name, key in keys.items() if key in self._entries}
        entries = [(b"", self._header.SerializeToString()), *sorted(named.items())]
        block = _written(entries)
        handle = varint(0) + varint(len(block) - _TRAILER_BYTES)
        listed = _written([(entries[-1][0], handle)])
        end = varint(len(block)) + varint(len(listed) - _TRAILER_BYTES)
        footer = (end + end).ljust(_FOOTER_BYTES - 8, b"\0") + _MAGIC.to_bytes(8, "little")
        return block + listed + footer

    @cached_property
    def sliced(self) -> frozenset[bytes]:
        """Names of the variables that are held in slices, which OpenVINO does not read."""
        entries = ((k, graph.BundleEntryProto.FromString(v)) for k, v in self._entries.items())
        return frozenset(name for name, entry in entries if entry.slices)

    def check(self) -> None:
        """Check the length and the checksums of every data file against the index.

        Each file is read once: 100 MB take 30 ms to sum, beside the time of the disk.

        Raises:
            LoadFailed: one is missing, cut short, or does not have the checksums of the index.
        """
        by_shard: dict[int, list[tuple[bytes, Proto]]] = defaultdict(list)
        for name, data in self._entries.items():
            entry = graph.BundleEntryProto.FromString(data)
            by_shard[entry.shard_id].append((name, entry))
        for shard, entries in sorted(by_shard.items()):
            _check_size(self._path(shard), max(each.offset + each.size for _, each in entries))
            self._check_sums(shard, entries)

    def _check_sums(self, shard: int, entries: Sequence[tuple[bytes, Proto]]) -> None:
        path = self._path(shard)
        try:
            with path.open("rb") as file:
                damaged = differing(file, entries)
        except OSError as error:
            raise LoadFailed(f"{path.name} cannot be read: {error.strerror}") from error
        if damaged is not None:
            raise LoadFailed(
                f"{path.name} is damaged, the variable {damaged.decode(errors='replace')!r} does"
                f" not have the checksum that {self._prefix.name}.index promises: uploaded"
                " incompletely or damaged: upload the version again"
            )

    def read(self, name: bytes) -> Array:
        """Read one variable.

        Raises:
            LoadFailed: there is none, its dtype is not read here, or its bytes are cut short.
        """
        shown = name.decode(errors="replace")
        if name not in self._entries:
            raise LoadFailed(
                f"{self._prefix.name}.index has no variable {shown!r}"
                ": export the model again, and upload all files"
            )
        entry = graph.BundleEntryProto.FromString(self._entries[name])
        if entry.dtype not in BY_NUMBER or entry.dtype == DataType.BF16.number:
            raise LoadFailed(
                f"the variable {shown!r} is of a dtype not read here:"
                " export the model with another one, such as float32"
            )
        if entry.slices:
            return self._joined(name, entry)
        data = self._bytes(entry)
        shape = tuple(dim.size for dim in entry.shape.dim)
        dtype = BY_NUMBER[entry.dtype]
        try:
            if dtype is DataType.STRING:
                return _strings(memoryview(data), shape)
            return np.frombuffer(data, dtype.numpy).reshape(shape)
        except (ValueError, UnusualField) as error:
            raise LoadFailed(
                f"the variable {shown!r} cannot be read: {error}; upload the version again"
            ) from error

    def _joined(self, name: bytes, whole: Proto) -> Array:
        """Read a variable from its slices, each of which has an entry of its own."""
        shape = tuple(dim.size for dim in whole.shape.dim)
        joined = np.empty(shape, BY_NUMBER[whole.dtype].numpy)
        for part in whole.slices:
            extents = [(each.start, each.length or -1) for each in part.extent]
            key = _slice_key(name, extents)
            region = tuple(
                slice(None) if length == -1 else slice(start, start + length)
                for start, length in extents
            )
            joined[region] = self.read(key)
        return joined

    def _bytes(self, entry: Proto) -> bytes:
        path = self._path(entry.shard_id)
        try:
            with path.open("rb") as file:
                file.seek(entry.offset)
                return file.read(entry.size)
        except OSError as error:
            raise LoadFailed(f"{path.name} cannot be read: {error}") from error

    def _path(self, shard: int) -> Path:
        return Path(f"{self._prefix}.data-{shard:05d}-of-{self._shards:05d}")


def check_variables(directory: Path) -> Checkpoint | None:
    """Check that the variables of a SavedModel are undamaged; give them, where it has any.

    Engines' errors on a truncated file do not name the cause, and no engine could read it.

    Raises:
        LoadFailed: a file is damaged; names the file, the fault and the remedy.
    """
    prefix = directory / VARIABLES
    if not Path(f"{prefix}.index").is_file():
        return None
    try:
        checkpoint = Checkpoint(prefix)
        checkpoint.check()
    except LoadFailed as error:
        # OpenVINO reads compressed tables; only the host's part cannot.
        if not isinstance(error.__cause__, _CompressedIndex):
            raise
        return None
    return checkpoint


def _written(entries: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Write a block whose keys share nothing, with its trailer."""
    parts = (b"\0" + varint(len(key)) + varint(len(value)) + key + value for key, value in entries)
    block = b"".join(parts) + struct.pack("<II", 0, 1) + bytes([_PLAIN])
    return block + of_block(block)


def _slice_key(name: bytes, extents: Sequence[tuple[int, int]]) -> bytes:
    """Name the entry of a slice. Source: saved_tensor_slice_util.cc and ordered_code.cc."""
    escaped = name.replace(b"\0", b"\0\xff").replace(b"\xff", b"\xff\0") + b"\0\1"
    numbers = (number for extent in extents for number in extent)
    rank = bytes((1, len(extents))) if extents else b"\0"
    return b"\0" + escaped + rank + b"".join(map(_ordered, numbers))


def _ordered(number: int) -> bytes:
    """Write a number so that texts are in the order of numbers: its length in bits ahead of it."""
    length = next(size for size in range(1, 8) if number < 1 << (7 * size - 1))
    data = number.to_bytes(length, "big", signed=True)
    return bytes((data[0] ^ (0xFF << (8 - length)) & 0xFF, *data[1:]))


def _check_size(path: Path, needed: int) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise LoadFailed(f"{path.name} is missing: upload the version again") from None
    if size < needed:
        raise LoadFailed(
            f"{path.name} is cut short, it has {size} bytes and the variables take {needed}:"
            " upload the version again"
        )


def _as_text(error: Exception) -> str:
    return str(error) or "it is cut short"


def _strings(data: memoryview, shape: tuple[int, ...]) -> Array:
    """Read lengths as varints, 4 bytes of their checksum, then all bytes."""
    at = 0
    lengths = []
    for _ in range(int(np.prod(shape))):
        length, at = read_varint(data, at)
        lengths.append(length)
    at += 4
    texts = np.empty(len(lengths), np.object_)
    for row, length in enumerate(lengths):
        texts[row] = bytes(data[at : at + length])
        at += length
    if at > len(data):
        raise ValueError("it is cut short")
    shaped: Array = texts.reshape(shape)
    return shaped


def _entries(data: memoryview) -> Iterator[tuple[bytes, bytes]]:
    footer = data[-_FOOTER_BYTES:]
    if int.from_bytes(footer[-8:], "little") != _MAGIC:
        raise ValueError("it is no table, or is cut short")
    at = 0
    for _ in range(2):  # the handle of the block of meta data, which is not needed
        _, at = read_varint(footer, at)
    for _, handle in _block(data, *_handle(footer[at:])):
        yield from _block(data, *_handle(memoryview(handle)))


def _handle(data: memoryview) -> tuple[int, int]:
    offset, at = read_varint(data, 0)
    size, _ = read_varint(data, at)
    return offset, size


def _block(data: memoryview, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Read the entries of a block: each key says how much of the one before it begins with."""
    block = data[offset : offset + size]
    if offset + size >= len(data):
        raise ValueError("it is cut short")
    if data[offset + size] != _PLAIN:
        raise _CompressedIndex("a block is compressed")
    after = offset + size + 1
    if not block_is_whole(bytes(data[offset:after]), bytes(data[after : after + 4])):
        raise ValueError("a block does not have its checksum")
    restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (restarts + 1)
    at, key = 0, b""
    while at < end:
        shared, at = read_varint(block, at)
        own, at = read_varint(block, at)
        length, at = read_varint(block, at)
        key = key[:shared] + bytes(block[at : at + own])
        yield key, bytes(block[at + own : at + own + length])
        at += own + length


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


def differing(file: BinaryIO, entries: Iterable[tuple[bytes, Proto]]) -> bytes | None:
    """Name the first variable whose bytes do not match their checksum.

    Args:
        file: one data file.
        entries: names and BundleEntryProtos of the variables in it.
    """
    if not _is_fast():
        return None
    for name, entry in sorted(entries, key=lambda each: each[1].offset):
        # An entry without a sum is not compared; TensorFlow writes one even for an empty tensor.
        # Messages are not read from checkpoints.
        if entry.crc32c and entry.dtype != VARIANT and _sum_of(file, entry) != entry.crc32c:
            return name
    return None


def _is_fast() -> bool:
    # The library takes a minute for 100 MB without its C part.
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
    except (UnusualField, IndexError):
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

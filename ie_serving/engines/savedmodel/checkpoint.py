"""Variables of a SavedModel, read by name: the files `variables.index` and `variables.data-*`.

The index is a sorted table of LevelDB's form whose values are BundleEntryProto; the data files hold
the tensors' bytes one after the other.

Source: tensor_bundle.cc, tensor_bundle.proto, and lib/io/format.cc and block.cc of TensorFlow.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import BY_NUMBER, Array, DataType
from ie_serving.engines.savedmodel import checksums
from ie_serving.wire.protobuf import graph
from ie_serving.wire.protobuf.fields import Unclear, read_varint
from ie_serving.wire.protobuf.messages import Proto

VARIABLES = "variables/variables"
"""How the files of the variables begin in a version's directory."""
_FOOTER_BYTES = 48
_MAGIC = 0xDB4775248B80FB57
_PLAIN = 0
"""Compression of a block: none. TensorFlow writes no other into a checkpoint's index."""


class _Compressed(ValueError):
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
        except (ValueError, IndexError, Unclear) as error:
            raise LoadFailed(
                f"{prefix.name}.index is damaged, {_as_text(error)}: upload the version again"
            ) from error
        header = graph.BundleHeaderProto.FromString(self._entries.pop(b"", b""))
        self._shards = max(header.num_shards, 1)

    def check(self) -> None:
        """See that every data file is as long as the index says, and holds what was written.

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
                damaged = checksums.damaged(file, entries)
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
            LoadFailed: there is none, it is partitioned, or its bytes are cut short.
        """
        shown = name.decode(errors="replace")
        if name not in self._entries:
            raise LoadFailed(f"{self._prefix.name}.index has no variable {shown!r}")
        entry = graph.BundleEntryProto.FromString(self._entries[name])
        if entry.slices or entry.dtype not in BY_NUMBER or entry.dtype == DataType.BF16.number:
            raise LoadFailed(f"the variable {shown!r} is partitioned, or of a dtype not read here")
        data = self._bytes(entry)
        shape = tuple(dim.size for dim in entry.shape.dim)
        dtype = BY_NUMBER[entry.dtype]
        try:
            if dtype is DataType.STRING:
                return _strings(memoryview(data), shape)
            return np.frombuffer(data, dtype.numpy).reshape(shape)
        except (ValueError, Unclear) as error:
            raise LoadFailed(f"the variable {shown!r} cannot be read: {error}") from error

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


def check_variables(directory: Path) -> None:
    """See that the variables of a SavedModel are whole, where it has any.

    Engines say of a file that is cut short whatever they stumble over, and other engines could not
    read it either.

    Raises:
        LoadFailed: a file is damaged; with its name, what is wrong and what to do.
    """
    prefix = directory / VARIABLES
    if not Path(f"{prefix}.index").is_file():
        return
    try:
        Checkpoint(prefix).check()
    except LoadFailed as error:
        # OpenVINO reads what is compressed; only the host's part does without.
        if not isinstance(error.__cause__, _Compressed):
            raise


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
        raise _Compressed("a block is compressed")
    after = offset + size + 1
    if not checksums.block_is_whole(bytes(data[offset:after]), bytes(data[after : after + 4])):
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

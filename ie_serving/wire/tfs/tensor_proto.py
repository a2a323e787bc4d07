"""Decodes TensorProto. Source: tensor.proto, types.proto, and Tensor::FromProto of TensorFlow.

Values are in `tensor_content` as raw bytes, or in the list of their dtype. TensorFlow is lenient
with lists, and so is this module: a list that is too short is filled up with its last value (an
empty one with zeros), surplus values are dropped, a list of another dtype is ignored, and integers
wrap to the width of their dtype.
"""

import math
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from ie_serving.core.runtime.budget import BUDGET, SMALL, Budget
from ie_serving.core.values.errors import (
    InvalidRequest,
    InvalidTensor,
    QueueFull,
    RequestTooLarge,
    advised,
)
from ie_serving.core.values.tensors import BY_NUMBER, Array, DataType
from ie_serving.wire.protobuf import fields, packed
from ie_serving.wire.protobuf.fields import Encoded
from ie_serving.wire.protobuf.messages import Proto

MOST_FILLED_BYTES = 1 << 26
"""Most bytes of one request's tensors that are filled up from lists too short for their shape; a
string counts as 8 bytes. A few bytes can demand any size, and filling a gigabyte blocks the event
loop for seconds; the message bounds tensors that have all their values."""

FILLED = Budget(4 * MOST_FILLED_BYTES)
"""Bytes of all filled-up tensors at a time. They cost their senders a few bytes, and other requests
would wait behind each for as long as the model takes for 64 MB."""

MOST_DIMENSIONS = 32
"""The most that every supported numpy can hold."""

FEW_VALUES = 64
"""Length from which protobuf's own conversion to numpy beats a Python list."""


class ListField(NamedTuple):
    """A repeated field of TensorProto.

    Attributes:
        number: field number.
        name: field name.
        kind: wire type of one value.
        dtype: dtype of its values as they travel; None for bytes.
    """

    number: int
    name: str
    kind: int
    dtype: np.dtype[np.generic] | None


_FLOATS = ListField(5, "float_val", fields.FIXED32, np.dtype(np.float32))
_DOUBLES = ListField(6, "double_val", fields.FIXED64, np.dtype(np.float64))
_INTS = ListField(7, "int_val", fields.VARINT, np.dtype(np.int32))
_STRINGS = ListField(8, "string_val", fields.DELIMITED, None)
_LONGS = ListField(10, "int64_val", fields.VARINT, np.dtype(np.int64))
_BOOLS = ListField(11, "bool_val", fields.VARINT, np.dtype(np.bool_))
_HALVES = ListField(13, "half_val", fields.VARINT, np.dtype(np.int32))
_UINTS = ListField(16, "uint32_val", fields.VARINT, np.dtype(np.uint32))
_ULONGS = ListField(17, "uint64_val", fields.VARINT, np.dtype(np.uint64))

LIST_OF: Final[Mapping[DataType, ListField]] = {
    DataType.FP32: _FLOATS,
    DataType.FP64: _DOUBLES,
    DataType.INT32: _INTS,
    DataType.UINT8: _INTS,
    DataType.INT16: _INTS,
    DataType.INT8: _INTS,
    DataType.STRING: _STRINGS,
    DataType.INT64: _LONGS,
    DataType.BOOL: _BOOLS,
    DataType.BF16: _HALVES,
    DataType.UINT16: _INTS,
    DataType.FP16: _HALVES,
    DataType.UINT32: _UINTS,
    DataType.UINT64: _ULONGS,
}
"""Fields with the values of each dtype."""

LISTS: Final[Mapping[int, ListField]] = {f.number: f for f in LIST_OF.values()}
"""Fields by field number."""

CONTENT = 4
"""Number of the field `tensor_content`."""

BITS: Final[Mapping[DataType, np.dtype[np.generic]]] = {
    DataType.FP16: np.dtype(np.uint16),
    DataType.BF16: np.dtype(np.uint16),
    DataType.BOOL: np.dtype(np.uint8),
}
"""Dtypes of elements in memory on the wire, where they are not as their numpy dtype."""


class FillBudget:
    """The bytes that may still be filled up in one request."""

    def __init__(self, most_bytes: int = MOST_FILLED_BYTES) -> None:
        self._left = most_bytes

    def take(self, given: int, shape: tuple[int, ...], dtype: DataType) -> None:
        """Allow that `given` values fill a tensor.

        Raises:
            InvalidTensor: it is too large for that.
        """
        size = math.prod(shape) * dtype.numpy.itemsize
        if size > self._left:
            raise InvalidTensor(
                f"{given} values are given for shape {shape} of {dtype.word}, which takes {size}"
                f" bytes; {self._left} bytes more may be filled up in this request: send every"
                " value"
            )
        self._left -= size


def missing_bytes(tensor: Proto, encoded: int = 0) -> int:
    """Count the bytes of values that a tensor lacks, which decoding fills up.

    A tensor that `decode_tensor` would refuse counts as complete.

    Args:
        tensor: message.
        encoded: bytes of values that are not in the message; each may be one value.
    """
    dims = tensor.tensor_shape.dim
    dtype = BY_NUMBER.get(tensor.dtype)
    if tensor.tensor_content or dtype is None or len(dims) > MOST_DIMENSIONS:
        return 0
    given = encoded or len(getattr(tensor, LIST_OF[dtype].name))
    missing = math.prod([int(dim.size) for dim in dims]) - given
    return max(missing, 0) * dtype.numpy.itemsize


@dataclass(frozen=True, slots=True)
class SplitTensor:
    """A TensorProto whose values were left in the received bytes.

    Attributes:
        rest: message of everything else, dtype and shape among it.
        content: `tensor_content`.
        lists: encoded values by field number; the pieces of one list in their order.
    """

    rest: Proto
    content: Encoded
    lists: Mapping[int, list[memoryview]]

    def missing_bytes(self) -> int:
        """As `missing_bytes`; fewer where values take several bytes of their list."""
        pieces = (len(piece) for pieces in self.lists.values() for piece in pieces)
        return missing_bytes(self.rest, len(self.content) + sum(pieces))


def decode_tensor(
    tensor: Proto | SplitTensor, alias: str, filling: FillBudget | None = None
) -> Array:
    """Decode one tensor, without copying where the wire allows it.

    Args:
        tensor: message, or message and views.
        alias: name of the input, for errors.
        filling: filling of the request; None when this is its one tensor.

    Returns:
        Array of the tensor's shape, dtype as in `tensors.DataType.numpy`. From `tensor_content` it
        is a read-only view, not always aligned, except for BOOL, BF16 and STRING; else new.

    Raises:
        InvalidTensor: no dtype of this server, impossible shape, wrong number of bytes, too large.
        InvalidRequest: a list is not validly encoded.
    """
    # TensorFlow's prefix for both kinds of error, so that it can be searched for.
    filling = filling or FillBudget()
    try:
        if isinstance(tensor, SplitTensor):
            read = partial(_from_pieces, tensor.lists)
            return _decode(tensor.rest, tensor.content, read, filling)
        return _decode(tensor, tensor.tensor_content, partial(_from_message, tensor), filling)
    except InvalidTensor as error:
        raise InvalidTensor(advised(f"tensor parsing error: {alias}", f": {error}")) from None
    except ValueError as error:
        raise InvalidRequest(advised(f"tensor parsing error: {alias}", f": {error}")) from error


ReadList = Callable[[ListField, int], Array | list[bytes]]
"""Gives the values of a list: at least the given number, if the list has as many."""


def _decode(proto: Proto, content: Encoded, read: ReadList, filling: FillBudget) -> Array:
    dtype = _dtype(proto)
    shape = _shape(proto)
    count = math.prod(shape)
    if content and dtype is DataType.STRING:
        return _strings(_split_strings(content, count), shape, count)
    if content:
        return _from_content(content, dtype, shape, count)
    values = read(LIST_OF[dtype], count)
    # The number is checked before anything of that size is allocated.
    if len(values) < count:
        filling.take(len(values), shape, dtype)
    if isinstance(values, list):
        return _strings(values, shape, count)
    return _shaped(_filled(_from_list(values[:count], dtype), count), shape)


def _dtype(proto: Proto) -> DataType:
    dtype = BY_NUMBER.get(proto.dtype)
    if dtype is None:
        known = ", ".join(known.wire_name for known in DataType)
        raise InvalidTensor(f"dtype {proto.dtype} is not supported; expected one of {known}")
    return dtype


def _shape(proto: Proto) -> tuple[int, ...]:
    shape = proto.tensor_shape
    if shape.unknown_rank:
        raise InvalidTensor("tensor_shape has unknown_rank; give every dimension")
    if len(shape.dim) > MOST_DIMENSIONS:
        raise InvalidTensor(f"{len(shape.dim)} dimensions; at most {MOST_DIMENSIONS} are supported")
    sizes = tuple([dim.size for dim in shape.dim])
    if sizes and min(sizes) < 0:
        raise InvalidTensor(f"shape {sizes} has a negative dimension; give the actual size")
    return sizes


def _shaped(values: Array, shape: tuple[int, ...]) -> Array:
    try:
        return values.reshape(shape)
    except ValueError as error:
        raise InvalidTensor(f"shape {shape} is too large: {error}") from error


def _from_content(content: Encoded, dtype: DataType, shape: tuple[int, ...], count: int) -> Array:
    raw = BITS.get(dtype, dtype.numpy)
    if len(content) != count * raw.itemsize:
        raise InvalidTensor(
            f"tensor_content has {len(content)} bytes; {dtype.word} of shape {shape} takes"
            f" {count * raw.itemsize}"
        )
    return _shaped(from_bits(np.frombuffer(content, raw), dtype), shape)


def from_bits(bits: Array, dtype: DataType) -> Array:
    """Give elements as `DataType.numpy` from their bits as `BITS` has them; a view where it can."""
    if dtype is DataType.BF16:
        wide: Array = bits.astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32)
    if dtype is DataType.BOOL:
        # Any other byte than 0 and 1 would be an invalid bool, with which numpy computes wrongly.
        return np.not_equal(bits, 0)
    return bits.view(dtype.numpy)


def _from_list(values: Array, dtype: DataType) -> Array:
    # `half_val` carries the bits of both, as integers.
    if dtype is DataType.FP16 or dtype is DataType.BF16:
        return from_bits(values.astype(np.uint16), dtype)
    return values.astype(dtype.numpy, copy=False)


def _filled(values: Array, count: int) -> Array:
    given = len(values)
    if given == count:
        return values
    filled = np.frombuffer(_counted(np.empty(count * values.itemsize, np.uint8)).data, values.dtype)
    filled[:given] = values
    filled[given:] = values[-1] if given else 0
    return filled


def _counted(array: Array) -> Array:
    """Lease the memory to fill up, unless it is small; give the array to use.

    Raises:
        QueueFull: other filled-up tensors, or all requests, take too much.
        RequestTooLarge: it exceeds the limit of all requests.
    """
    if array.nbytes < SMALL:
        return array
    try:
        lease = FILLED.lease(array.nbytes)
    except (QueueFull, RequestTooLarge) as error:
        raise QueueFull(
            f"tensors that are filled up from a few values hold {FILLED.held} of at most"
            f" {FILLED.limit} bytes, and this one takes {array.nbytes} more: send every value, or"
            " send it again later"
        ) from error
    counted = BUDGET.counted(array)
    weakref.finalize(counted, lease.release)
    return counted


def _from_message(proto: Proto, field: ListField, count: int) -> Array | list[bytes]:
    values = getattr(proto, field.name)
    if field.dtype is None:
        return list(values[:count])  # shares the bytes with the message, copies none
    return np.array(values[:] if len(values) < FEW_VALUES else values, field.dtype)


def _from_pieces(
    lists: Mapping[int, list[memoryview]], field: ListField, count: int
) -> Array | list[bytes]:
    pieces = lists.get(field.number, [])
    if field.dtype is None:
        return [bytes(piece) for piece in pieces[:count]]
    raw = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if field.kind == fields.VARINT:
        return packed.decode_varints(raw, count, field.dtype)
    return np.frombuffer(raw, field.dtype)


def _split_strings(content: Encoded, count: int) -> list[bytes]:
    """Split the `tensor_content` of strings: all lengths as varints, then all bytes."""
    view = memoryview(content)
    try:
        lengths, at = _lengths(view, count)
    except fields.UnusualField:
        raise InvalidTensor(
            f"tensor_content does not hold {count} strings: their lengths, then their bytes"
        ) from None
    values = []
    for length in lengths:
        values.append(bytes(view[at : at + length]))
        at += length
    return values


def _lengths(view: memoryview, count: int) -> tuple[list[int], int]:
    """Read the lengths of `count` strings, and where the first of them begins.

    Raises:
        UnusualField: they do not fill the rest of `view` exactly.
    """
    # A string takes at least the byte of its length: a count that a shape invents costs nothing.
    if count > len(view):
        raise fields.UnusualField
    lengths, at = [], 0
    for _ in range(count):
        length, at = fields.read_varint(view, at)
        lengths.append(length)
    if at + sum(lengths) != len(view):
        raise fields.UnusualField
    return lengths, at


def _strings(values: list[bytes], shape: tuple[int, ...], count: int) -> Array:
    array: Array = np.empty(count, np.object_)
    if count > len(values):
        array = _counted(array)
    array[: len(values)] = values
    array[len(values) :] = values[-1] if values else b""
    return _shaped(array, shape)

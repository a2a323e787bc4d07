"""Reads and writes raw tensors: the binary data extension of REST, `raw_*_contents` of gRPC.

Elements lie in row-major order, little-endian, without gaps: BOOL takes 1 byte, FP16 and BF16
take 2, and each element of BYTES is its length as 4 bytes, then itself. Source: "Binary Tensor
Data Extension" of Triton, "Raw Tensor Contents" of the protocol.
"""

import math
import struct
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from ie_serving.core.runtime.budget import BUDGET, SMALL, LeasedMemory
from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import BY_NUMPY, Array, DataType, sent_in, strings
from ie_serving.wire.kserve.datatypes import NAME_OF, shown
from ie_serving.wire.protobuf.fields import Encoded
from ie_serving.wire.tfs.tensor_encoder import TensorEncoder
from ie_serving.wire.tfs.tensor_proto import BITS, MOST_DIMENSIONS, from_bits

LENGTH: Final = 4
"""Bytes before each element of BYTES that say how long it is."""
ELEMENT: Final = 64
"""Bytes that an element takes in memory beside its own: an object, and its place in a list and in
an array."""
_LENGTH: Final = struct.Struct("<I")
_ENCODERS: Final = {
    each: TensorEncoder(each, tensor_content=True)
    for each in DataType
    if each is not DataType.STRING
}


def checked_shape(sizes: Sequence[object], tensor: str) -> tuple[int, ...]:
    """Give a shape that a client sent.

    Args:
        sizes: sizes of its dimensions, as they came.
        tensor: name of the input, for the error.

    Raises:
        InvalidTensor: too many dimensions, or one that is no size.
    """
    if len(sizes) > MOST_DIMENSIONS:
        raise InvalidTensor(
            f'input "{tensor}" has {len(sizes)} dimensions; at most {MOST_DIMENSIONS} are supported'
        )
    shape: list[int] = []
    for size in sizes:
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            sent = ", ".join(map(shown, sizes))[:200]
            raise InvalidTensor(
                f'input "{tensor}" has shape [{sent}]: each dimension has to be'
                " the actual size, 0 or more"
            )
        shape.append(size)
    return tuple(shape)


def decode_raw(raw: Encoded, dtype: DataType, shape: tuple[int, ...], tensor: str) -> Array:
    """Decode the bytes of one tensor, without copying where memory has them alike.

    Args:
        raw: exactly its bytes.
        dtype: dtype of the tensor.
        shape: no dimension is negative.
        tensor: name of the input, for errors.

    Returns:
        Array of that shape, dtype as `DataType.numpy`: a view of `raw`, not always aligned; new
        for BOOL, BF16 and BYTES.

    Raises:
        InvalidTensor: there are more bytes, or fewer, than the tensor takes.
    """
    count = math.prod(shape)
    if dtype is DataType.STRING:
        return shaped(_elements(raw, count, tensor), shape, tensor)
    bits = BITS.get(dtype, dtype.numpy)
    if len(raw) != count * bits.itemsize:
        raise InvalidTensor(
            f'input "{tensor}" has {len(raw)} bytes; {NAME_OF[dtype]} of shape'
            f" {list(shape)} takes {count * bits.itemsize}"
        )
    return shaped(from_bits(np.frombuffer(raw, bits), dtype), shape, tensor)


def _elements(raw: Encoded, count: int, tensor: str) -> Array:
    """Give the elements of BYTES, counted in the budget where they are many.

    Raises:
        InvalidTensor: these are not `count` elements.
        RequestTooLarge, BudgetFull: as `Budget.lease`.
    """
    size = count * ELEMENT
    if size < SMALL or count * LENGTH > len(raw):
        return strings(split_elements(raw, count, tensor))
    lease = BUDGET.lease(size)
    # The owner of the memory has the lease, whatever views stand between.
    owner = LeasedMemory((count,), np.object_)
    owner.lease = lease
    owner[:] = split_elements(raw, count, tensor)
    found: Array = owner.view(np.ndarray)
    return found


def encode_raw(array: Array, dtype: DataType) -> Encoded:
    """Encode one tensor.

    Args:
        array: any shape; BF16 as float32, BYTES as objects of bytes.
        dtype: dtype on the wire.

    Returns:
        Bytes, or a view of an array's memory: often of `array` itself.
    """
    if dtype is DataType.STRING:
        return join_elements(array.reshape(-1).tolist())
    return _ENCODERS[dtype].body(array)


def untyped_tensor(array: Array) -> tuple[str, tuple[int, ...], Encoded]:
    """Give what an untyped tensor is, datatype, shape and bytes; see `core/values/tensors.py`."""
    if (sent := sent_in(array)) is not None:
        return sent.datatype, sent.shape, sent
    dtype = BY_NUMPY[array.dtype]
    return NAME_OF[dtype], array.shape, encode_raw(array, dtype)


def split_elements(raw: Encoded, count: int, tensor: str) -> list[bytes]:
    """Split the bytes of a BYTES tensor into its elements.

    Args:
        raw: exactly its bytes.
        count: number of elements.
        tensor: name of the input, for the error.

    Raises:
        InvalidTensor: these are not `count` elements.
    """
    view, end, at = memoryview(raw), len(raw), 0
    elements: list[bytes] = []
    # An element takes at least its length: a count that a shape invents costs nothing.
    if count * LENGTH <= end:
        while at + LENGTH <= end and len(elements) < count:
            (length,) = _LENGTH.unpack_from(view, at)
            at += LENGTH + length
            elements.append(bytes(view[at - length : at]))
    if at != end or len(elements) != count:
        raise InvalidTensor(
            f'input "{tensor}" has {end} bytes; expected {count} elements of BYTES, each with'
            f" {LENGTH} bytes of its length, little-endian, before it"
        )
    return elements


def join_elements(elements: Iterable[bytes]) -> bytes:
    """Give the bytes of a BYTES tensor."""
    pieces: list[bytes] = []
    for element in elements:
        pieces += (_LENGTH.pack(len(element)), element)
    return b"".join(pieces)


def shaped(values: Array, shape: tuple[int, ...], tensor: str) -> Array:
    """Give values, which are as many as the shape has, that shape. Raises: InvalidTensor."""
    try:
        return values.reshape(shape)
    except (OverflowError, ValueError) as error:  # one of 0, others whose product is too large
        raise InvalidTensor(f'input "{tensor}" has shape {list(shape)}: {error}') from error

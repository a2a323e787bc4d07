"""Decodes typed contents of a tensor (`InferTensorContents`) to numpy.

Each element type has one list there, except FP16 and BF16, which are sent raw. Unlike TensorFlow's
lists these must have exactly the values of the tensor, each in its range.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import Array, DataType, strings
from ie_serving.wire.kserve.datatypes import NAME_OF
from ie_serving.wire.kserve.raw import shaped
from ie_serving.wire.protobuf import fields, packed
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.tensor_proto import FEW_VALUES, ListField

_BOOLS: Final = ListField(1, "bool_contents", fields.VARINT, np.dtype(np.bool_))
_INTS: Final = ListField(2, "int_contents", fields.VARINT, np.dtype(np.int32))
_LONGS: Final = ListField(3, "int64_contents", fields.VARINT, np.dtype(np.int64))
_UINTS: Final = ListField(4, "uint_contents", fields.VARINT, np.dtype(np.uint32))
_ULONGS: Final = ListField(5, "uint64_contents", fields.VARINT, np.dtype(np.uint64))
_FLOATS: Final = ListField(6, "fp32_contents", fields.FIXED32, np.dtype(np.float32))
_DOUBLES: Final = ListField(7, "fp64_contents", fields.FIXED64, np.dtype(np.float64))
_BYTES: Final = ListField(8, "bytes_contents", fields.DELIMITED, None)

LIST_OF: Final[Mapping[DataType, ListField]] = {
    DataType.BOOL: _BOOLS,
    DataType.INT8: _INTS,
    DataType.INT16: _INTS,
    DataType.INT32: _INTS,
    DataType.INT64: _LONGS,
    DataType.UINT8: _UINTS,
    DataType.UINT16: _UINTS,
    DataType.UINT32: _UINTS,
    DataType.UINT64: _ULONGS,
    DataType.FP32: _FLOATS,
    DataType.FP64: _DOUBLES,
    DataType.STRING: _BYTES,
}
"""Fields with the values of each element type; FP16 and BF16 have none."""

LISTS: Final[Mapping[int, ListField]] = {f.number: f for f in LIST_OF.values()}
"""Fields by field number."""

ContentPieces: TypeAlias = Mapping[int, Sequence[memoryview]]
"""Encoded values by the number of their list; the pieces of one list in their order."""


def decode_contents(
    contents: Proto | ContentPieces, dtype: DataType, shape: tuple[int, ...], tensor: str
) -> Array:
    """Decode the typed values of one tensor.

    Args:
        contents: the message, or where its lists lie.
        dtype: dtype of the tensor.
        shape: no dimension is negative.
        tensor: name of the input, for errors.

    Returns:
        Array of that shape; FP32 and FP64 in one piece as a view, all else new.

    Raises:
        InvalidTensor: values in another list than the one of the element type, more or fewer of
            them than the tensor has, or one out of its range.
        ValueError: a list is not validly encoded.
    """
    wanted = LIST_OF.get(dtype)
    if wanted is None:
        raise InvalidTensor(
            f'input "{tensor}" is {NAME_OF[dtype]}, which typed contents do not have: send it in'
            " raw_input_contents"
        )
    given = _filled(contents)
    others = [name for number, name in given.items() if number != wanted.number]
    if others:
        raise InvalidTensor(
            f'input "{tensor}" has values in {", ".join(others)}; those of {NAME_OF[dtype]} belong'
            f" in {wanted.name}"
        )
    count = math.prod(shape)
    values = _values(contents, wanted)
    if len(values) != count:
        raise InvalidTensor(
            f'input "{tensor}" has {len(values)} values in {wanted.name}; {NAME_OF[dtype]} of shape'
            f" {list(shape)} takes {count}"
        )
    if isinstance(values, list):
        return shaped(strings(values), shape, tensor)
    return shaped(_in_range(values, dtype, tensor), shape, tensor)


def texts_of(contents: Proto | ContentPieces) -> list[bytes]:
    """Give the values of BYTES, however many the shape says."""
    return [*_values(contents, _BYTES)]


def _filled(contents: Proto | ContentPieces) -> dict[int, str]:
    """Name the lists that have values, by number."""
    if isinstance(contents, Mapping):
        return {
            number: LISTS[number].name
            for number, pieces in contents.items()
            if any(pieces) or LISTS[number].dtype is None
        }
    return {field.number: field.name for field, _ in contents.ListFields()}


def _values(contents: Proto | ContentPieces, wanted: ListField) -> Array | list[bytes]:
    if not isinstance(contents, Mapping):
        values = getattr(contents, wanted.name)
        if wanted.dtype is None:
            return list(values)
        return np.array(values[:] if len(values) < FEW_VALUES else values, wanted.dtype)
    pieces = contents.get(wanted.number, ())
    if wanted.dtype is None:
        return [bytes(piece) for piece in pieces]
    raw = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if wanted.kind == fields.VARINT:
        return packed.decode_varints(raw, len(raw), wanted.dtype)
    return np.frombuffer(raw, wanted.dtype)


def _in_range(values: Array, dtype: DataType, tensor: str) -> Array:
    """Narrow values sent in a wider list. Raises: InvalidTensor: a value is out of range."""
    if values.dtype == dtype.numpy:
        return values
    narrow: Array = values.astype(dtype.numpy)
    if not np.array_equal(narrow, values):
        raise InvalidTensor(
            f'input "{tensor}" holds values out of the range of {NAME_OF[dtype]}'
            ": send values that it can hold"
        )
    return narrow

"""Encodes numpy arrays to the bytes of a TensorProto, without making a message.

Two styles: raw bytes in `tensor_content`, which costs one copy; or the list of the dtype, fully
expanded, which is what TensorFlow Serving sends by default. Strings go into `string_val` in both,
since TensorFlow's `make_ndarray` reads them nowhere else.
"""

from typing import Final

import numpy as np

from ie_serving.core.values.tensors import Array, DataType
from ie_serving.wire.protobuf import fields
from ie_serving.wire.protobuf.fields import Encoded
from ie_serving.wire.protobuf.packed import encode_varints
from ie_serving.wire.tfs.tensor_proto import BITS, CONTENT, LIST_OF

_DTYPE: Final = 1
_SHAPE: Final = 2
"""Field numbers of TensorProto."""
_DIM: Final = 2
"""Field number of TensorShapeProto."""
_SIZE: Final = 1
"""Field number of TensorShapeProto.Dim."""


class TensorEncoder:
    """Encodes arrays of one dtype in one style.

    Args of the constructor:
        dtype: element type on the wire.
        tensor_content: raw bytes, or the typed list.

    Attributes:
        in_memory: numpy's dtype of values whose bytes are the same on the wire as in memory, so
            that a view of an array is its body; None for values that need conversion.
    """

    def __init__(self, dtype: DataType, *, tensor_content: bool) -> None:
        listed = LIST_OF[dtype]
        # Decided here once, so that `body` checks as little as possible.
        self._numpy = dtype.numpy
        self._bits = BITS.get(dtype, dtype.numpy)
        self._list = listed
        self._string = dtype is DataType.STRING
        self._bf16 = dtype is DataType.BF16
        self._varints = not tensor_content and listed.kind == fields.VARINT
        rewritten = self._string or self._bf16 or self._varints
        self.in_memory = None if rewritten else dtype.numpy
        self._field = CONTENT if tensor_content else listed.number
        self._start = fields.tag(_DTYPE, fields.VARINT) + fields.varint(dtype.number)

    def body(self, array: Array) -> Encoded:
        """Encode the values.

        Args:
            array: any shape; BF16 as float32, STRING as objects of bytes. Converted to the dtype's
                numpy type if it has another.

        Returns:
            Bytes, or a view of an array's memory: often of `array` itself.
        """
        values = np.ascontiguousarray(array, self._numpy)
        if self.in_memory is not None:
            return values.data
        if self._string:
            return fields.strings(self._list.number, values.reshape(-1).tolist())
        if self._bf16:
            # The upper half of a float32 is the bfloat16, cut off: exact, since it came as one.
            values = (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        if not self._varints:
            return values.data
        return encode_varints(values.view(self._bits))

    def head(self, shape: tuple[int, ...], length: int) -> bytes:
        """Encode the bytes before a body of `length` bytes."""
        dims = b"".join([fields.delimited(_DIM, _dim(size)) for size in shape])
        start = self._start + fields.delimited(_SHAPE, dims)
        # Each string has its own tag in the body; and an empty field would be one that is absent.
        if self._string or length == 0:
            return start
        return start + fields.head(self._field, length)


def size_of(body: Encoded) -> int:
    """Count the bytes of a body."""
    return body.nbytes if isinstance(body, memoryview) else len(body)


def _dim(size: int) -> bytes:
    return fields.tag(_SIZE, fields.VARINT) + fields.varint(size) if size else b""

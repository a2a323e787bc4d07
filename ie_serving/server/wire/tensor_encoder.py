"""numpy -> TensorProto, as bytes, without making a message.

Two styles: raw bytes in `tensor_content`, which costs one copy; or the list of the dtype, fully
expanded, which is what TensorFlow Serving sends by default. Strings go into `string_val` in both,
since TensorFlow's `make_ndarray` reads them nowhere else.
"""

import numpy as np

from ie_serving.server.wire import fields
from ie_serving.server.wire.fields import Buffer
from ie_serving.server.wire.tensor_proto import BITS, CONTENT, LIST_OF
from ie_serving.tensors import Array, DataType

_DTYPE = 1
_SHAPE = 2
_DIM = 2
_SIZE = 1


class TensorEncoder:
    """Encodes arrays of one dtype in one style.

    Args of the constructor:
        dtype: element type on the wire.
        tensor_content: raw bytes, or the typed list.
    """

    def __init__(self, dtype: DataType, *, tensor_content: bool) -> None:
        listed = LIST_OF[dtype]
        self._dtype = dtype
        self._list = listed
        self._string = dtype is DataType.STRING
        self._varints = not tensor_content and listed.kind == fields.VARINT
        self._field = CONTENT if tensor_content else listed.number
        self._start = fields.tag(_DTYPE, fields.VARINT) + fields.varint(dtype.number)

    def body(self, array: Array) -> Buffer:
        """Encode the values.

        Args:
            array: any shape; BF16 as float32, STRING as objects of bytes. Converted to the dtype's
                numpy type if it has another.

        Returns:
            Bytes, or a view of an array's memory: often of `array` itself.
        """
        values = np.ascontiguousarray(array, self._dtype.numpy)
        if self._string:
            return fields.strings(self._list.number, values.reshape(-1).tolist())
        if self._dtype is DataType.BF16:
            values = (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        if not self._varints:
            return values.data
        return fields.encode_varints(values.view(BITS.get(self._dtype, values.dtype)))

    def head(self, shape: tuple[int, ...], length: int) -> bytes:
        """Encode what precedes a body of `length` bytes."""
        dims = b"".join([fields.delimited(_DIM, _dim(size)) for size in shape])
        start = self._start + fields.delimited(_SHAPE, dims)
        if self._string or length == 0:
            return start
        return start + fields.head(self._field, length)


def size_of(body: Buffer) -> int:
    """Count the bytes of a body."""
    return body.nbytes if isinstance(body, memoryview) else len(body)


def _dim(size: int) -> bytes:
    return fields.tag(_SIZE, fields.VARINT) + fields.varint(size) if size else b""

"""Tensors mean to TensorFlow what they mean here: its encoder and decoder are the reference."""

import numpy as np
import pytest

from ie_serving.core.values.tensors import Array, DataType
from ie_serving.wire.protobuf import messages
from ie_serving.wire.tfs.tensor_encoder import TensorEncoder, size_of
from ie_serving.wire.tfs.tensor_proto import LIST_OF, decode_tensor

tf = pytest.importorskip("tensorflow")

SHAPES = [(), (1,), (2, 3), (0, 4)]
NUMERIC = [dtype for dtype in DataType if dtype is not DataType.STRING]


def encode_tensor(array: Array, dtype: DataType, *, tensor_content: bool) -> bytes:
    """Encode a whole TensorProto."""
    encoder = TensorEncoder(dtype, tensor_content=tensor_content)
    body = encoder.body(array)
    return b"".join([encoder.head(array.shape, size_of(body)), body])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", NUMERIC)
def test_tensors_of_make_tensor_proto_are_read(dtype: DataType, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    proto = tf.make_tensor_proto(values, dtype=tf.as_dtype(dtype.number), shape=shape)
    decoded = decode_tensor(messages.TensorProto.FromString(proto.SerializeToString()), "x")
    assert decoded.dtype == dtype.numpy
    np.testing.assert_array_equal(decoded, values.astype(dtype.numpy))


@pytest.mark.parametrize("tensor_content", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", NUMERIC)
def test_make_ndarray_reads_tensors_written_here(
    dtype: DataType, shape: tuple[int, ...], tensor_content: bool
) -> None:
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype.numpy)
    encoded = encode_tensor(values, dtype, tensor_content=tensor_content)
    read = tf.make_ndarray(_proto(encoded))
    assert read.shape == shape
    np.testing.assert_array_equal(read.astype(values.dtype), values)


@pytest.mark.parametrize("tensor_content", [True, False])
def test_strings_pass_both_ways(tensor_content: bool) -> None:
    values = np.array([[b"a\x00"], [b"\xff"]], np.object_)
    encoded = encode_tensor(values, DataType.STRING, tensor_content=tensor_content)
    assert tf.make_ndarray(_proto(encoded)).tolist() == values.tolist()
    proto = tf.make_tensor_proto(values, dtype=tf.string)
    decoded = decode_tensor(messages.TensorProto.FromString(proto.SerializeToString()), "x")
    assert decoded.tolist() == values.tolist()


@pytest.mark.parametrize("given", [0, 1, 2, 4, 6], ids=lambda n: f"{n} of 4 values")
@pytest.mark.parametrize("dtype", list(DataType))
def test_leniency_is_that_of_parse_tensor(dtype: DataType, given: int) -> None:
    listed = LIST_OF[dtype]
    numbers = [0x3F80, 0x4000, 300, 0x13C00, 5, 6][:given]
    values = [b"%d" % n for n in numbers] if listed.dtype is None else numbers
    message = messages.TensorProto(dtype=dtype.number, **{listed.name: values})
    message.tensor_shape.dim.add(size=2)
    message.tensor_shape.dim.add(size=2)
    reference = tf.io.parse_tensor(message.SerializeToString(), tf.as_dtype(dtype.number)).numpy()
    decoded = decode_tensor(message, "x")
    np.testing.assert_array_equal(decoded, reference.astype(decoded.dtype))


def _proto(encoded: bytes) -> object:
    from tensorflow.core.framework.tensor_pb2 import TensorProto

    return TensorProto.FromString(encoded)

"""numpy to TensorProto: what protobuf parses is what was encoded, in both styles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ie_serving.core.values.tensors import Array, DataType
from ie_serving.wire.protobuf import messages
from ie_serving.wire.tfs.tensor_encoder import TensorEncoder, size_of
from ie_serving.wire.tfs.tensor_proto import LIST_OF, decode_tensor

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


def encode_tensor(array: Array, dtype: DataType, *, tensor_content: bool) -> bytes:
    """Encode a whole TensorProto."""
    encoder = TensorEncoder(dtype, tensor_content=tensor_content)
    body = encoder.body(array)
    return b"".join([encoder.head(array.shape, size_of(body)), body])


@st.composite
def tensors(draw: st.DrawFn) -> tuple[DataType, Array]:
    dtype = draw(st.sampled_from(list(DataType)))
    if dtype is DataType.STRING:
        return dtype, draw(hnp.arrays(np.object_, SHAPES, elements=st.binary(max_size=5)))
    array = draw(hnp.arrays(dtype.numpy, SHAPES))
    if dtype is DataType.BF16:
        bits = np.atleast_1d(array).view(np.uint32) & np.uint32(0xFFFF0000)
        array = bits.view(np.float32).reshape(array.shape)
    return dtype, array


@given(tensors(), st.booleans())
def test_round_trip(tensor: tuple[DataType, Array], tensor_content: bool) -> None:
    dtype, array = tensor
    encoded = encode_tensor(array, dtype, tensor_content=tensor_content)
    decoded = decode_tensor(messages.TensorProto.FromString(encoded), "x")
    assert decoded.dtype == array.dtype
    np.testing.assert_array_equal(decoded, array)


@pytest.mark.parametrize("dtype", [d for d in DataType if d is not DataType.STRING])
def test_each_style_uses_its_field_only(dtype: DataType) -> None:
    array = np.ones((1, 2), dtype.numpy)
    for tensor_content in (True, False):
        encoded = encode_tensor(array, dtype, tensor_content=tensor_content)
        message = messages.TensorProto.FromString(encoded)
        assert message.dtype == dtype.number
        assert [dim.size for dim in message.tensor_shape.dim] == [1, 2]
        values = "tensor_content" if tensor_content else LIST_OF[dtype].name
        assert {field.name for field, _ in message.ListFields()} == {
            "dtype",
            "tensor_shape",
            values,
        }


def test_lists_are_fully_expanded() -> None:
    encoded = encode_tensor(np.ones(3, np.int8), DataType.INT8, tensor_content=False)
    assert list(messages.TensorProto.FromString(encoded).int_val) == [1, 1, 1]


@pytest.mark.parametrize("tensor_content", [True, False])
def test_strings_stand_where_make_ndarray_reads_them(tensor_content: bool) -> None:
    array = np.array([b"a\x00", b""], np.object_)
    encoded = encode_tensor(array, DataType.STRING, tensor_content=tensor_content)
    assert list(messages.TensorProto.FromString(encoded).string_val) == [b"a\x00", b""]


def test_an_array_that_is_not_contiguous_is_encoded_row_by_row() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    encoded = encode_tensor(array, DataType.FP32, tensor_content=True)
    decoded = decode_tensor(messages.TensorProto.FromString(encoded), "x")
    assert decoded.tolist() == array.tolist()

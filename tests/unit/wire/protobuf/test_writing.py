"""What is written is what protobuf reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.wire.protobuf import fields, messages


@given(st.integers(-(2**63), 2**64 - 1))
def test_a_varint_is_protobuf_s(value: int) -> None:
    encoded = fields.tag(10, fields.VARINT) + fields.varint(value)
    (read,) = messages.TensorProto.FromString(encoded).int64_val
    assert read % 2**64 == value % 2**64


@pytest.mark.parametrize("size", [0, 1, 127, 128, 20_000])
def test_a_delimited_field_is_read_by_protobuf(size: int) -> None:
    encoded = fields.delimited(4, b"x" * size)
    assert encoded == fields.head(4, size) + b"x" * size
    assert messages.TensorProto.FromString(encoded).tensor_content == b"x" * size


@given(st.lists(st.binary(max_size=200)))
def test_a_repeated_field_of_bytes_is_read_by_protobuf(values: list[bytes]) -> None:
    read = messages.TensorProto.FromString(fields.strings(8, values))
    assert list(read.string_val) == values

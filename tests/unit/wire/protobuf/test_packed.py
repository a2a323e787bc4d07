"""Packed varints: what is read and written is protobuf's, whole arrays at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.wire.protobuf import fields, messages, packed

INT64 = st.integers(-(2**63), 2**63 - 1)
UINT64 = st.integers(0, 2**64 - 1)


@given(st.lists(INT64))
def test_packed_varints_are_protobufs(values: list[int]) -> None:
    message = messages.TensorProto(int64_val=values).SerializeToString()
    raw = packed.encode_varints(np.array(values, np.int64))
    assert message == (fields.delimited(10, bytes(raw)) if values else b"")


@given(st.lists(INT64), st.integers(0, 200))
def test_as_many_varints_as_wanted_come_back(values: list[int], most: int) -> None:
    raw = packed.encode_varints(np.array(values, np.int64))
    decoded = packed.decode_varints(raw, most, np.int64)
    assert decoded.dtype == np.int64
    assert decoded.tolist() == values[:most]


@given(st.lists(UINT64))
def test_unsigned_varints_round_trip(values: list[int]) -> None:
    raw = packed.encode_varints(np.array(values, np.uint64))
    assert packed.decode_varints(raw, len(values), np.uint64).tolist() == values


def test_varints_are_whole_where_blocks_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "BLOCK", 16)
    values = np.array([1, 300, -1, 2**40, 0, -5] * 20, np.int64)
    raw = packed.encode_varints(values)
    assert packed.decode_varints(raw, values.size, np.int64).tolist() == values.tolist()


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"\x80", id="cut short"),
        pytest.param(b"\x01\xff\xff", id="cut short after a whole one"),
        pytest.param(b"\xff" * 10 + b"\x01", id="eleven bytes"),
        pytest.param(b"\x80" * 1000, id="no end in sight"),
    ],
)
def test_malformed_varints_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="varint"):
        packed.decode_varints(raw, 0, np.int64)

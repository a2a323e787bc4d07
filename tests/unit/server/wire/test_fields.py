"""The wire format: what is read is what protobuf reads, whole arrays at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.server.wire import fields, messages
from ie_serving.server.wire.fields import Unclear

INT64 = st.integers(-(2**63), 2**63 - 1)
UINT64 = st.integers(0, 2**64 - 1)


@given(st.lists(INT64))
def test_packed_varints_are_protobufs(values: list[int]) -> None:
    message = messages.TensorProto(int64_val=values).SerializeToString()
    packed = fields.encode_varints(np.array(values, np.int64))
    assert message == (fields.delimited(10, bytes(packed)) if values else b"")


@given(st.lists(INT64), st.integers(0, 200))
def test_as_many_varints_as_wanted_come_back(values: list[int], most: int) -> None:
    packed = fields.encode_varints(np.array(values, np.int64))
    decoded = fields.decode_varints(packed, most, np.int64)
    assert decoded.dtype == np.int64
    assert decoded.tolist() == values[:most]


@given(st.lists(UINT64))
def test_unsigned_varints_round_trip(values: list[int]) -> None:
    packed = fields.encode_varints(np.array(values, np.uint64))
    assert fields.decode_varints(packed, len(values), np.uint64).tolist() == values


def test_varints_are_whole_where_blocks_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "_BLOCK", 16)
    values = np.array([1, 300, -1, 2**40, 0, -5] * 20, np.int64)
    packed = fields.encode_varints(values)
    assert fields.decode_varints(packed, values.size, np.int64).tolist() == values.tolist()


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(b"\x80", id="cut short"),
        pytest.param(b"\x01\xff\xff", id="cut short after a whole one"),
        pytest.param(b"\xff" * 10 + b"\x01", id="eleven bytes"),
        pytest.param(b"\x80" * 1000, id="no end in sight"),
    ],
)
def test_malformed_varints_are_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match="varint"):
        fields.decode_varints(packed, 0, np.int64)


@given(st.binary(max_size=64))
def test_fields_cover_the_message_without_gap_or_overlap(data: bytes) -> None:
    try:
        found = fields.scan(memoryview(data))
    except Unclear:
        return
    starts = [field.start for field in found]
    ends = [field.end for field in found]
    assert starts == ([0, *ends[:-1]] if found else [])
    assert ends[-1:] == ([len(data)] if data else [])
    assert all(f.start < f.value <= f.end for f in found)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x0a\x05ab", id="length beyond the end"),
        pytest.param(b"\x0b\x0c", id="group"),
        pytest.param(b"\x02\x00", id="field number 0"),
        pytest.param(b"\x0d\x00", id="fixed32 cut short"),
        pytest.param(b"\xff\xff\xff\xff\xff\x01", id="tag of six bytes"),
        pytest.param(b"\x08\x01" * (fields.MOST_FIELDS + 1), id="many small fields"),
    ],
)
def test_what_is_not_plain_is_left_to_protobuf(data: bytes) -> None:
    with pytest.raises(Unclear):
        fields.scan(memoryview(data))

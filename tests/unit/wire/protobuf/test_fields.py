"""The walker: it finds the fields that protobuf finds, or leaves the bytes to protobuf.

`MALFORMED` is the one table of malformed input. Every walker of a message calls `scan`, so what it
refuses here, everywhere is left to protobuf; and protobuf refuses it, too.
"""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.wire.protobuf import fields, messages
from ie_serving.wire.protobuf.fields import Field, UnusualField

MALFORMED = {
    "a tag alone": b"\x08",
    "a tag cut short": b"\x88",
    "a value cut short": b"\x08\x80",
    "a value of eleven bytes": b"\x08" + b"\x80" * 10 + b"\x01",
    "no length": b"\x0a",
    "a length cut short": b"\x0a\x80",
    "a length beyond the end": b"\x0a\x05ab",
    "a length of 2^34": b"\x0a\x80\x80\x80\x80\x40",
    "field number 0": b"\x02\x00",
    "a tag of 33 bits": b"\x80\x80\x80\x80\x10\x00",
    "a tag of six bytes": b"\xff\xff\xff\xff\xff\x01",
    "fixed32 cut short": b"\x0d\x00",
    "fixed64 cut short": b"\x09" + bytes(7),
    "wire type 6": b"\x0e\x00",
    "wire type 7": b"\x0f\x00",
    "a group that does not end": b"\x0b",
    "the end of a group": b"\x0c",
    "a group that ends as another": b"\x0b\x14",
}
"""No message at all, for the walker as for protobuf."""

SOUND_BUT_UNUSUAL = {
    "a group": b"\x0b\x0c",
    "many small fields": b"\x08\x01" * (fields.MOST_FIELDS + 1),
}
"""For protobuf a message; the walker leaves it alone."""


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("before", [b"", b"\x08\x01", fields.delimited(3, b"ab")])
def test_malformed_bytes_are_left_to_protobuf_which_refuses_them(
    data: bytes, before: bytes
) -> None:
    with pytest.raises(UnusualField):
        fields.scan(memoryview(before + data))
    with pytest.raises(DecodeError):
        messages.TensorShapeProto.FromString(before + data)


@pytest.mark.parametrize("data", SOUND_BUT_UNUSUAL.values(), ids=SOUND_BUT_UNUSUAL)
def test_unusual_bytes_are_left_to_protobuf_which_takes_them(data: bytes) -> None:
    with pytest.raises(UnusualField):
        fields.scan(memoryview(data))
    messages.TensorShapeProto.FromString(data)


@given(st.binary(max_size=64))
def test_bytes_that_are_walked_are_a_message(data: bytes) -> None:
    """Nothing is taken that protobuf refuses; and fields cover it without gap or overlap."""
    try:
        found = fields.scan(memoryview(data))
    except UnusualField:
        return
    messages.TensorShapeProto.Dim.FromString(b"".join(only_unknown(data, found)))
    starts = [field.start for field in found]
    ends = [field.end for field in found]
    assert starts == ([0, *ends[:-1]] if found else [])
    assert ends[-1:] == ([len(data)] if data else [])
    assert all(f.start < f.value <= f.end for f in found)


def only_unknown(data: bytes, found: list[Field]) -> list[bytes]:
    """Leave out fields that the message knows, whose content is checked beyond the wire format."""
    return [data[field.start : field.end] for field in found if field.number > 2]


def test_values_take_up_to_ten_bytes() -> None:
    long = b"\x08" + b"\xff" * 9 + b"\x01"
    assert [(f.value, f.end) for f in fields.scan(memoryview(long * 2))] == [(1, 11), (12, 22)]


def test_a_field_of_a_field_is_walked_in_the_same_payload() -> None:
    inner = fields.delimited(1, b"key") + fields.delimited(2, b"value")
    payload = memoryview(b"\x08\x01" + fields.delimited(2, inner) + b"\x08\x02")
    outer = fields.scan(payload)[1]
    key, value = fields.scan(payload, outer.value, outer.end)
    assert bytes(payload[key.value : key.end]) == b"key"
    assert bytes(payload[value.value : value.end]) == b"value"


def test_a_field_that_leaves_its_message_is_not_walked() -> None:
    inner = b"\x0a\x03ab"
    payload = memoryview(fields.delimited(2, inner) + b"cd")
    outer = fields.scan(payload[: len(inner) + 2])[0]
    with pytest.raises(UnusualField):
        fields.scan(payload, outer.value, outer.end)

"""A request of too many messages is refused before protobuf makes them; others are let pass."""

import time

import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.wire.protobuf import counting, messages
from ie_serving.wire.protobuf.counting import (
    COUNTED,
    MOST_FIELDS,
    MOST_MESSAGES,
    check_count,
    check_sum,
)
from ie_serving.wire.tfs.request_messages import parse
from tests.unit.wire.protobuf.nesting import nested

REQUEST = messages.ClassificationRequest
MOST_S = 5.0
"""Seconds of processor time for a tenth of the largest request that is looked at; about 0.2 on a
quiet machine."""
MESSAGES, FIELDS = MOST_MESSAGES // 10, MOST_FIELDS // 10


def examples(count: int) -> bytes:
    return nested(2, 1, content=b"\x0a\x00" * count)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(examples(MESSAGES), id="Examples"),
        pytest.param(nested(2, 1, 1, 1, content=b"\x0a\x00" * MESSAGES), id="features"),
        pytest.param(b"\x08\x00" * (FIELDS + 1), id="unknown fields"),
    ],
)
def test_too_many_are_refused_in_time_that_is_linear(payload: bytes) -> None:
    began = time.process_time()
    with pytest.raises(InvalidRequest, match="send it in parts"):
        check_count(memoryview(payload), REQUEST.DESCRIPTOR, MESSAGES, FIELDS)
    assert time.process_time() - began < MOST_S


def test_exactly_as_many_as_may_be() -> None:
    check_count(memoryview(examples(8)), REQUEST.DESCRIPTOR, 10)  # and the two around them
    with pytest.raises(InvalidRequest, match="more than 10 messages"):
        check_count(memoryview(examples(9)), REQUEST.DESCRIPTOR, 10)


def test_a_large_request_is_counted_before_it_is_parsed() -> None:
    payload = examples(MOST_MESSAGES)
    assert len(payload) >= COUNTED
    with pytest.raises(InvalidRequest, match="send it in parts"):
        parse(REQUEST, payload)


def test_serialized_messages_of_one_request_are_counted_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as the Examples that a Predict holds as strings, each of which would be let pass."""
    monkeypatch.setattr(counting, "MOST_MESSAGES", MESSAGES)
    many = [b"\x0a\x00" * (MESSAGES // 4)] * 5
    with pytest.raises(InvalidRequest, match="send it in parts"):
        check_sum(many, messages.Example.DESCRIPTOR)
    check_sum(many[:1], messages.Example.DESCRIPTOR)


PASSED_OVER = {
    "a group": b"\x13\x14",
    "a group in a group": b"\x13\x1b\x08\x00\x1c\x14",
    "a value of ten bytes": b"\x08" + b"\xff" * 9 + b"\x01",
    "a value of six bytes": b"\x08" + b"\xff" * 5 + b"\x01",
    "a long number of a field": b"\xf8\xff\xff\xff\x0f\x00",
}
"""Fields that protobuf does not know in a request, and passes over."""


@pytest.mark.parametrize("passed_over", PASSED_OVER.values(), ids=PASSED_OVER.keys())
def test_fields_that_protobuf_passes_over_do_not_end_the_count(passed_over: bytes) -> None:
    payload = passed_over + examples(10)
    parsed = parse(REQUEST, payload)
    assert len(parsed.input.example_list.examples) == 10
    check_count(memoryview(payload), REQUEST.DESCRIPTOR, 12)
    with pytest.raises(InvalidRequest, match="more than 11 messages"):
        check_count(memoryview(payload), REQUEST.DESCRIPTOR, 11)


def test_sizes_of_minus_one_do_not_end_the_count() -> None:
    """They are what clients write for a size that they do not know, and take ten bytes."""
    request = messages.PredictRequest()
    for alias in ("x", "y"):
        for _ in range(10):
            request.inputs[alias].tensor_shape.dim.add(size=-1)
    payload = memoryview(request.SerializeToString())
    check_count(payload, request.DESCRIPTOR, 26)  # of each the entry, the tensor and the shape
    with pytest.raises(InvalidRequest, match="more than 25 messages"):
        check_count(payload, request.DESCRIPTOR, 25)


@pytest.mark.parametrize("malformed", [b"\x0b", b"\x0c", b"\x0f", b"\x08" + b"\xff" * 10])
def test_messages_before_malformed_bytes_are_counted(malformed: bytes) -> None:
    """Protobuf makes it before it comes to them."""
    payload = memoryview(examples(10) + malformed)
    with pytest.raises(InvalidRequest, match="more than 11 messages"):
        check_count(payload, REQUEST.DESCRIPTOR, 11)


def test_messages_in_a_group_are_none() -> None:
    check_count(memoryview(b"\x13" + examples(10) + b"\x14"), REQUEST.DESCRIPTOR, 0)


@pytest.mark.parametrize("payload", [b"\x0b", b"\x0a", b"\x0a\x05\x00", b"\xff" * 6, b"\x00\x00"])
def test_malformed_bytes_are_for_protobuf_to_tell(payload: bytes) -> None:
    check_count(memoryview(payload), REQUEST.DESCRIPTOR)
    with pytest.raises(InvalidRequest, match="not a valid"):
        parse(REQUEST, payload)

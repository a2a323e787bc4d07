"""A request of too many messages is refused before protobuf makes them; others are let pass."""

import time

import pytest

from ie_serving.core.errors import InvalidRequest
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.counting import COUNTED, MOST_FIELDS, MOST_MESSAGES, check_count
from ie_serving.wire.tfs.requests import parse

REQUEST = messages.ClassificationRequest
MOST_S = 5.0
"""Seconds of processor time for a tenth of the largest request that is looked at; about 0.2 on a
quiet machine."""
MESSAGES, FIELDS = MOST_MESSAGES // 10, MOST_FIELDS // 10


def nested(*numbers: int, content: bytes) -> bytes:
    """Write content as the field of a field."""
    for number in reversed(numbers):
        length, digits = len(content), []
        while length >= 0x80:
            digits.append(length & 0x7F | 0x80)
            length >>= 7
        content = bytes([number << 3 | 2, *digits, length]) + content
    return content


def examples(count: int) -> bytes:
    return nested(2, 1, content=b"\x0a\x00" * count)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(examples(MESSAGES), id="Examples"),
        pytest.param(nested(2, 1, 1, 1, content=b"\x0a\x00" * MESSAGES), id="features"),
        pytest.param(b"\x08\x00" * (FIELDS + 1), id="fields that nobody knows"),
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


@pytest.mark.parametrize("payload", [b"\x0b", b"\x0a", b"\x0a\x05\x00", b"\xff" * 6, b"\x00\x00"])
def test_what_is_malformed_is_for_protobuf_to_tell(payload: bytes) -> None:
    check_count(memoryview(payload), REQUEST.DESCRIPTOR)
    with pytest.raises(InvalidRequest, match="not a valid"):
        parse(REQUEST, payload)

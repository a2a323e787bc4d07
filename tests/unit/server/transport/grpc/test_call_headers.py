"""What the headers of a request mean to gRPC."""

import pytest
from hpack import Decoder

from ie_serving.server.transport.grpc.header_blocks import Request, interpret
from ie_serving.server.transport.http2.headers import Fields

CALL = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/a.B/C"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
)


def interpreted(fields: Fields) -> Request:
    return interpret(fields, refused="")


def test_a_call() -> None:
    request = interpreted((*CALL, (b"x-bin", b"AAEC"), (b"x", b"1"), (b"x", b"2")))
    assert request.refusal is None
    assert request.path == b"/a.B/C"
    assert request.fields[-3:] == ((b"x-bin", b"AAEC"), (b"x", b"1"), (b"x", b"2"))


def test_metadata_that_is_refused_fails_the_call() -> None:
    """And no other on its connection."""
    refusal = interpret(CALL, refused="larger than 65536 bytes").refusal
    assert refusal
    told = dict(Decoder().decode(refusal))
    assert (told[":status"], told["grpc-status"]) == ("200", "8")  # RESOURCE_EXHAUSTED
    assert "65536 bytes" in told["grpc-message"]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"1H", 3600),
        (b"2M", 120),
        (b"3S", 3),
        (b"4m", 4e-3),
        (b"5u", 5e-6),
        (b"6n", 6e-9),
        (b"0S", 0),
        (b"99999999H", 99999999 * 3600),
    ],
)
def test_timeout(value: bytes, seconds: float) -> None:
    assert interpreted((*CALL, (b"grpc-timeout", value))).timeout_s == pytest.approx(seconds)


@pytest.mark.parametrize("value", [b"", b"1", b"S", b"-1S", b"123456789S", b"1s", b"1 S", b"\xb2S"])
def test_a_timeout_that_cannot_be_read_is_refused(value: bytes) -> None:
    assert interpreted((*CALL, (b"grpc-timeout", value))).refusal


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        (b"application/grpc", None),
        (b"application/grpc+proto", None),
        (b"application/grpc;charset=utf-8", None),
        (b"Application/gRPC", None),
        (b"APPLICATION/GRPC+PROTO", None),
        (b"application/grpc-web", "415"),
        (b"application/json", "415"),
        (b"", "415"),
    ],
)
def test_content_types_other_than_grpc_are_refused(content_type: bytes, status: str | None) -> None:
    head = interpreted((*CALL[:3], (b"content-type", content_type)))
    told = dict(Decoder().decode(head.refusal))[":status"] if head.refusal else None
    assert told == status


def test_methods_of_http_other_than_post_are_refused() -> None:
    head = interpreted(((b":method", b"GET"), *CALL[1:]))
    assert head.refusal
    assert dict(Decoder().decode(head.refusal)) == {":status": "405", "allow": "POST"}


def test_an_unknown_encoding_is_unimplemented_and_the_known_are_named() -> None:
    """However long its name is: the reply fits into the smallest frame."""
    head = interpreted((*CALL, (b"grpc-encoding", b"\xff" * 60_000)))
    assert head.refusal
    assert len(head.refusal) < 16_384
    told = dict(Decoder().decode(head.refusal))
    assert told["grpc-status"] == "12"
    assert told["grpc-accept-encoding"] == "identity, deflate, gzip"

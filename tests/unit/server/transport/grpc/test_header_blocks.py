"""What the headers of a request mean to gRPC, and what clients read in those of replies."""

import re
from urllib.parse import unquote

import pytest
from hpack import Decoder
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.codes import Code
from ie_serving.server.status import CUT, LONGEST_TEXT
from ie_serving.server.transport.grpc import header_blocks
from ie_serving.server.transport.grpc.header_blocks import CallHead, interpret
from ie_serving.server.transport.http2.headers import HeaderFields
from tests.tables import named_by

CALL = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/a.B/C"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
)


def interpreted(fields: HeaderFields) -> CallHead:
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


@named_by(
    "value",
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
def test_a_timeout_is_read_in_each_unit(value: bytes, seconds: float) -> None:
    assert interpreted((*CALL, (b"grpc-timeout", value))).timeout_s == pytest.approx(seconds)


@pytest.mark.parametrize("value", [b"", b"1", b"S", b"-1S", b"123456789S", b"1s", b"1 S", b"\xb2S"])
def test_a_timeout_that_cannot_be_read_is_refused(value: bytes) -> None:
    assert interpreted((*CALL, (b"grpc-timeout", value))).refusal


@named_by(
    "content_type",
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


def fields(*blocks: bytes) -> dict[str, str]:
    decoder = Decoder()
    return {name: value for block in blocks for name, value in decoder.decode(block)}


def test_a_reply_that_succeeds_has_the_headers_that_grpc_clients_expect() -> None:
    assert fields(header_blocks.HEADERS, header_blocks.SUCCESS) == {
        ":status": "200",
        "content-type": "application/grpc",
        "grpc-accept-encoding": "identity, deflate, gzip",
        "grpc-status": "0",
    }


def test_no_block_enters_the_table() -> None:
    decoder = Decoder()
    for block in (
        header_blocks.HEADERS,
        header_blocks.SUCCESS,
        header_blocks.refusal(415, ("accept", "x")),
    ):
        decoder.decode(block)
    assert not decoder.header_table.dynamic_entries


def test_clients_that_allow_no_table_are_told_that_there_is_none() -> None:
    """RFC 7541 section 4.2: the first block after the limit was lowered must say so."""
    for block in (
        header_blocks.HEADERS,
        header_blocks.refusal(415),
        header_blocks.failure(Code.INTERNAL, "x", alone=True),
    ):
        decoder = Decoder()
        decoder.max_allowed_table_size = 0
        assert decoder.decode(block)
        assert decoder.decode(header_blocks.SUCCESS)


@given(st.text(max_size=100))
def test_any_text_of_a_failure_arrives_as_the_status_message(text: str) -> None:
    """In printable ASCII, without blanks at the ends of the header, which HTTP/2 forbids."""
    told = fields(header_blocks.failure(Code.INTERNAL, text, alone=False))
    assert told["grpc-status"] == "13"
    message = told["grpc-message"]
    assert re.fullmatch(r"([!-~]([ -~]*[!-~])?)?", message)
    assert unquote(message) == text.strip("\n").encode("utf-8", "replace").decode()


@given(st.text(min_size=400, max_size=3000))
def test_a_failure_fits_into_the_smallest_frame(text: str) -> None:
    block = header_blocks.failure(Code.INTERNAL, text, f"{text}: advice", alone=True)
    assert len(block) < 16_384
    told = unquote(fields(block)["grpc-message"])
    assert len(told.encode()) <= LONGEST_TEXT
    assert told == text.strip("\n") or told.endswith(CUT)

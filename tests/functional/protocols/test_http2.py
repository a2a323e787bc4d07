"""Bytes of HTTP/2 on the gRPC port of the real command, row by row. The sections are RFC 9113's."""

import pytest

from tests.functional.protocols import http2_framing_cases as framing
from tests.functional.protocols import http2_message_cases as requests
from tests.functional.protocols import http2_more_cases as more
from tests.functional.protocols.http2_client import HELLO, PING, PREFACE, Case, frame, outcome
from tests.functional.protocols.http2_generic_cases import GENERIC
from tests.functional.servers import Server

H2SPEC = (
    *GENERIC,
    *framing.FRAMES,
    *framing.STATES,
    *framing.DEFINITIONS,
    *framing.CONTINUATIONS,
    *requests.MESSAGES,
    *requests.COMPRESSION,
)
MORE = (*more.LENGTHS, *more.SEQUENCES, *more.TRAILERS, *more.FIELDS, *more.GRPC)


def _name(case: Case) -> str:
    return f"{case.section} {case.name}"


@pytest.mark.parametrize("case", H2SPEC, ids=_name)
def test_the_server_reacts_as_h2spec_asks(digits: Server, case: Case) -> None:
    assert outcome(digits.port, HELLO, *case.sent) == case.outcome


@pytest.mark.parametrize("case", MORE, ids=_name)
def test_the_server_reacts_as_the_rfc_asks_beyond_h2spec(digits: Server, case: Case) -> None:
    assert outcome(digits.port, HELLO, *case.sent) == case.outcome


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param(
            b"INVALID CONNECTION PREFACE\r\n\r\n", "HTTP/1.1 400", id="none, as h2spec sends"
        ),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400", id="HTTP/1.1"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01", "HTTP/1.1 400", id="TLS"),
        pytest.param(PREFACE[:-1] + b"\r", "HTTP/1.1 400", id="nearly"),
        pytest.param(
            PREFACE + frame(PING, 0, 0, bytes(8)), "GOAWAY PROTOCOL_ERROR", id="no SETTINGS"
        ),
        pytest.param(PREFACE + frame(4, 1, 0), "GOAWAY PROTOCOL_ERROR", id="an ACK in their place"),
    ],
)
def test_a_wrong_preface_is_answered_in_its_protocol(
    digits: Server, sent: bytes, expected: str
) -> None:
    """Section 3.4."""
    assert outcome(digits.port, sent) == expected

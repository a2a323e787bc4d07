"""Header blocks of replies: what clients read in them."""

import re
from urllib.parse import unquote

from hpack import Decoder
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.codes import Code
from ie_serving.server.status import CUT, LONGEST_TEXT
from ie_serving.server.transport.grpc import header_blocks


def fields(*blocks: bytes) -> dict[str, str]:
    decoder = Decoder()
    return {name: value for block in blocks for name, value in decoder.decode(block)}


def test_success() -> None:
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
def test_any_text_arrives(text: str) -> None:
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

"""Blocks are decoded as the library `hpack` decodes them, and refused where it refuses them."""

import pytest
from hpack import Decoder, Encoder, HPACKError
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.server.transport.http2.headers import (
    MOST_TABLE,
    HeaderField,
    HpackReader,
    TooManyFields,
    UndecodableBlock,
)

MOST = 1000
"""Fields of one block; more than any test has, but the one of that."""

NAMES = st.one_of(
    st.sampled_from(
        [b":path", b":method", b"te", b"x-request-id", b"traceparent", b"grpc-timeout"]
    ),
    st.binary(max_size=40),
)
VALUES = st.one_of(st.sampled_from([b"POST", b"/", b"", b"trailers"]), st.binary(max_size=200))
FIELDS = st.lists(st.tuples(NAMES, VALUES, st.booleans()), max_size=8)
SIZES = st.sampled_from([None, 0, 31, 64, 200, 1000, MOST_TABLE])
BLOCKS = st.lists(st.tuples(SIZES, FIELDS, st.booleans()), max_size=12)


def reference(decoder: Decoder, block: bytes) -> list[HeaderField] | None:
    try:
        return [(bytes(name), bytes(value)) for name, value in decoder.decode(block, raw=True)]
    except (HPACKError, IndexError):
        return None


def ours(reader: HpackReader, block: bytes) -> list[HeaderField] | None:
    try:
        return reader.decode(block)
    except UndecodableBlock:
        return None


@given(BLOCKS)
def test_blocks_that_an_encoder_writes_are_decoded(blocks: list[tuple]) -> None:
    """Tables that grow, evict and change their size; strings with and without Huffman's code."""
    encoder, reader = Encoder(), HpackReader(MOST)
    for size, fields, huffman in blocks:
        if size is not None:
            encoder.header_table_size = size
        block = bytes(encoder.encode(fields, huffman=huffman))
        assert reader.decode(block) == [(name, value) for name, value, _ in fields]


PIECES = st.one_of(
    st.binary(max_size=8),
    st.integers(0x80, 0xFE).map(lambda first: bytes([first])),
    st.integers(0x20, 0x3E).map(lambda first: bytes([first])),
    st.binary(max_size=30).map(lambda text: b"\x40\x01a" + bytes([len(text)]) + text),
    st.binary(max_size=30).map(lambda text: b"\x0f\x2f" + bytes([0x80 | len(text)]) + text),
)


@given(st.lists(st.lists(PIECES, max_size=6).map(b"".join), max_size=6))
def test_any_bytes_are_decoded_as_by_the_library_or_refused(blocks: list[bytes]) -> None:
    decoder, reader = Decoder(1 << 30), HpackReader(MOST)
    for block in blocks:
        expected = reference(decoder, block)
        assert ours(reader, block) == expected
        if expected is None:
            return


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b"\x80", id="index 0"),
        pytest.param(b"\x40\x80\xff\xff\xff\xff\xff\x0f", id="a length of 36 bits"),
        pytest.param(b"\xff" + b"\x80" * 100_000 + b"\x01", id="a number of 100,000 bytes"),
        pytest.param(b"\x3f\xe2\x1f", id="a table above the limit"),
        pytest.param(b"\x82\x20", id="a change of size behind a field"),
        pytest.param(b"\x40\x01a\x85\xff\xff\xff\xff\xff", id="the end of strings as a code"),
    ],
)
def test_a_malformed_block_is_refused(block: bytes) -> None:
    with pytest.raises(UndecodableBlock):
        HpackReader(MOST).decode(block)


def test_a_block_of_too_many_fields_is_not_decoded_to_its_end() -> None:
    assert len(HpackReader(MOST).decode(b"\x82" * MOST)) == MOST
    with pytest.raises(TooManyFields):
        HpackReader(MOST).decode(b"\x82" * (MOST + 1))


def test_the_version_tells_changes_of_the_table() -> None:
    reader = HpackReader(MOST)
    for block, changes in (
        (b"\x82", False),
        (b"\x40\x01a\x01b", True),
        (b"\xbe", False),
        (b"\x3f\xe1\x1f", False),  # the size that it has
        (b"\x20", True),
        (b"\x40\x01a\x01b", True),  # larger than the table, which stays empty
    ):
        before = reader.version
        reader.decode(block)
        assert (reader.version != before) is changes

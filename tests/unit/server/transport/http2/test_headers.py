"""Header blocks: decoded like hpack decodes them, checked as RFC 9113 section 8 asks."""

import pytest
from hpack import Decoder, Encoder, HPACKError
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.server.transport.http2 import headers
from ie_serving.server.transport.http2.frames import ConnectionFault, ErrorCode
from ie_serving.server.transport.http2.headers import (
    LARGEST_BLOCK,
    LARGEST_HEADERS,
    HeaderBlock,
    HeaderFields,
    HeaderReader,
    malformed,
    malformed_fields,
)

CALL = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/a.B/C"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
)
Field = tuple[bytes, bytes]


def encoded(*fields: Field) -> bytes:
    return bytes(Encoder().encode(fields))


def decoded(block: bytes, decoder: Decoder) -> HeaderFields:
    return tuple((bytes(n), bytes(v)) for n, v in decoder.decode(block, raw=True))


def reading() -> HeaderReader:
    """A reader whose requests are why their headers are refused."""
    return HeaderReader(lambda _, refused: refused)


def read(reader: HeaderReader, block: bytes) -> HeaderBlock:
    return reader.known.get(block) or reader.decode(block)


# The known blocks.

FIELDS = st.tuples(
    st.sampled_from([b"a", b"b", b"x-long-name-of-a-header", b"grpc-timeout"]),
    st.sampled_from([b"1", b"2S", b"a value", b"v" * 60]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.lists(FIELDS, max_size=4), st.booleans()),
        st.tuples(st.just("again"), st.integers(0, 20), st.just(False)),
        st.tuples(st.just("resize"), st.sampled_from([0, 40, 64, 100, 200, 4096]), st.just(False)),
    ),
    max_size=40,
)


@given(STEPS, st.sampled_from([0, 64, 130, 4096]))
def test_known_blocks_never_tell_an_old_story(steps: list[tuple], size: int) -> None:
    """Tables that grow, evict and change their size; blocks that come again, valid or not."""
    encoder, reference, reader = Encoder(), Decoder(), reading()
    encoder.header_table_size = size
    sent: list[bytes] = []
    for step, what, never_indexed in steps:
        if step == "resize":
            encoder.header_table_size = what
            continue
        if step == "send":
            fields = [(*f, never_indexed) for f in (*CALL, *what)]
            sent.append(bytes(encoder.encode(fields)))
        elif sent:
            sent.append(sent[what % len(sent)])
        if not sent:
            continue
        try:
            expected = decoded(sent[-1], reference)
        except HPACKError:
            with pytest.raises(ConnectionFault):
                read(reader, sent[-1])
            return
        assert read(reader, sent[-1]).fields == expected


def test_an_entry_that_takes_the_place_of_another_changes_what_a_block_says() -> None:
    """A full table: it has as many entries before as after."""
    reader = reading()
    newest = b"\x83\x86\x84\xbe"  # POST, http, /, and the newest entry
    for value in (b"1", b"2", b"3"):
        read(reader, b"\x3f\x09" + b"\x40\x01a\x01" + value)  # a table of 40 bytes: one entry
        assert read(reader, newest).fields[-1] == (b"a", value)
        assert read(reader, newest) is read(reader, newest)


def test_a_block_that_changes_nothing_is_decoded_once() -> None:
    """Clients send the same few bytes for each call once their table holds the headers."""
    encoder, reader = Encoder(), reading()
    read(reader, bytes(encoder.encode(CALL)))
    short = bytes(encoder.encode(CALL))
    assert read(reader, short) is read(reader, short)


def test_memory_of_known_blocks_is_bounded() -> None:
    """Neither many blocks nor blocks of a byte per field are all remembered."""
    encoder, reader = Encoder(), reading()
    for number in range(3 * headers.MOST_KNOWN):
        read(reader, bytes(encoder.encode([(b"number", b"%d" % number, True)])))
    assert len(reader.known) <= headers.MOST_KNOWN
    many = b"\x82" * (headers.MOST_FIELDS + 1)
    assert read(reader, many) is not read(reader, many)
    assert read(reader, many[1:]) is read(reader, many[1:])


# What cannot be decoded.


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_garbage_is_a_fault_of_the_connection_or_a_head(blocks: list[bytes]) -> None:
    reader = reading()
    try:
        for block in blocks:
            assert isinstance(read(reader, block), HeaderBlock)
    except ConnectionFault as fault:
        # So few bytes cannot stand for headers that are too large; the next tests make those.
        assert fault.code is ErrorCode.COMPRESSION_ERROR


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", id="endless number"),
        pytest.param(b"\x00\x05ab", id="cut off"),
        pytest.param(b"\x82\x20", id="a size update behind a field"),
    ],
)
def test_undecodable_blocks_end_the_connection(block: bytes) -> None:
    with pytest.raises(ConnectionFault) as fault:
        reading().decode(block)
    assert fault.value.code is ErrorCode.COMPRESSION_ERROR


@pytest.mark.parametrize(
    ("repetitions", "oversized"),
    [
        pytest.param(LARGEST_HEADERS // 4200, False, id="as large as announced"),
        pytest.param(1 + LARGEST_HEADERS // 4033, True, id="larger"),
        pytest.param(LARGEST_BLOCK // 4200, True, id="larger by half"),
    ],
)
def test_headers_above_the_announced_size_are_told(repetitions: int, oversized: bool) -> None:
    """They fail their call, and the next block is decoded as if nothing was."""
    reader = reading()
    block = encoded(*CALL, (b"a", b"b" * 4000)) + b"\xbe" * (repetitions - 1)
    head = reader.decode(block)
    assert ("larger than 65536 bytes" in head.request) is oversized
    assert len(head.fields) == len(CALL) + repetitions
    assert reader.decode(b"\xbe").fields == ((b"a", b"b" * 4000),)


def test_a_small_block_of_large_headers_ends_the_connection() -> None:
    """An HPACK bomb: one field of 4 KB, then a byte for each repetition."""
    bomb = encoded((b"a", b"b" * 4000)) + b"\xbe" * 1000
    with pytest.raises(ConnectionFault) as fault:
        reading().decode(bomb)
    assert fault.value.code is ErrorCode.ENHANCE_YOUR_CALM


# What HTTP/2 forbids, and `tests/functional/protocols` does not send.


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param((*CALL, (b"host", b"me:secret@here")), id="a user before the host"),
        pytest.param(((b":authority", b"a"), *CALL, (b"host", b"a:8")), id="another port"),
        pytest.param(((b":authority", b"a"), *CALL, (b"host", b"")), id="an empty host"),
        pytest.param((*CALL, (b"host", b"a"), (b"host", b"b")), id="two hosts"),
    ],
)
def test_fields_that_are_malformed_are_found(fields: HeaderFields) -> None:
    assert malformed(fields)
    assert reading().decode(encoded(*fields)).malformed


@pytest.mark.parametrize(
    ("scheme", "authority", "host"),
    [
        pytest.param(b"http", b"here:8500", b"here:8500", id="the same"),
        pytest.param(b"http", b"Here", b"hERE", id="names have no case"),
        pytest.param(b"http", b"here", b"here:80", id="the port of http"),
        pytest.param(b"https", b"here:443", b"here", id="the port of https"),
        pytest.param(b"http", b"/run/serving.sock", b"/run/serving.sock", id="a socket's path"),
    ],
)
def test_a_host_equal_to_the_authority_is_taken(
    scheme: bytes, authority: bytes, host: bytes
) -> None:
    fields = (CALL[0], (b":scheme", scheme), CALL[2], (b":authority", authority), (b"host", host))
    assert not malformed(fields)


def test_ports_of_another_scheme_are_another_place() -> None:
    assert malformed(((b":authority", b"here"), *CALL, (b"host", b"here:443")))


def test_trailers_that_are_malformed_are_found() -> None:
    assert malformed_fields(((b"a", b"x\n"),))
    assert not malformed_fields(((b"a", b"x"),))


def test_a_request_is_decoded_with_its_length() -> None:
    fields = (*CALL, (b"x-bin", b"AAEC"), (b"x", b"1"), (b"x", b"2"), (b"content-length", b"12"))
    assert reading().decode(encoded(*fields)) == HeaderBlock(
        fields, malformed=False, content_length=12, request=""
    )

"""Header blocks of requests: decoded like hpack decodes them, checked as HTTP/2 and gRPC ask."""

import pytest
from hpack import Decoder, Encoder, HPACKError
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.server.http2 import headers
from ie_serving.server.http2.frames import ConnectionFault, ErrorCode
from ie_serving.server.http2.headers import HeaderReader, RequestHead, request_head

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


def decoded(block: bytes, decoder: Decoder) -> RequestHead:
    return request_head(tuple((bytes(n), bytes(v)) for n, v in decoder.decode(block, raw=True)))


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
    encoder, reference, reader = Encoder(), Decoder(), HeaderReader()
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
                reader.read(sent[-1])
            return
        assert reader.read(sent[-1]) == expected


def test_an_entry_that_takes_the_place_of_another_changes_what_a_block_says() -> None:
    """A full table: it has as many entries before as after."""
    reader = HeaderReader()
    newest = b"\x83\x86\x84\xbe"  # POST, http, /, and the newest entry
    for value in (b"1", b"2", b"3"):
        reader.read(b"\x3f\x09" + b"\x40\x01a\x01" + value)  # a table of 40 bytes: one entry
        assert reader.read(newest).metadata == ((b"a", value),)
        assert reader.read(newest) is reader.read(newest)


def test_a_block_that_changes_nothing_is_decoded_once() -> None:
    """Clients send the same few bytes for each call once their table holds the headers."""
    encoder, reader = Encoder(), HeaderReader()
    reader.read(bytes(encoder.encode(CALL)))
    short = bytes(encoder.encode(CALL))
    assert reader.read(short) is reader.read(short)


def test_what_is_known_of_a_connection_takes_little_memory() -> None:
    """Neither many blocks nor blocks of a byte per field are all remembered."""
    encoder, reader = Encoder(), HeaderReader()
    for number in range(3 * headers.MOST_KNOWN):
        reader.read(bytes(encoder.encode([(b"number", b"%d" % number, True)])))
    assert len(reader._known) <= headers.MOST_KNOWN
    many = b"\x82" * (headers.MOST_FIELDS + 1)
    assert reader.read(many) is not reader.read(many)
    assert reader.read(many[1:]) is reader.read(many[1:])


# What cannot be decoded.


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_garbage_is_a_fault_of_the_connection_or_a_head(blocks: list[bytes]) -> None:
    reader = HeaderReader()
    try:
        for block in blocks:
            assert isinstance(reader.read(block), RequestHead)
    except ConnectionFault as fault:
        assert fault.code in (ErrorCode.COMPRESSION_ERROR, ErrorCode.ENHANCE_YOUR_CALM)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b"\x80", id="index 0"),
        pytest.param(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", id="endless number"),
        pytest.param(b"\xc8", id="index beyond the table"),
        pytest.param(b"\x00\x05ab", id="cut off"),
        pytest.param(b"\x3f\xe2\x1f", id="a table above the limit"),
        pytest.param(b"\x82\x20", id="a size update behind a field"),
    ],
)
def test_undecodable_blocks_end_the_connection(block: bytes) -> None:
    with pytest.raises(ConnectionFault) as fault:
        HeaderReader().read(block)
    assert fault.value.code is ErrorCode.COMPRESSION_ERROR


def test_a_small_block_of_large_headers_ends_the_connection() -> None:
    """An HPACK bomb: one field of 4 KB, then a byte for each repetition."""
    bomb = encoded((b"a", b"b" * 4000)) + b"\xbe" * 1000
    with pytest.raises(ConnectionFault) as fault:
        HeaderReader().read(bomb)
    assert fault.value.code is ErrorCode.ENHANCE_YOUR_CALM


# What HTTP/2 forbids.


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(CALL[1:], id="no method"),
        pytest.param((*CALL[:2], *CALL[3:]), id="no path"),
        pytest.param((CALL[0], *CALL), id="a pseudo-header twice"),
        pytest.param((*CALL, (b":authority", b"x")), id="a pseudo-header behind others"),
        pytest.param(((b":status", b"200"), *CALL), id="a pseudo-header of replies"),
        pytest.param((*CALL, (b"Upper", b"x")), id="upper case"),
        pytest.param((*CALL, (b"", b"x")), id="no name"),
        pytest.param((*CALL, (b"a b", b"x")), id="a blank in a name"),
        pytest.param((*CALL, (b"a", b"x\r\ny: z")), id="a line break in a value"),
        pytest.param((*CALL, (b"a", b"\0")), id="a zero byte in a value"),
        pytest.param((*CALL, (b"a", b" x")), id="a blank before a value"),
        pytest.param((*CALL, (b"a", b"x\t")), id="a blank behind a value"),
        pytest.param((*CALL, (b"connection", b"close")), id="connection"),
        pytest.param((*CALL, (b"transfer-encoding", b"chunked")), id="transfer-encoding"),
        pytest.param((*CALL[:4], (b"te", b"gzip")), id="te"),
    ],
)
def test_malformed(fields: tuple[Field, ...]) -> None:
    assert request_head(fields).malformed


def test_a_call() -> None:
    head = request_head((*CALL, (b"x-bin", b"AAEC"), (b"x", b"1"), (b"x", b"2")))
    assert not head.malformed
    assert head.refusal is None
    assert head.path == b"/a.B/C"
    assert head.metadata[-3:] == ((b"x-bin", b"AAEC"), (b"x", b"1"), (b"x", b"2"))


# What gRPC asks for.


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
    assert request_head((*CALL, (b"grpc-timeout", value))).timeout_s == pytest.approx(seconds)


@pytest.mark.parametrize("value", [b"", b"1", b"S", b"-1S", b"123456789S", b"1s", b"1 S", b"\xb2S"])
def test_a_timeout_that_cannot_be_read_is_refused(value: bytes) -> None:
    assert request_head((*CALL, (b"grpc-timeout", value))).refusal


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        (b"application/grpc", None),
        (b"application/grpc+proto", None),
        (b"application/grpc;charset=utf-8", None),
        (b"application/grpc-web", "415"),
        (b"application/json", "415"),
        (b"", "415"),
    ],
)
def test_content_types_other_than_grpc_are_refused(content_type: bytes, status: str | None) -> None:
    head = request_head((*CALL[:3], (b"content-type", content_type)))
    told = dict(Decoder().decode(head.refusal))[":status"] if head.refusal else None
    assert told == status


def test_methods_of_http_other_than_post_are_refused() -> None:
    head = request_head(((b":method", b"GET"), *CALL[1:]))
    assert head.refusal
    assert dict(Decoder().decode(head.refusal)) == {":status": "405", "allow": "POST"}


def test_an_unknown_encoding_is_unimplemented_and_the_known_are_named() -> None:
    """However long its name is: the reply fits into the smallest frame."""
    head = request_head((*CALL, (b"grpc-encoding", b"\xff" * 60_000)))
    assert head.refusal
    assert len(head.refusal) < 16_384
    told = dict(Decoder().decode(head.refusal))
    assert told["grpc-status"] == "12"
    assert told["grpc-accept-encoding"] == "identity, deflate, gzip"

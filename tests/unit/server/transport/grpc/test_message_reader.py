"""Messages come out as they went in, however the bytes were cut."""

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.runtime.heaps import resident_bytes
from ie_serving.server.transport.filling import AHEAD
from ie_serving.server.transport.grpc.message_reader import MessageReader, MessageTooLarge

LIMIT = 200_000
CONTENT = st.binary(max_size=40) | st.builds(bytes, st.sampled_from([65_535, 65_536, 150_000]))
MESSAGES = st.lists(st.tuples(st.booleans(), CONTENT), max_size=6)


def framed(messages: list[tuple[bool, bytes]]) -> bytes:
    return b"".join(struct.pack(">BL", flag, len(content)) + content for flag, content in messages)


def fed(reader: MessageReader, *chunks: bytes) -> list[tuple[bool, bytes]]:
    """Feed chunks, each somewhere within a larger buffer."""
    found = []
    for chunk in chunks:
        found += reader.feed(b"<<<" + chunk + b">>", 3, 3 + len(chunk))
    return [(compressed, bytes(content)) for compressed, content in found]


@given(MESSAGES, st.data())
def test_any_cut_gives_the_same_messages(
    messages: list[tuple[bool, bytes]], data: st.DataObject
) -> None:
    whole = framed(messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    reader = MessageReader(LIMIT)
    assert fed(reader, *chunks) == messages
    assert not reader.within


def test_messages_are_read_byte_by_byte() -> None:
    messages = [(False, b""), (True, b"abc"), (False, b"")]
    whole = framed(messages)
    reader = MessageReader(LIMIT)
    assert fed(reader, *(whole[i : i + 1] for i in range(len(whole)))) == messages


@given(st.binary(min_size=1, max_size=30), st.data())
def test_it_is_known_that_a_message_is_not_whole(content: bytes, data: st.DataObject) -> None:
    whole = framed([(False, content)])
    reader = MessageReader(LIMIT)
    assert not fed(reader, whole[: data.draw(st.integers(1, len(whole) - 1))])
    assert reader.within


@pytest.mark.parametrize("start", [0, 3], ids=["at once", "behind a part of the prefix"])
def test_a_message_above_the_limit_is_refused_before_it_comes(start: int) -> None:
    reader = MessageReader(LIMIT)
    prefix = struct.pack(">BL", 0, LIMIT + 1)
    assert not fed(reader, prefix[:start])
    with pytest.raises(MessageTooLarge) as refused:
        fed(reader, prefix[start:])
    assert refused.value.length == LIMIT + 1


def test_an_announced_message_takes_no_memory_before_it_comes() -> None:
    """Announcing costs a client five bytes."""
    tracemalloc.start()
    try:
        readers = [MessageReader(1 << 30) for _ in range(3)]
        for reader in readers:
            fed(reader, struct.pack(">BL", 0, 1 << 30) + b"x")
        assert tracemalloc.get_traced_memory()[0] < 4 * AHEAD  # address space, not touched yet
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("came", [5_000, 100_000, 3_000_000])
def test_messages_in_part_take_little_more_memory_than_is_counted(came: int) -> None:
    """Also where the kernel gives huge pages, of which the first byte takes 2 MB."""
    length, piece = 40 << 20, bytes(came)
    readers = [MessageReader(1 << 30) for _ in range(30)]
    held, before = BUDGET.held, resident_bytes()
    for reader in readers:
        assert not fed(reader, struct.pack(">BL", 0, length), piece)
    assert resident_bytes() - before <= BUDGET.held - held + (8 << 20)


def test_a_message_beyond_what_was_set_aside_is_whole() -> None:
    content = bytes(range(256)) * (3 * AHEAD // 256)
    whole = framed([(False, content)])
    chunks = [whole[i : i + 1_000_001] for i in range(0, len(whole), 1_000_001)]
    assert fed(MessageReader(1 << 30), *chunks) == [(False, content)]

"""Two ends of a link: what one sends the other receives, or learns that it cannot."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from ie_serving.engines.process import link
from ie_serving.engines.process.link import Link, PeerGone, Segment
from ie_serving.engines.process.protocol import HEAD, FrameKind, text


@pytest.fixture
def pair() -> Iterator[tuple[Link, Link, int, socket.socket]]:
    """Two links that share memory, its descriptor, and the second one's socket."""
    ours, theirs = socket.socketpair()
    memory = os.memfd_create("test")
    with ExitStack() as stack:
        links = [Link(end, Segment(os.dup(memory))) for end in (ours, theirs)]
        for link in links:
            stack.callback(link.close)
        stack.callback(os.close, memory)
        yield links[0], links[1], memory, theirs


Pair = tuple[Link, Link, int, socket.socket]


def sent(sender: Link, receiver: Link, count: int) -> int:
    """Send so many bytes; how many arrived as they were."""
    array = np.arange(count, dtype=np.uint8)
    sender.send(sender.pack(FrameKind.RUN, 0, [array]))
    (found,) = receiver.receive().tensors
    return int(np.count_nonzero(found == array))


def test_memory_grows_for_large_tensors_and_is_given_back(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = 1 << 22
    monkeypatch.setattr(link, "KEPT_BYTES", kept)
    first, second, memory, _ = pair
    sizes = []
    for count in (1 << 16, kept + (1 << 20), 1 << 16, kept + (1 << 21)):
        first.shrink()
        assert sent(first, second, count) == count
        assert sent(second, first, count) == count
        sizes.append(os.fstat(memory).st_size)
    assert sizes[0] < kept < sizes[1] < sizes[3]
    assert sizes[2] == kept


def test_small_tensors_need_no_memory(pair: Pair) -> None:
    first, second, memory, _ = pair
    assert sent(first, second, 1000) == 1000
    assert os.fstat(memory).st_size == 0


def test_memory_without_a_holder_closes_its_file() -> None:
    memory = Segment(os.memfd_create("test"))
    descriptor = memory.descriptor
    memory.at_least(1)
    del memory
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_an_end_that_is_closed_is_learnt_by_the_other(pair: Pair) -> None:
    first, _, _, theirs = pair
    assert first.alive
    theirs.shutdown(socket.SHUT_RDWR)
    assert not first.alive
    with pytest.raises(PeerGone):
        first.receive()
    with pytest.raises(PeerGone):
        first.send(first.pack(FrameKind.RUN, 0, [text("x")]))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(HEAD.pack(99, 0, 0, 0), id="no kind"),
        pytest.param(HEAD.pack(FrameKind.RESULT, 0, 1, 0), id="fewer bytes than tensors"),
        pytest.param(HEAD.pack(FrameKind.RESULT, 0, 1, 24) + bytes([200]) * 24, id="no dtype"),
        pytest.param(
            HEAD.pack(FrameKind.RESULT, 0, 0, 1 << 63), id="more bytes than there is memory"
        ),
    ],
)
def test_an_end_that_sends_a_malformed_frame_counts_as_gone(pair: Pair, data: bytes) -> None:
    first, _, _, theirs = pair
    theirs.sendall(data)
    with pytest.raises(PeerGone):
        first.receive()
    assert not first.alive

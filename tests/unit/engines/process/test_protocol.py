"""Frames between the server and its TensorFlow process: what goes in comes out."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.process import protocol
from ie_serving.engines.process.protocol import ALIGNMENT, HEAD, FrameKind, ProcessFrame

NUMERIC = sorted({d.numpy for d in DataType if d is not DataType.STRING}, key=str)
SHAPES = some.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
NUMBERS = st.sampled_from(NUMERIC).flatmap(lambda dtype: some.arrays(dtype, SHAPES))
STRINGS = some.arrays(np.object_, SHAPES, elements=st.binary(max_size=20), fill=st.nothing())
TENSORS = st.lists(st.one_of(NUMBERS, STRINGS), max_size=5)


def taken_apart(frame: ProcessFrame, memory: bytearray) -> tuple[protocol.FrameHead, list[Array]]:
    """What the other end makes of a frame and of the memory that both map."""
    for offset, data in frame.shared:
        memory[offset : offset + data.nbytes] = data
    head = protocol.head_of(frame.data[: HEAD.size])
    body = frame.data[HEAD.size :]
    assert len(body) == head.size
    assert protocol.shared_bytes(head, body) == frame.shared_bytes
    return head, protocol.unpack(head, body, memory)


def exact(array: Array) -> Any:
    """All that an array says, NaN and the sign of zero included."""
    values = array.tolist() if array.dtype == np.object_ else array.tobytes()
    return array.dtype, array.shape, values


@given(TENSORS, st.sampled_from([0, 1, 64, float("inf")]), st.integers(0, 65535))
def test_tensors_come_out_as_they_went_in(
    tensors: list[Array], shared_from: float, number: int
) -> None:
    frame = protocol.pack(FrameKind.RUN, number, tensors, shared_from)
    head, found = taken_apart(frame, bytearray(frame.shared_bytes))
    assert (head.kind, head.number) == (FrameKind.RUN, number)
    assert list(map(exact, found)) == list(map(exact, tensors))


@given(TENSORS)
def test_shared_tensors_are_aligned_and_do_not_overlap(tensors: list[Array]) -> None:
    frame = protocol.pack(FrameKind.RESULT, 0, tensors, shared_from=1)
    end = 0
    for offset, data in frame.shared:
        assert offset % ALIGNMENT == 0
        assert offset >= end
        end = offset + data.nbytes
    assert end == frame.shared_bytes


def test_small_tensors_pass_through_the_socket_and_large_ones_do_not() -> None:
    small, large = np.zeros(1000, np.uint8), np.zeros(protocol.SHARED_FROM, np.uint8)
    frame = protocol.pack(FrameKind.RUN, 0, [small, large])
    assert [data.nbytes for _, data in frame.shared] == [large.nbytes]
    assert 1000 < len(frame.data) < 1200


def test_slices_and_transposed_arrays_are_sent_as_their_values() -> None:
    array = np.arange(24, dtype=np.int64).reshape(4, 6)[::2].T
    _, found = taken_apart(protocol.pack(FrameKind.RUN, 0, [array]), bytearray())
    assert found[0].tolist() == array.tolist()


def test_text_is_a_tensor() -> None:
    assert protocol.words(protocol.text("größer: ∞")) == "größer: ∞"


def test_a_head_of_no_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="99"):
        protocol.head_of(HEAD.pack(99, 0, 0, 0))

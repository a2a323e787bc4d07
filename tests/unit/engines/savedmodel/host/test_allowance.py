"""What the values of a request may make the host do: bytes, turns, and never on the event loop."""

import asyncio
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import DataType, Signature, TensorSpec
from ie_serving.engines.savedmodel.host.allowance import (
    MOST_BYTES,
    MOST_BYTES_FURTHER,
    MOST_BYTES_INLINE,
    MOST_BYTES_OF_SENT,
    MOST_TURNS,
    SENT_TIMES,
    Allowance,
    TooMuchInline,
    make_room,
    spending,
    turn,
)
from ie_serving.engines.savedmodel.host.host_kernel import Attributes
from ie_serving.engines.savedmodel.host.host_program import HostPlan, HostProgram, HostStep
from ie_serving.engines.savedmodel.host.kernels import KERNELS
from ie_serving.engines.savedmodel.host.tensor_list import LoopList, TensorList
from ie_serving.wire.protobuf import graph

HUGE = np.int32(2**31 - 1)


def kernel(operation: str, **integers: int) -> Callable[..., Any]:
    node = graph.NodeDef(name="n", op=operation)
    for name, value in integers.items():
        node.attr[name].i = value
    return KERNELS[operation].make(Attributes(node))


def longs(*values: Any) -> Any:
    return np.array(values, np.int64)


ONE = np.zeros((1, 1, 1, 3), np.uint8)
NUMBER = np.float32(1)

BOMBS: dict[str, tuple[Any, ...]] = {
    "BroadcastTo": (NUMBER, longs(HUGE, HUGE)),
    "Bincount": (longs(0), HUGE, longs()),
    "DenseBincount": (longs(0), HUGE, longs()),
    "Fill": (longs(HUGE, HUGE, HUGE, HUGE), NUMBER),
    "OneHot": (longs(0), HUGE, NUMBER, NUMBER),
    "Pad": (longs(0), longs([0, HUGE])),
    "PadV2": (longs(0), longs([HUGE, 0]), np.int64(1)),
    "RaggedBincount": (longs(0, 1), longs(0), HUGE, longs()),
    "Range": (np.int64(0), np.int64(HUGE), np.int64(1)),
    "ResizeBicubic": (ONE, longs(HUGE, 1)),
    "ResizeBilinear": (ONE, longs(HUGE, 1)),
    "ScaleAndTranslate": (ONE, longs(HUGE, 1), np.float32([1, 1]), np.float32([0, 0])),
    "ScatterNd": (longs([0]), longs(1), longs(HUGE)),
    "SparseToDense": (longs(0), longs(HUGE), NUMBER, NUMBER),
    "TensorListReserve": (longs(), HUGE),
    "Tile": (longs(1), longs(HUGE)),
    "UnsortedSegmentSum": (longs(1), longs(0), HUGE),
}


ROW = np.zeros((1, 1 << 15), np.float32)
WORDS = np.full((1, 1 << 14), b"a", np.object_)
OUTER: dict[str, tuple[Any, ...]] = {
    "AddV2": (ROW, ROW.T),
    "Equal": (ROW, ROW.T),
    "FloorDiv": (ROW, ROW.T),
    "SelectV2": (ROW > 0, ROW.T, ROW),
    "Substr": (WORDS, np.zeros((1 << 14, 1), np.int32), np.zeros((1 << 14, 1), np.int32)),
}
"""A row and a column ask for their product."""


@pytest.mark.parametrize("operation", [*BOMBS, *OUTER])
def test_a_size_is_asked_for_before_it_is_allocated(operation: str) -> None:
    with spending(Allowance()), pytest.raises(InvalidTensor, match=f"may ask for {MOST_BYTES}"):
        kernel(operation)(*{**BOMBS, **OUTER}[operation])


@pytest.mark.parametrize("operation", ["DecodePng", "DecodeJpeg", "ResizeBilinear", "While", "If"])
def test_a_kernel_that_takes_long_never_runs_on_the_event_loop(operation: str) -> None:
    assert KERNELS[operation].in_thread


@pytest.mark.parametrize("operation", [*BOMBS, *OUTER])
def test_a_size_that_takes_long_to_fill_is_not_made_on_the_event_loop(operation: str) -> None:
    allowance = Allowance()
    allowance.inline = True
    with spending(allowance), pytest.raises(TooMuchInline):
        kernel(operation)(*{**BOMBS, **OUTER}[operation])


@pytest.mark.parametrize(
    ("size", "threads"),
    [(MOST_BYTES_INLINE, ["loop"] * 3), (MOST_BYTES_INLINE + 1, ["loop", "host", "host"])],
)
async def test_a_step_that_demands_much_and_those_behind_it_run_in_a_thread(
    size: int, threads: list[str]
) -> None:
    ran: list[str] = []

    def step(demanded: int) -> HostStep:
        def compute() -> Any:
            make_room((demanded,), np.uint8)
            inline = threading.current_thread() is threading.main_thread()
            ran.append("loop" if inline else threading.current_thread().name.partition("_")[0])
            return np.float32(0)

        return HostStep("Fill 'f'", compute, (), ())

    program = HostProgram(
        HostPlan(before=[step(0), step(size), step(0)]), Signature("s", {}, {}), None
    )
    await program.infer({}, lambda outputs: None)
    program.close()
    assert ran == threads


def test_an_image_is_refused_by_what_its_header_announces() -> None:
    """3 KB may be a picture of 30,000 x 30,000 pixels."""
    pytest.importorskip("PIL")
    head = b"\0\0\x75\x30\0\0\x75\x30\x08\x02\0\0\0"
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b""))
    with spending(Allowance()), pytest.raises(InvalidTensor, match="ask for 2700000000 bytes"):
        kernel("DecodePng", channels=3)(np.array(data + chunk(b"IEND", b""), np.object_))


def chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data).to_bytes(4, "big")
    return len(data).to_bytes(4, "big") + kind + data + checksum


@pytest.mark.parametrize("operation", ["TensorListConcatV2", "TensorListStack"])
def test_an_element_that_a_list_has_often_is_asked_for_each_time(operation: str) -> None:
    """Within the list it takes a reference; a loop of a request may set as many as it has turns."""
    node = graph.NodeDef(name="n", op=operation)
    node.attr["element_dtype"].type = DataType.UINT8.number
    join = KERNELS[operation].make(Attributes(node))
    held = TensorList([np.zeros(MOST_BYTES // 1000, np.uint8)] * 2000)
    with spending(Allowance()), pytest.raises(InvalidTensor, match="values of the request ask"):
        join(held, longs(-1), *[longs()] * (operation == "TensorListConcatV2"))


def test_all_operations_of_a_request_share_one_allowance() -> None:
    held = BUDGET.held
    allowance = Allowance()
    with spending(allowance):
        make_room((MOST_BYTES // 2,), np.uint8)
        make_room((MOST_BYTES // 2,), np.uint8)
        assert BUDGET.held == held + MOST_BYTES
        with pytest.raises(InvalidTensor):
            make_room((1,), np.uint8)
    del allowance
    assert BUDGET.held == held


def sent(*sizes: int) -> Any:
    return np.array([bytes(size) for size in sizes], np.object_)


@pytest.mark.parametrize(
    ("inputs", "most"),
    [
        pytest.param([], MOST_BYTES, id="nothing"),
        pytest.param([sent(*[0] * 255)], MOST_BYTES, id="empty texts"),
        pytest.param([np.zeros(1 << 24, np.float32)], MOST_BYTES, id="numbers"),
        pytest.param([sent(1 << 21), sent(1 << 20)], 3 * SENT_TIMES << 20, id="pictures"),
        pytest.param([sent(1 << 26)], MOST_BYTES_OF_SENT, id="most"),
    ],
)
def test_a_request_of_long_texts_may_ask_for_more_but_not_at_once(
    inputs: list[Any], most: int
) -> None:
    with spending(Allowance(inputs)):
        with pytest.raises(InvalidTensor, match="values of the request ask"):
            make_room((MOST_BYTES + 1,), np.uint8)
        make_room((MOST_BYTES,), np.uint8)
        with pytest.raises(InvalidTensor, match=f"may ask for {most}"):
            make_room((MOST_BYTES_FURTHER + 1,), np.uint8)
        for _ in range((most - MOST_BYTES) // MOST_BYTES_FURTHER):
            make_room((MOST_BYTES_FURTHER,), np.uint8)
        with pytest.raises(InvalidTensor, match=f"may ask for {most}"):
            make_room((1,), np.uint8)


def test_a_loop_takes_a_number_of_turns() -> None:
    with spending(Allowance()):
        for _ in range(MOST_TURNS):
            turn()
        with pytest.raises(InvalidTensor, match=f"{MOST_TURNS} turns: send fewer rows"):
            turn()


@pytest.fixture
def endless() -> Iterator[tuple[HostProgram, list[str], threading.Event]]:
    """Give a signature that a request makes turn for ever, and the threads that ran it."""
    threads: list[str] = []
    started, never = threading.Event(), threading.Event()

    def forever(value: Any) -> Any:
        threads.append(threading.current_thread().name)
        started.set()
        while True:
            turn()
            never.wait(0.001)

    plan = HostPlan(
        slots=[None], inputs={"x": 0}, before=[HostStep("While 'w'", forever, (0,), (), True)]
    )
    spec = TensorSpec("x", DataType.FP32, (), "x:0")
    program = HostProgram(plan, Signature("s", {"x": spec}, {}), None)
    yield program, threads, started
    program.close()


async def test_a_loop_whose_client_has_left_ends(
    endless: tuple[HostProgram, list[str], threading.Event],
) -> None:
    program, threads, started = endless
    asked = asyncio.ensure_future(program.infer({"x": np.float32(1)}, lambda outputs: None))
    await asyncio.to_thread(started.wait, 10)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert [name.partition("_")[0] for name in threads] == ["host"]
    await asyncio.wait_for(asyncio.to_thread(program.close), 10)


def test_every_version_of_a_list_of_a_loop_stays_as_it_was() -> None:
    first = LoopList([None, None])
    lists: list[TensorList] = [first]
    lists.append(first.having(np.int32(0), longs(1)))
    lists.append(lists[-1].pushed(longs(2)))
    lists.append(lists[-1].grown(np.int32(4)))
    lists.append(lists[-1].having(np.int32(0), longs(3)))
    branch = lists[1].having(np.int32(1), longs(4))
    shown = [[None if item is None else item.item() for item in each.items] for each in lists]
    assert shown == [
        [None, None],
        [1, None],
        [1, None, 2],
        [1, None, 2, None, None],
        [3, None, 2, None, None],
    ]
    assert [int(item.item()) for item in branch.items] == [1, 4]


def test_a_change_within_a_loop_does_not_copy_the_list() -> None:
    held: TensorList = LoopList([None] * 3)
    elements = held.items
    for at in range(3):
        held = held.having(np.int32(at), longs(at))
        assert held.items is elements

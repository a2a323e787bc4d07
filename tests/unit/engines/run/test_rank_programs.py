"""Programs by the ranks of inputs: compiled once for each, beside the loop, a bounded number."""

import asyncio
import os
import threading
from collections.abc import Mapping
from itertools import islice, product

import numpy as np
import pytest

from ie_serving.core.runtime.spare_cpu import SpareCpu, division
from ie_serving.core.values.errors import InvalidTensor, LoadFailed, QueueFull
from ie_serving.core.values.tensors import Array, DataType, Read, Signature, TensorSpec
from ie_serving.engines.run import rank_programs
from ie_serving.engines.run.program import T
from ie_serving.engines.run.rank_programs import (
    MOST,
    MOST_REFUSED,
    MOST_WAITING_RANKS,
    OpenRankProgram,
    Ranks,
)

SIGNATURE = Signature(
    "s",
    {"x": TensorSpec("x", DataType.FP32, None, "x:0")},
    {"y": TensorSpec("y", DataType.FP32, None, "y:0")},
)
LIMIT_S = 20.0
WRONG = 20


class AddOne:
    """A program that adds 1; `hold` keeps an inference from ending until it is set."""

    at_once, ahead = 3, True

    def __init__(self, hold: asyncio.Event | None = None) -> None:
        self.signature = SIGNATURE
        self.hold = hold
        self.is_closed = threading.Event()

    async def infer(self, inputs: Mapping[str, Array], read: Read[T]) -> T:
        if self.hold is not None:
            await self.hold.wait()
        assert not self.is_closed.is_set()
        return read({"y": inputs["x"] + 1})

    def close(self) -> None:
        self.is_closed.set()


class Maker:
    """Makes programs, each when `go` is set; refuses rank 0 and those above `WRONG`."""

    def __init__(self) -> None:
        self.made: dict[Ranks, AddOne] = {}
        self.calls: list[Ranks] = []
        self.go = threading.Event()
        self.go.set()
        self.hold: asyncio.Event | None = None
        self._changed = threading.Condition()

    async def wait_for(self, rank: int) -> None:
        """Wait until the program of a rank is made."""
        assert await asyncio.to_thread(self._wait_for, (rank,))

    def _wait_for(self, ranks: Ranks) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: ranks in self.made, LIMIT_S)

    def __call__(self, ranks: Ranks) -> AddOne:
        self.calls.append(ranks)
        assert self.go.wait(LIMIT_S)
        if ranks == (0,) or ranks[0] > WRONG:
            raise LoadFailed("no scalars here")
        with self._changed:
            self.made[ranks] = AddOne(self.hold)
            self._changed.notify_all()
        return self.made[ranks]


async def ask(program: OpenRankProgram, rank: int) -> Array:
    x = np.zeros((1,) * rank, np.float32)
    return await asyncio.wait_for(program.infer({"x": x}, lambda y: y["y"].copy()), LIMIT_S)


async def test_each_rank_is_compiled_once() -> None:
    make = Maker()
    program = OpenRankProgram(SIGNATURE, ["x"], make)
    for rank in (1, 2, 1, 2, 3):
        assert (await ask(program, rank)).shape == (1,) * rank
    assert make.calls == [(1,), (2,), (3,)]
    assert (program.at_once, program.ahead) == (3, True)  # as each of the compiled programs
    await asyncio.to_thread(program.close)
    assert all(made.is_closed.is_set() for made in make.made.values())


async def test_requests_of_a_rank_wait_for_one_compilation_and_others_are_answered() -> None:
    make = Maker()
    program = OpenRankProgram(SIGNATURE, ["x"], make)
    await ask(program, 1)
    make.go.clear()
    waiting = [asyncio.create_task(ask(program, 2)) for _ in range(3)]
    assert (await ask(program, 1)).tolist() == [1]
    waiting[0].cancel()
    make.go.set()
    assert (await waiting[1]).shape == (await waiting[2]).shape == (1, 1)
    assert make.calls == [(1,), (2,)]
    await asyncio.to_thread(program.close)


async def test_the_rank_that_was_used_longest_ago_is_freed() -> None:
    make = Maker()
    program = OpenRankProgram(SIGNATURE, ["x"], make, lambda: 0.0)
    for rank in (*range(1, MOST + 1), 1, MOST + 1):
        await ask(program, rank)
    assert await asyncio.to_thread(make.made[2,].is_closed.wait, LIMIT_S)
    assert not make.made[1,].is_closed.is_set()
    await ask(program, 2)
    assert make.calls.count((2,)) == 2
    await asyncio.to_thread(program.close)


async def test_a_program_is_freed_after_the_request_that_uses_it() -> None:
    make = Maker()
    make.hold = asyncio.Event()
    program = OpenRankProgram(SIGNATURE, ["x"], make)
    slow = asyncio.create_task(ask(program, 1))
    await make.wait_for(1)
    others = [asyncio.create_task(ask(program, rank)) for rank in range(2, MOST + 2)]
    await make.wait_for(MOST + 1)
    assert not make.made[1,].is_closed.is_set()
    make.hold.set()
    await asyncio.gather(slow, *others)
    assert await asyncio.to_thread(make.made[1,].is_closed.wait, LIMIT_S)
    await asyncio.to_thread(program.close)


async def test_a_rank_that_cannot_be_compiled_is_refused_and_not_tried_again() -> None:
    make = Maker()
    program = OpenRankProgram(SIGNATURE, ["x"], make)
    for _ in range(2):
        with pytest.raises(InvalidTensor, match='no input "x" of rank 0 can be taken: no scalars'):
            await ask(program, 0)
    assert make.calls == [(0,)]
    assert (await ask(program, 1)).tolist() == [1]
    await asyncio.to_thread(program.close)


async def test_ranks_that_cannot_be_compiled_cost_no_other_its_program() -> None:
    make = Maker()
    program = OpenRankProgram(SIGNATURE, ["x"], make)
    for rank in range(1, MOST + 1):
        await ask(program, rank)
    wrong = range(WRONG + 1, WRONG + MOST + 2)
    make.go.clear()
    waiting = [asyncio.create_task(ask(program, rank)) for rank in wrong]
    await asyncio.sleep(0)
    make.go.set()
    for each in waiting:
        with pytest.raises(InvalidTensor, match="can be taken"):
            await each
    for rank in range(1, MOST + 1):
        await ask(program, rank)
    assert len(make.calls) == MOST + len(wrong)
    assert not any(made.is_closed.is_set() for made in make.made.values())
    await asyncio.to_thread(program.close)


async def test_an_inference_whose_client_has_left_takes_a_place_too() -> None:
    make = Maker()
    program = OpenRankProgram(SIGNATURE, ["x"], make, lambda: 0.0)
    make.go.clear()
    for rank in range(1, MOST + 2):
        left = asyncio.create_task(ask(program, rank))
        await asyncio.sleep(0)
        left.cancel()
    make.go.set()
    await ask(program, MOST + 2)
    assert await asyncio.to_thread(make.made[1,].is_closed.wait, LIMIT_S)
    assert await asyncio.to_thread(make.made[2,].is_closed.wait, LIMIT_S)
    await asyncio.to_thread(program.close)
    assert all(made.is_closed.is_set() for made in make.made.values())


async def test_more_combinations_than_may_wait_are_refused_and_others_are_answered() -> None:
    make = Maker()
    program = OpenRankProgram(SIGNATURE, ["x"], make, lambda: 0.0)
    await ask(program, 1)
    make.go.clear()
    waiting = [asyncio.create_task(ask(program, rank)) for rank in range(2, MOST_WAITING_RANKS + 2)]
    await asyncio.sleep(0)
    with pytest.raises(QueueFull, match=r"8 other combinations of ranks .* keep to a few ranks"):
        await ask(program, MOST_WAITING_RANKS + 2)
    again = asyncio.create_task(ask(program, 2))
    assert (await ask(program, 1)).tolist() == [1]
    make.go.set()
    await asyncio.gather(*waiting, again)
    assert (await ask(program, MOST_WAITING_RANKS + 2)).ndim == MOST_WAITING_RANKS + 2
    await asyncio.to_thread(program.close)


async def test_one_rank_too_many_in_turn_has_few_compiled() -> None:
    """Compiling takes a tenth of the time at most; what is kept is answered all the while."""
    now = 0.0

    class Slow(Maker):
        def __call__(self, ranks: Ranks) -> AddOne:
            nonlocal now
            now += 1.0
            return super().__call__(ranks)

    make = Slow()
    program = OpenRankProgram(SIGNATURE, ["x"], make, lambda: now)
    for rank in range(1, MOST + 2):
        await ask(program, rank)
    with pytest.raises(QueueFull, match=r"another one may take the place of the oldest in 9 s"):
        await ask(program, 1)
    assert (await ask(program, MOST + 1)).ndim == MOST + 1
    refused = 0
    for turn in range(1000):
        now += 0.1
        try:
            await ask(program, turn % (MOST + 1) + 1)
        except QueueFull:
            refused += 1
    assert refused > 100
    compiled_s = len(make.calls) - MOST
    assert compiled_s <= now / 10 + 1
    await asyncio.to_thread(program.close)


async def test_the_refused_are_not_remembered_without_end() -> None:
    calls: list[Ranks] = []

    def make(ranks: Ranks) -> AddOne:
        calls.append(ranks)
        raise LoadFailed("not these")

    program = OpenRankProgram(SIGNATURE, ["x", "y"], make)
    asked = list(islice(product(range(20), repeat=2), MOST_REFUSED + 1))
    for x, y in (*asked, asked[-1], asked[0]):
        inputs = {"x": np.zeros((1,) * x), "y": np.zeros((1,) * y)}
        with pytest.raises(InvalidTensor, match=f'"x" of rank {x} and "y" of rank {y}'):
            await asyncio.wait_for(program.infer(inputs, dict), LIMIT_S)
    assert calls == [*asked, asked[0]]
    await asyncio.to_thread(program.close)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
async def test_compiling_for_a_request_leaves_the_event_loop_its_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = frozenset(os.sched_getaffinity(0))
    spare = SpareCpu()
    spare.choose(slot=0, workers=1)
    spare.open()
    spare.note_engine()
    monkeypatch.setattr(rank_programs, "SPARE_CPU", spare)
    masks = []

    class Noted(AddOne):
        def close(self) -> None:
            masks.append(os.sched_getaffinity(0))
            super().close()

    def make(ranks: Ranks) -> Noted:
        masks.append(os.sched_getaffinity(0))
        return Noted()

    program = OpenRankProgram(SIGNATURE, ["x"], make)
    await asyncio.wait_for(program.infer({"x": np.zeros(1)}, dict), LIMIT_S)
    program.close()
    _, rest = division(whole, slot=0, workers=1)
    assert masks == [rest, rest]
    assert os.sched_getaffinity(0) == whole

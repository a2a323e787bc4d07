"""Shapes that a signature does not declare: what a client is told while none may be tried."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidTensor, LoadFailed, QueueFull
from ie_serving.core.values.tensors import Array, DataType, Read, Signature, TensorSpec
from ie_serving.engines.run.program import T
from ie_serving.engines.run.rank_programs import REST, Ranks
from ie_serving.engines.run.shape_programs import SAVED_S, SentShapeProgram

SIGNATURE = Signature(
    "s",
    {"x": TensorSpec("x", DataType.FP32, (-1, 2), "x:0")},
    {"y": TensorSpec("y", DataType.FP32, None, "y:0")},
)
REFUSAL = InvalidTensor('the model expects input "x" of shape (-1, 2)')
LOAD_S = 2.0
ODD, EVEN = (7, 9), (4, 6)


class AddOne:
    signature = SIGNATURE
    at_once, ahead = 1, False

    async def infer(self, inputs: Mapping[str, Array], read: Read[T]) -> T:
        return read({"y": inputs["x"] + 1})

    def close(self) -> None:
        pass


class Loads:
    """Compiles for even sizes, refuses others; each takes `LOAD_S` of its clock."""

    def __init__(self) -> None:
        self.now = 100.0

    def clock(self) -> float:
        return self.now

    def __call__(self, shapes: Ranks) -> AddOne:
        self.now += LOAD_S
        ((_, size),) = shapes
        if size % 2:
            raise LoadFailed("an odd size")
        return AddOne()


@asynccontextmanager
async def model(loads: Loads) -> AsyncIterator[SentShapeProgram]:
    made = SentShapeProgram(AddOne(), loads, lambda: {"y": ["x"]}, loads.clock)
    try:
        yield made
    finally:
        made.close()


async def ask(program: SentShapeProgram, size: int) -> Array:
    x = np.zeros((1, size), np.float32)
    return await program.answer({"x": x}, ["y"], REFUSAL, lambda given: given["y"])


async def test_a_shape_that_may_not_be_tried_yet_is_no_fault_of_the_request() -> None:
    """It may be legal: the client is told when to send it again, and what is known stays so."""
    loads = Loads()
    async with model(loads) as program:
        assert (await ask(program, EVEN[0])).shape == (1, EVEN[0])
        with pytest.raises(InvalidTensor, match=r"expects input"):
            await ask(program, ODD[0])
        with pytest.raises(InvalidTensor, match=r"expects input"):
            await ask(program, ODD[1])  # beginners make several mistakes in a row
        wait_s = 2 * REST * LOAD_S - LOAD_S - SAVED_S
        with pytest.raises(QueueFull, match=rf"expects input.* in {wait_s:.0f} s") as told:
            await ask(program, EVEN[1])
        assert not isinstance(told.value, InvalidTensor)
        with pytest.raises(InvalidTensor, match=r"expects input"):
            await ask(program, ODD[0])
        assert (await ask(program, EVEN[0])).shape == (1, EVEN[0])
        loads.now += wait_s
        assert (await ask(program, EVEN[1])).shape == (1, EVEN[1])

"""`ie_serving`, in which loads and inferences wait at gates.

A version with a file `slow` is compiled, and then waits: a load that takes as long as a test wants,
at the moment at which the engine has read the files. Each inference of a version with a file
`slow_answers` waits before it begins. The files name FIFOs; whoever waits takes one byte.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from ie_serving.core.tensors import Array, Signature
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.layers.base import Layer
from ie_serving.engines.openvino.compile import OpenVinoEngine
from ie_serving.main import main

T = TypeVar("T")

compile_at_once = OpenVinoEngine.compile


def compile_and_wait(
    engine: OpenVinoEngine, directory: Path, options: EngineOptions
) -> CompiledModel:
    compiled = compile_at_once(engine, directory, options)
    slow, slow_answers = directory / "slow", directory / "slow_answers"
    if slow.exists():
        take(slow.read_text())
    return Slow(compiled, slow_answers.read_text()) if slow_answers.exists() else compiled


def take(fifo: str) -> None:
    with open(fifo, "rb", buffering=0) as gate:
        gate.read(1)


class Slow(Layer):
    """Waits before each inference."""

    def __init__(self, inner: CompiledModel, fifo: str) -> None:
        super().__init__(inner)
        self._fifo = fifo

    async def infer(
        self,
        signature: Signature,
        inputs: Mapping[str, Array],
        read: Callable[[Mapping[str, Array]], T],
    ) -> T:
        await asyncio.to_thread(take, self._fifo)
        return await self.inner.infer(signature, inputs, read)


OpenVinoEngine.compile = compile_and_wait  # type: ignore[method-assign, assignment]

if __name__ == "__main__":
    sys.exit(main())

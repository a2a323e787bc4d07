"""`ie_serving`, in which loads and inferences wait at gates.

A version with a file `slow` is compiled, and then waits: a load that takes as long as a test wants,
at the moment at which the engine has read the files. Each inference of a version with a file
`slow_answers` waits before it begins. The files name FIFOs; each waiter takes one byte. Those of
a version with a file `no_answers` never end, unless they are cancelled.

Where INFERENCES_WAIT_FOR names a file, an infer request of OpenVINO ends once no process holds a
lock on that: the next request waits where it does behind a long inference.
"""

import asyncio
import fcntl
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from ie_serving.app.command_line import main
from ie_serving.core.values.tensors import Array, Signature
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.layers.layer import Layer
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.running.slot import Slot

T = TypeVar("T")

compile_at_once = OpenVinoEngine._compiled


def compile_and_wait(
    engine: OpenVinoEngine, directory: Path, options: EngineOptions
) -> CompiledModel:
    compiled = compile_at_once(engine, directory, options)
    slow, slow_answers = directory / "slow", directory / "slow_answers"
    if slow.exists():
        take(slow.read_text())
    if (directory / "no_answers").exists():
        return Silent(compiled)
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


NEVER = asyncio.Event()


class Silent(Layer):
    """Gives no answer, and takes no thread."""

    async def infer(
        self,
        signature: Signature,
        inputs: Mapping[str, Array],
        read: Callable[[Mapping[str, Array]], T],
    ) -> T:
        await NEVER.wait()
        raise AssertionError("it is never set")


Run = Callable[[Slot], Mapping[str, Array]]


def unlocked(run: Run, file: str) -> Run:
    def run_when_unlocked(slot: Slot) -> Mapping[str, Array]:
        with open(file) as locked:
            fcntl.flock(locked, fcntl.LOCK_SH)
        return run(slot)

    return run_when_unlocked


OpenVinoEngine._compiled = compile_and_wait  # type: ignore[method-assign, assignment]
if "INFERENCES_WAIT_FOR" in os.environ:
    for name in ("run", "run_new", "finish"):
        setattr(Slot, name, unlocked(getattr(Slot, name), os.environ["INFERENCES_WAIT_FOR"]))

if __name__ == "__main__":
    sys.exit(main())

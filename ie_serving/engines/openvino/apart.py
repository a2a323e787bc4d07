"""One inference in another thread, while the event loop goes on."""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from typing import Generic, TypeVar

from ie_serving.engines.openvino.slot import Slot
from ie_serving.tensors import Array

T = TypeVar("T")


class Apart(Generic[T]):
    """Copies the inputs in, infers and reads the outputs. Made and awaited on the event loop.

    Attributes:
        done: resolved when the slot is idle again, whatever came of it.
        failure: what the engine failed with.
        seconds: how long the inference alone took.
    """

    def __init__(
        self,
        slot: Slot,
        inputs: Mapping[str, Array],
        read: Callable[[Mapping[str, Array]], T],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._slot = slot
        self._inputs = inputs
        self._read = read
        self._to_do = [self._infer]
        self._cancelled = False
        self._values: list[T] = []
        self._error: BaseException | None = None
        self.done: asyncio.Future[None] = self._loop.create_future()
        self.failure: RuntimeError | None = None
        self.seconds = 0.0

    def start(self, threads: Executor) -> None:
        """Run in one of `threads`; here, this once, where the system has no thread left."""
        try:
            threads.submit(self._run)
        except RuntimeError:
            self._run()

    def cancel(self) -> None:
        """Let it end early; nobody wants its result."""
        self._cancelled = True
        self._slot.cancel()

    def result(self) -> T:
        """Give what `read` made of the outputs, once done and if there is no failure.

        Raises:
            BaseException: whatever copying in or reading raised.
        """
        if self._error is not None:
            raise self._error
        return self._values[0]

    def _run(self) -> None:
        try:
            infer = self._to_do.pop()
        except IndexError:  # an executor that could not start a thread keeps what it was given
            return
        try:
            infer()
        except BaseException as error:
            self._error = error
        with suppress(RuntimeError):  # the loop has been closed meanwhile
            self._loop.call_soon_threadsafe(self.done.set_result, None)

    def _infer(self) -> None:
        try:
            self._slot.fill(self._inputs)
            if self._cancelled:
                return
            started = time.perf_counter()
            outputs = self._slot.run()
        except RuntimeError as error:
            self.failure = error
            return
        self.seconds = time.perf_counter() - started
        if not self._cancelled:
            self._values.append(self._read(outputs))

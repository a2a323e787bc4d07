"""A lane runs one inference: an infer request and a thread, while the event loop goes on."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Generic, TypeVar

from ie_serving.core.values.tensors import Arrays
from ie_serving.engines.run.infer_request import InferRequest, Outputs

T = TypeVar("T")


class Lane(Generic[T]):
    """Copies the inputs in, infers and reads the outputs. Made and awaited on the event loop.

    Attributes:
        done: resolved when the infer request is idle again, after success or failure.
        failure: the engine's error.
        seconds: how long the inference alone took.
        ended: when it was over, by `time.perf_counter`.
        waited_s: how long it waited for its thread.
    """

    def __init__(
        self,
        request: InferRequest,
        inputs: Arrays,
        read: Callable[[Outputs], T],
        failures: tuple[type[Exception], ...] = (RuntimeError,),
        new: bool = False,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._request = request
        self._inputs = inputs
        self._read = read
        self._failures = failures
        self._new = new
        self._to_do = [self._infer]  # popped by the thread that runs it, so that it runs once
        self._cancelled = False
        self._values: list[T] = []
        self._error: BaseException | None = None
        self.done: asyncio.Future[None] = self._loop.create_future()
        self.failure: Exception | None = None
        self.seconds = 0.0
        self.ended = 0.0
        self.waited_s = 0.0
        self._made = time.perf_counter()

    def start(self, threads: Executor) -> None:
        """Run in one of `threads`; here, this once, where the system has no thread left."""
        # `submit` queues the work before it starts a thread: a pool thread may still run it later.
        try:
            threads.submit(self._run)
        except RuntimeError:
            self._run()

    def cancel(self) -> None:
        """Let it end early; its result is no longer wanted."""
        self._cancelled = True
        self._request.cancel()

    def result(self) -> T:
        """Give what `read` made of the outputs, once done and if there is no failure.

        Raises:
            BaseException: from copying the inputs in, or from `read`.
        """
        if self._error is not None:
            raise self._error
        return self._values[0]

    def _run(self) -> None:
        try:
            infer = self._to_do.pop()
        except IndexError:  # an executor that could not start a thread keeps the work
            return
        self.waited_s = time.perf_counter() - self._made
        try:
            infer()
        # All: an error that ended the thread silently would leave the request waiting for ever.
        except BaseException as error:
            self._error = error
        with suppress(RuntimeError):  # the loop has been closed meanwhile
            self._loop.call_soon_threadsafe(self.done.set_result, None)

    def _infer(self) -> None:
        try:
            self._request.fill(self._inputs)
            if self._cancelled:
                return
            started = time.perf_counter()
            outputs = self._request.run_new() if self._new else self._request.run()
        except self._failures as error:
            self._fail(error)
            return
        self._take(outputs, started)

    def _take(self, outputs: Outputs, started: float) -> None:
        self.ended = time.perf_counter()
        self.seconds = self.ended - started
        if not self._cancelled:
            self._values.append(self._read(outputs))

    # Here, not on the loop: a renewal may compile for seconds. `done` waits for it, so the infer
    # request is not lent before.
    def _fail(self, error: Exception) -> None:
        self.failure = error
        self._request.renew()

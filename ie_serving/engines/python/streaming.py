"""Runs a kernel's own streams: `async def stream(self, items, ctx)`, an async generator.

All streams of a kernel run on one event loop, in one thread: a blocking stream delays the other
streams of this kernel, and nothing else of the server. Inputs are fetched from the server's loop
when the kernel requests them, and a reply waits there until the client takes it, so that a kernel
runs no faster than its client.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import Arrays
from ie_serving.engines.python.context import Context
from ie_serving.engines.python.runners import CheckedReply, KernelCall, StreamFunction, read_only
from ie_serving.engines.run import forks

T = TypeVar("T")


class StreamLoop:
    """The event loop of a kernel's streams; its thread starts with the first of them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, None]) -> "asyncio.Future[None]":
        """Run a coroutine there; the returned future is of the caller's loop, and cancels it."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            # A daemon: a kernel that never gives its thread back must not hold up the end.
            name = f"stream {self._name}"
            threading.Thread(target=_live, args=(self._loop,), name=name, daemon=True).start()
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def close(self) -> None:
        """End the thread, as soon as no kernel holds it. No stream is open any more."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)


def _live(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


class KernelStream:
    """One stream of one client.

    Args of the constructor:
        stream: stream of the kernel.
        make_call: makes the call that checks one reply; see `calls.KernelCall`.
        ctx: the kernel's context.
        inputs: the client's inputs; fetched on the server's loop.
    """

    def __init__(
        self,
        stream: StreamFunction,
        make_call: Callable[[Arrays, Context], KernelCall],
        ctx: Context,
        inputs: AsyncIterator[Arrays],
    ) -> None:
        self._stream = stream
        self._make_call = make_call
        self._name = make_call({}, ctx).kernel
        self._ctx = ctx
        self._inputs = inputs
        self._home = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(1)
        self._replies: asyncio.Queue[Any] = asyncio.Queue()
        self._fetching: asyncio.Task[Any] | None = None

    async def replies(
        self, loop: StreamLoop, read: Callable[[Arrays], T]
    ) -> AsyncGenerator[T | ServingError, None]:
        """Yield the kernel's replies, read by `read` in the kernel's thread.

        Raises:
            ServingError: the kernel has failed, or the client's inputs have.
        """
        work = loop.run(self._work(read))
        work.add_done_callback(lambda _: self._replies.put_nowait(None))
        try:
            while (reply := await self._replies.get()) is not None:
                yield reply
                self._room.release()
            await work
        finally:
            await self._leave(work)

    async def _leave(self, work: "asyncio.Future[None]") -> None:
        """Signal the kernel that the stream is over, without waiting for the kernel."""
        work.cancel()
        if work.done() and not work.cancelled():
            work.exception()  # otherwise asyncio logs it as never retrieved
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait((self._fetching,))

    # -- on the kernel's loop ------------------------------------------------------------------

    async def _work(self, read: Callable[[Arrays], object]) -> None:
        try:
            async with aclosing(self._stream(self._requests(), self._ctx)) as replies:
                async for outputs in replies:
                    forks.leave_if_forked(self._name)
                    await self._at_home(self._put(self._checked(outputs, read)))
        except (asyncio.CancelledError, GeneratorExit):
            raise
        # SystemExit as well: it would end the loop, and with it the streams of others.
        except BaseException as error:
            failed = self._make_call({}, self._ctx)
            failed.failed(error)
            assert isinstance(failed.outcome, ServingError)
            raise failed.outcome from None
        finally:
            forks.leave_if_forked(self._name)

    async def _requests(self) -> AsyncGenerator[Arrays, None]:
        forks.leave_if_forked(self._name)
        while (inputs := await self._at_home(self._next())) is not None:
            yield inputs

    def _checked(self, outputs: object, read: Callable[[Arrays], object]) -> object:
        if isinstance(outputs, CheckedReply):
            return read(outputs.outputs)
        call = self._make_call({}, self._ctx)
        call.finish(outputs)
        outcome = call.outcome
        return read(outcome) if isinstance(outcome, Mapping) else outcome

    def _at_home(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._home))

    # -- on the server's loop ------------------------------------------------------------------

    async def _next(self) -> Arrays | None:
        self._fetching = asyncio.current_task()
        try:
            async for inputs in self._inputs:
                return read_only(inputs)
            return None
        finally:
            self._fetching = None

    async def _put(self, reply: object) -> None:
        await self._room.acquire()
        self._replies.put_nowait(reply)

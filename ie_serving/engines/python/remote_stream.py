"""The server's side of a kernel's stream in a child process; see `child.py`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import Arrays
from ie_serving.engines.process.child_process import WorkerProcess
from ie_serving.engines.process.link import LinkMessage, PeerGone
from ie_serving.engines.process.protocol import FrameKind
from ie_serving.engines.process.supervision import Supervisor
from ie_serving.engines.python.context import Context
from ie_serving.engines.python.kernel_link import Duplex, answered, packed_context
from ie_serving.engines.python.runners import CheckedReply


@dataclass(eq=False)
class RemoteStream:
    """One stream of one client. Used on the event loop of the kernel's streams.

    Attributes:
        process: started.
        kernel: its name, for errors.
        inputs: specs in the order of the metadata.
        outputs: specs in the order of the metadata.
        limit_s: seconds for which the kernel may go on when its client has left, before its process
            is ended; None sets no limit.
    """

    process: Supervisor
    kernel: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    limit_s: float | None
    _feeding: asyncio.Task[None] | None = field(default=None, init=False)
    _failed: BaseException | None = field(default=None, init=False)

    async def replies(
        self, items: AsyncIterator[Arrays], ctx: Context
    ) -> AsyncGenerator[object, None]:
        """Yield the kernel's replies, each `CheckedReply` or an error; see `calls.Stream`.

        A reply may be read until the next one is requested.

        Raises:
            ServingError: the kernel has failed, or its process has ended.
        """
        opening = asyncio.ensure_future(asyncio.to_thread(self.process.way_for_stream))
        try:
            process, ends = await asyncio.shield(opening)
        except asyncio.CancelledError:  # the thread goes on, and what it opens has no other owner
            opening.add_done_callback(_close_ends)
            raise
        way = Duplex(*ends)
        try:
            await way.send(FrameKind.STREAM, [packed_context(ctx)])
            while (message := await way.receive()).kind is not FrameKind.END:
                if message.kind is FrameKind.NEXT:
                    self._feeding = asyncio.create_task(self._feed(items, way))
                    continue
                yield self._outcome(message)
                with suppress(PeerGone):  # frames sent before, such as its end, can still be read
                    await way.send(FrameKind.TAKEN)
            await self._ended(message, process)
        except PeerGone:
            if self._failed is not None:
                raise self._failed from None
            raise await self._crashed(process) from None
        finally:
            await self._leave(way, process)

    async def _feed(self, items: AsyncIterator[Arrays], way: Duplex) -> None:
        try:
            async for inputs in items:
                await way.send(FrameKind.RUN, [inputs[name] for name in self.inputs])
                return
            await way.send(FrameKind.END)
        except PeerGone:
            return  # the receiver sees it, too
        except Exception as error:
            self._failed = error
            way.leave()

    def _outcome(self, message: LinkMessage) -> object:
        outcome, _ = answered(iter(message.tensors), self.outputs)
        return outcome if isinstance(outcome, ServingError) else CheckedReply(outcome)

    async def _ended(self, message: LinkMessage, process: WorkerProcess) -> None:
        if not message.tensors:
            return
        error, over = answered(iter(message.tensors), ())
        if over:  # the memory stays full: a new process begins empty
            await asyncio.to_thread(self.process.lost, process, "its memory was full")
        assert isinstance(error, ServingError)  # nothing else ends a stream with words
        raise error

    async def _crashed(self, process: WorkerProcess) -> ServingError:
        await asyncio.to_thread(self.process.lost, process)
        return ServingError(
            f"the process of kernel {self.kernel} ended while it answered this stream:"
            f" {self.process.cause}; it is started again: open the stream again"
        )

    async def _leave(self, way: Duplex, process: WorkerProcess) -> None:
        """Tell the process that the stream is over, and see that it is."""
        if self._feeding is not None and self._feeding.cancel():
            await asyncio.wait((self._feeding,))
        try:
            if self.limit_s is not None:
                await asyncio.wait_for(way.left(), self.limit_s)
        except asyncio.TimeoutError:  # until Python 3.11 no `TimeoutError`
            limit = f"{self.limit_s * 1e3:g} ms" if self.limit_s else ""
            why = f"a stream went on for {limit} after its end"
            await asyncio.to_thread(self.process.lost, process, why)
        finally:
            way.close()


def _close_ends(opening: "asyncio.Future[Any]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        for each in opening.result()[1]:
            each.close()

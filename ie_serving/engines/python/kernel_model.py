"""A kernel as a compiled model."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.requests import Caller, taken
from ie_serving.core.values.tensors import Arrays, Read, Signature
from ie_serving.engines import base
from ie_serving.engines.others import Others
from ie_serving.engines.python.asking import Models
from ie_serving.engines.python.context import Context
from ie_serving.engines.python.fleet import Fleet
from ie_serving.engines.python.line import Line
from ie_serving.engines.python.runners import KernelCall, Stream, read_only

if TYPE_CHECKING:
    from ie_serving.engines.python.streaming import StreamLoop

T = TypeVar("T")


class KernelModel(base.CompiledModel):
    """See `engines.base.CompiledModel`.

    Args of the constructor:
        name: of the kernel, for errors.
        signature: as clients see it.
        fleet: runs it; as many batches at once.
        threads: in which they run.
        shared: whether all models share these threads.
        most: calls of a batch.
        timeout_s: longest time of a call; None sets no limit.
        early: the kernel may answer a call before its batch has ended.
        others: the other models; None where there are none.
        update: takes new parameters; None where the kernel cannot.
        stream: answers streams; None where each request of a stream is a separate call.
        freed: called last by `close`.
    """

    def __init__(
        self,
        name: str,
        signature: Signature,
        fleet: Fleet,
        threads: Executor,
        *,
        shared: bool = False,
        most: int = 1,
        timeout_s: float | None = None,
        early: bool = False,
        others: Others | None = None,
        update: Callable[[Mapping[str, Any]], object] | None = None,
        stream: Stream | None = None,
        freed: Callable[[], object] = lambda: None,
    ) -> None:
        self.signatures = {signature.name: signature}
        self._call = partial(KernelCall, name, signature.outputs)
        self._fleet = fleet
        self._line = Line(name, fleet, threads, most, timeout_s, early=early)
        self._shared = shared
        self._timeout_s = timeout_s
        self._others = others
        self._freed = freed
        self._own_stream = stream
        self._streams: StreamLoop | None = None
        self._update = update

    async def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> T:
        """See `engines.base`."""
        caller, models = taken(), self._models()
        ctx = Context(caller, models, self._timeout_s, shared=self._shared)
        call = self._call(read_only(inputs), ctx)
        return await self._line.answer(call, read)

    @property
    def update(self) -> Callable[[Mapping[str, Any]], object] | None:
        """See `engines.base`."""
        return self._update

    @property
    def stream(self) -> base.Stream | None:
        """See `engines.base.Stream`: the kernel's own, if it has one."""
        return self._answer_stream if self._own_stream else None

    def _answer_stream(
        self, signature: Signature, inputs: AsyncIterator[Arrays], read: Read[T], caller: Caller
    ) -> AsyncGenerator[T | ServingError, None]:
        # Imported here: a kernel needs it only once a client opens a stream.
        from ie_serving.engines.python.streaming import KernelStream, StreamLoop

        assert self._own_stream is not None  # the property has looked
        self._streams = self._streams or StreamLoop(signature.runs_on)
        # Without the time-out, which is that of one call.
        ctx = Context(caller, self._models())
        return KernelStream(self._own_stream, self._call, ctx, inputs).replies(self._streams, read)

    def _models(self) -> Models | None:
        return Models(self._others, asyncio.get_running_loop()) if self._others else None

    def at_once(self, signature: Signature) -> int:
        """See `engines.base`."""
        return self._fleet.most

    def close(self) -> None:
        """See `engines.base`."""
        if self._streams is not None:
            self._streams.close()
        self._fleet.close()
        self._freed()

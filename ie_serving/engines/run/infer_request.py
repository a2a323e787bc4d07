"""The protocols of infer requests and of their admission, their pool, and the lane that runs one.

A driver implements the protocols. A lane runs its infer request in a thread, so that the event loop
goes on.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from ie_serving.core.runtime.eager_start import DirectFuture
from ie_serving.core.runtime.threads import DaemonThreads, tell
from ie_serving.core.values.errors import QueueFull
from ie_serving.core.values.tensors import Arrays, Outputs

Shapes = tuple[tuple[int, ...], ...]
"""The shape of each input, in the order of `ShapeAdmission.names`."""


class EngineRequest(Protocol):
    """Memory and engine state for one inference at a time.

    The outputs are views that the next inference overwrites. Errors of the engine are of the types
    that its driver names to `Program`.
    """

    def fill(self, inputs: Arrays) -> None:
        """Copy the inputs in.

        Raises:
            InvalidTensor: a tensor does not fit its input.
            NonFiniteInput: another program has to take these inputs.
        """

    def run(self) -> Outputs:
        """Infer the filled inputs once, in the fastest way that is safe for this model."""

    def run_new(self) -> Outputs:
        """As `run`, for inputs of shapes that this model may not have seen. In any thread."""

    def cancel(self) -> None:
        """Let a run, in another thread, end early with an error where that harms nothing."""

    def renew(self) -> None:
        """Put the request in order after a failure. Blocking, for seconds if `renews`."""

    @property
    def renews(self) -> bool:
        """Whether `renew` has anything to do."""


class QueuedRequest(EngineRequest, Protocol):
    """An infer request that can be queued in the engine while the engine runs others."""

    def start(self) -> None:
        """Queue the filled inputs behind the engine's running inference. Does not wait."""

    def finish(self) -> Outputs:
        """Wait for the started inference; give its outputs. In any thread. Raises as `run_new`."""


class ShapeAdmission(Protocol):
    """Which combinations of input shapes a model takes.

    Attributes:
        names: the inputs whose shapes are open, in order.
        known: combinations that need no `check` any more.
    """

    @property
    def names(self) -> Sequence[str]:
        """See above."""

    @property
    def known(self) -> Collection[Shapes]:
        """See above."""

    async def check(self, shapes: Shapes) -> None:
        """Let a combination pass that is not known.

        Raises:
            InvalidTensor: the model does not take it.
            QueueFull: too many wait for their check already.
        """


S = TypeVar("S")

MOST_INFER_WAITERS = 10_000
"""Requests that wait for one model at a time; the next is refused with QueueFull. It equals the
limit of connections: a proxy sends its clients' calls over one or two connections, 1,000 at a time
over each. The budget of bytes bounds their memory, their deadlines bound their wait."""


class Pool(Generic[S]):
    """Items, each lent to one user at a time. Used from one event loop; nothing here blocks.

    Attributes:
        free: items not lent; while there are any, `waiters` is empty. `Program` takes and returns
            items here in place, which saves small requests two calls.
        waiters: waiting users, in order.
        size: number of items, lent or free.
    """

    def __init__(self, items: Iterable[S]) -> None:
        self.free = list(items)
        self.waiters: OrderedDict[asyncio.Future[S], None] = OrderedDict()
        self.size = len(self.free)

    @property
    def others_idle(self) -> bool:
        """Whether at most one item is lent: the caller's."""
        return len(self.free) >= self.size - 1

    async def take(self) -> S:
        """Give an item as soon as every earlier waiter has had one.

        Raises:
            QueueFull: `MOST_INFER_WAITERS` wait already.
        """
        if self.free:
            return self.free.pop()
        if len(self.waiters) >= MOST_INFER_WAITERS:
            raise QueueFull(
                f"{MOST_INFER_WAITERS} requests wait for this model already: ask again later, send"
                " fewer at once, or add servers"
            )
        waiter: asyncio.Future[S] = asyncio.get_running_loop().create_future()
        self.waiters[waiter] = None
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.give(
                    waiter.result()
                )  # the item was handed over in the turn of the loop that cancelled
            else:
                self.waiters.pop(waiter, None)
            raise

    def give(self, item: S) -> None:
        """Take an item back, or hand it to the first waiter."""
        # A cancelled waiter stays in the queue until its task runs again, and is passed over here.
        while self.waiters:
            waiter, _ = self.waiters.popitem(last=False)
            if not waiter.done():
                waiter.set_result(item)
                return
        self.free.append(item)


T = TypeVar("T")


class Lane(Generic[T]):
    """Copies the inputs in, infers and reads the outputs. Made and awaited on the event loop.

    Attributes:
        done: resolved when the infer request is idle again, after success or failure; cancelled if
            the request that awaits it is, while the inference goes on.
        is_idle: whether the infer request is idle again.
        failure: the engine's error.
        seconds: duration of the inference alone.
        ended: time at which it was over, by `time.perf_counter`.
        waited_s: duration of the wait for its thread.
    """

    def __init__(
        self,
        request: EngineRequest,
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
        self._cancelled = False
        self._values: list[T] = []
        self._error: BaseException | None = None
        self._then: Callable[[], object] = lambda: None
        # Direct, so that the request goes on without a task: it costs as much as the hand-over.
        self.done: DirectFuture[None] = DirectFuture(loop=self._loop)
        self.is_idle = False
        self.failure: Exception | None = None
        self.seconds = 0.0
        self.ended = 0.0
        self.waited_s = 0.0
        self._made = time.perf_counter()

    def start(self, threads: DaemonThreads) -> None:
        """Run in one of `threads`; here, this once, where the system has no thread left."""
        try:
            threads.begin(self._run)
        except RuntimeError:
            self._run()

    def cancel(self, then: Callable[[], object] = lambda: None) -> None:
        """Let it end early, its result is no longer wanted; call `then` once it is idle."""
        self._cancelled = True
        self._then = then
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
        self.waited_s = time.perf_counter() - self._made
        try:
            self._infer()
        # All: an error that ended the thread silently would leave the request waiting for ever.
        except BaseException as error:
            self._error = error
        tell(self._loop, self._end)

    def _end(self) -> None:
        """Tell that the infer request is idle, on the event loop."""
        self.is_idle = True
        if not self.done.done():  # cancelled, if its request was
            self.done.set_result(None)
        self._then()

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

    # Runs in the thread of the inference, since a renewal may compile for seconds and would block
    # the loop. The lane's end waits for it, so the infer request is not lent before.
    def _fail(self, error: Exception) -> None:
        self.failure = error
        self._request.renew()

"""A kernel as a compiled model, with the queue of its calls.

`Line` has the calls that wait and run: on the event loop, with worker threads. Calls that wait
while all of its runners work form the next batch, if the kernel takes batches.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

from ie_serving.core.runtime.threads import Begin, tell
from ie_serving.core.values.errors import DeadlineExceeded, NotAvailable, QueueFull, ServingError
from ie_serving.core.values.requests import Caller, taken
from ie_serving.core.values.tensors import Arrays, Read, Signature
from ie_serving.engines import base
from ie_serving.engines.other_models import OtherModels
from ie_serving.engines.python.asking import ASKER, AskableModels, RunnerSlot, is_stuck
from ie_serving.engines.python.context import Context
from ie_serving.engines.python.fleet import RunnerFleet
from ie_serving.engines.python.runners import KernelCall, Runner, StreamFunction, read_only
from ie_serving.engines.run.infer_request import MOST_INFER_WAITERS
from ie_serving.telemetry.log.logs import carried

if TYPE_CHECKING:
    from ie_serving.engines.python.streaming import StreamLoop

T = TypeVar("T")


class KernelModel(base.CompiledModel):
    """See `engines.base.CompiledModel`.

    Args of the constructor:
        name: name of the kernel, for errors.
        signature: public signature.
        fleet: runs it; as many batches at once.
        begin: runs them, each in a thread.
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
        fleet: RunnerFleet,
        begin: Begin,
        *,
        shared: bool = False,
        most: int = 1,
        timeout_s: float | None = None,
        early: bool = False,
        others: OtherModels | None = None,
        update: Callable[[Mapping[str, Any]], object] | None = None,
        stream: StreamFunction | None = None,
        freed: Callable[[], object] = lambda: None,
    ) -> None:
        self.signatures = {signature.name: signature}
        self._call = partial(KernelCall, name, carried(), signature.outputs)
        self._fleet = fleet
        self._line = Line(name, fleet, begin, most, timeout_s, early=early)
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
        # The context has no time-out, which is that of one call.
        ctx = Context(caller, self._models())
        return KernelStream(self._own_stream, self._call, ctx, inputs).replies(self._streams, read)

    def _models(self) -> AskableModels | None:
        return AskableModels(self._others, asyncio.get_running_loop()) if self._others else None

    def at_once(self, signature: Signature) -> int:
        """See `engines.base`."""
        return self._fleet.most

    def close(self) -> None:
        """See `engines.base`."""
        if self._streams is not None:
            self._streams.close()
        self._fleet.close()
        self._freed()


class PendingCall:
    """One call, and the future that waits for it. A thread does its work.

    Attributes:
        behind: slots that must make progress for the call, as in `asking.KernelQuestion`.
    """

    __slots__ = ("behind", "call", "done", "error", "left", "read", "value")

    def __init__(
        self,
        call: KernelCall,
        read: Callable[[Arrays], Any],
        loop: asyncio.AbstractEventLoop,
        behind: Collection[RunnerSlot],
    ) -> None:
        self.behind = behind
        self.call = call
        self.read = read
        self.done: asyncio.Future[Any] = loop.create_future()
        self.left = False
        self.value: Any = None
        self.error: BaseException | None = None

    def finish(self) -> None:
        """Read the outputs, in the thread that computed them."""
        outcome = self.call.outcome
        if not isinstance(outcome, Mapping):
            self.error = outcome or ServingError(
                "the kernel must answer each call, and left this one out"
            )
            return
        try:
            self.value = None if self.left else self.read(outcome)
        except BaseException as error:
            self.error = error

    def settle(self) -> None:
        """Resolve the future, on the event loop."""
        if self.done.done():
            return
        if self.error is not None:
            self.done.set_exception(self.error)
        else:
            self.done.set_result(self.value)


class EarlyTurn(PendingCall):
    """A call that its kernel may answer before the batch has ended."""

    __slots__ = ("__weakref__", "_is_read", "_reading")

    def __init__(
        self,
        call: KernelCall,
        read: Callable[[Arrays], Any],
        loop: asyncio.AbstractEventLoop,
        behind: Collection[RunnerSlot],
    ) -> None:
        super().__init__(call, read, loop, behind)
        self._is_read = False
        self._reading = threading.Lock()
        # Weak: with the turn, which has the call, it would be a circle that keeps the inputs.
        call.told = partial(_resume_waiter, ref(self))

    def finish(self) -> None:
        """Read the outputs, once: when the kernel answers, or when the batch has ended."""
        # The second thread waits here: the call may be settled only after it has been read.
        with self._reading:
            if not self._is_read:
                super().finish()
                self._is_read = True


def _resume_waiter(of: "ref[EarlyTurn]") -> None:
    """Resume the waiter of a call, from the kernel's thread."""
    turn = of()
    if turn is not None:
        turn.finish()
        tell(turn.done.get_loop(), turn.settle)


class Line:
    """The calls of one kernel. Used from one event loop at a time.

    Args of the constructor:
        name: name of the kernel, for errors.
        fleet: the runners; as many batches at once.
        begin: runs them, each in a thread.
        most: calls of a batch.
        timeout_s: longest time of a call, waiting included; None sets no limit.
        early: the kernel may answer a call before its batch has ended.
    """

    def __init__(
        self,
        name: str,
        fleet: RunnerFleet,
        begin: Begin,
        most: int,
        timeout_s: float | None,
        *,
        early: bool = False,
    ) -> None:
        self._name = name
        self._fleet = fleet
        self._begin = begin
        self._most = most
        self._timeout_s = timeout_s
        self._turn = EarlyTurn if early else PendingCall
        # A dictionary keeps the order of arrival, and lets a cancelled call leave at once.
        self._waiting: dict[PendingCall, None] = {}
        self._taken: set[RunnerSlot] = set()
        # The loop's time from which on there has always been a call that waits.
        self._pressed_since: float | None = None
        fleet.came = self._advance

    async def answer(self, call: KernelCall, read: Read[T]) -> T:
        """Run a call in its turn, and return the result of `read` for its outputs.

        Raises:
            QueueFull: too many calls wait already.
            DeadlineExceeded: the time-out of the model has passed.
            ServingError: the call failed, or it would wait for itself.
        """
        if len(self._waiting) >= MOST_INFER_WAITERS:
            raise QueueFull(
                f"{MOST_INFER_WAITERS} calls wait for this kernel already: ask again later"
            )
        loop = asyncio.get_running_loop()
        turn = self._turn(call, read, loop, self._taken)
        timer = self._timeout_s and loop.call_later(self._timeout_s, self._expire, turn)
        asker = ASKER.get()
        if asker is not None:
            asker.asks.add(turn)
        self._waiting[turn] = None
        try:
            self._advance()
            if asker is not None and turn in self._waiting and is_stuck(self._taken):
                raise self._ring()
            return await turn.done  # type: ignore[no-any-return]
        finally:
            turn.left = True
            self._waiting.pop(turn, None)
            if not self._waiting:
                self._pressed_since = None
            if asker is not None:
                asker.asks.discard(turn)
            if timer:
                timer.cancel()

    def _ring(self) -> ServingError:
        return ServingError(
            f"kernel {self._name} is asked by a kernel that it waits for itself, directly or"
            f" through others: all {len(self._taken)} of its calls at a time wait so, and would"
            " wait for ever; do not ask kernels in a ring, or raise max_concurrency"
        )

    def _expire(self, turn: PendingCall) -> None:
        if not turn.done.done():
            limit = f"{(self._timeout_s or 0) * 1e3:g} ms"
            text = f"the kernel did not answer within {limit} (timeout_ms of the model)"
            turn.done.set_exception(DeadlineExceeded(text))

    def _advance(self) -> None:
        while self._waiting and (runner := self._fleet.take()) is not None:
            turns = [turn for turn, _ in zip(self._waiting, range(self._most), strict=False)]
            for turn in turns:
                del self._waiting[turn]
            self._start(runner, turns)
        if not self._waiting:
            self._pressed_since = None
            return
        now = asyncio.get_running_loop().time()
        if self._pressed_since is None:
            self._pressed_since = now
        self._fleet.pressed(now - self._pressed_since)

    def _start(self, runner: Runner, turns: list[PendingCall]) -> None:
        loop, slot = asyncio.get_running_loop(), RunnerSlot()
        self._taken.add(slot)
        for turn in turns:
            turn.behind = (slot,)
            turn.call.ctx.slot = slot
        work = [turns]  # popped by the thread that runs it; a thread may take it late
        try:
            self._begin(self._run, runner, slot, work, loop)
        except RuntimeError as error:
            work.clear()
            for turn in turns:
                turn.error = NotAvailable(f"no thread takes the call: {error}")
            self._give_back(runner, slot, turns)

    def _run(
        self,
        runner: Runner,
        slot: RunnerSlot,
        work: list[list[PendingCall]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Run a batch, in a thread."""
        if not work:
            return
        turns = [turn for turn in work.pop() if not turn.left]
        try:
            if turns:  # else all clients have left: a kernel never gets an empty batch
                runner.run([turn.call for turn in turns])
        # All: an error that ended the thread silently would leave the calls waiting for ever.
        except BaseException as error:
            for turn in turns:
                turn.call.failed(error)
        for turn in turns:
            turn.finish()
        tell(loop, self._end, runner, slot, turns)

    def _end(self, runner: Runner, slot: RunnerSlot, turns: list[PendingCall]) -> None:
        self._give_back(runner, slot, turns)
        self._advance()

    def _give_back(self, runner: Runner, slot: RunnerSlot, turns: list[PendingCall]) -> None:
        for turn in turns:
            turn.settle()
        self._taken.discard(slot)
        self._fleet.give(runner)

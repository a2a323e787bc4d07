"""A program that queues the next inference in the engine while the engine computes one.

With one infer request the engine idles between two inferences: the event loop has to learn that the
first is over and join the rows of the next, and a thread has to wait for the interpreter. For
batches of small models that takes as long as the inference. Here a second infer request is filled
and started before the first is over, and the engine continues with it without a pause.

Inference on the event loop uses one infer request: while it runs the loop can neither read nor
batch. So a batch of several requests runs on the loop only if it is brief.

A request of one row that finds the engine idle may run a program compiled for a single row.
"""

import math
import time
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from ie_serving.core.values.tensors import Arrays, Read, Signature
from ie_serving.engines.base import GATHERED
from ie_serving.engines.run.detour import NonFiniteInput
from ie_serving.engines.run.infer_request import Lane, QueuedRequest, Shapes
from ie_serving.engines.run.latency_model import CEILING_S, LatencyModel
from ie_serving.engines.run.program import Program

T = TypeVar("T")

FILLED_AT_ONCE = 1 << 20
"""Bytes of inputs that the event loop copies in, in some 100 us; more are copied by a lane."""

BRIEF_S = 250e-6
"""Longest mean seconds of a batch's inference on the event loop; longer ones use a lane. A lane
costs some 150 us, in which the loop serves other requests; a lone request would only wait for that
time, so it has the longer limit `INLINE_MAX_S`."""


class LoneRowProgram(NamedTuple):
    """The program for requests of one row that find the engine idle.

    Attributes:
        shapes: the shapes it takes, in the order of the inputs in `Admission.names`.
        program: gives the same outputs for them.
    """

    shapes: Shapes
    program: Program


class QueuedProgram(Program):
    """A `Program` of two infer requests; the engine runs one of them at a time.

    Two inferences run at once only when a request arrives while the lone program runs.

    Args of the constructor:
        signature, latency, options: see `Program`.
        requests: both.
        lone: infers single requests that find the engine idle; None where `requests` do.

    Attributes:
        lone: as given.
    """

    ahead = True

    def __init__(
        self,
        signature: Signature,
        requests: Sequence[QueuedRequest],
        latency: LatencyModel,
        *,
        lone: LoneRowProgram | None = None,
        **options: Any,  # noqa: ANN401  those of `Program`
    ) -> None:
        super().__init__(signature, requests, latency, **options)
        self.at_once = len(requests) - 1
        inline = latency.longest_inline_s == math.inf  # whatever it takes, as `execution` says
        self._longest_batch_s = math.inf if inline else BRIEF_S
        self._ended = 0.0  # when the last inference in a lane was over
        self.lone = lone

    def infer(self, inputs: Arrays, read: Read[T]) -> Coroutine[Any, Any, T]:
        """See `CompiledModel.infer`. While the engine is busy, no request runs on the loop."""
        gathered = GATHERED.get()
        if (gathered and self._is_long(inputs)) or self._at_work:
            if self._knows(inputs):
                return self._infer_behind(inputs, read)
        elif self.lone and not gathered and self._shapes(inputs) == self.lone.shapes:
            return self.lone.program.infer(inputs, read)
        return super().infer(inputs, read)

    async def _infer_in_lane(self, *given: Any) -> Any:  # noqa: ANN401  as `Program` has it
        try:
            return await super()._infer_in_lane(*given)
        finally:
            # Inline inferences do not set `_ended`: the next starts after them.
            self._ended = time.perf_counter()

    @property
    def _at_work(self) -> bool:
        return self.busy or (self.lone is not None and self.lone.program.busy)

    def _is_long(self, inputs: Arrays) -> bool:
        return self._mean_s.get(_bucket(inputs), CEILING_S) > self._longest_batch_s

    def _knows(self, inputs: Arrays) -> bool:
        """Tell whether the shapes are known: others are tried first, in a lane."""
        return self.admission is None or self._shapes(inputs) in self.admission.known

    def _shapes(self, inputs: Arrays) -> Shapes:
        return tuple([inputs[name].shape for name in self._open])

    def _disturbs_the_lone_one(self) -> bool:
        """Tell whether the lone program infers; how long it takes beside this teaches nothing."""
        if self.lone is None or not self.lone.program.busy:
            return False
        self.lone.program.disturbed = True
        return True

    def close(self) -> None:
        """Let go of both programs."""
        try:
            super().close()
        finally:
            if self.lone:
                self.lone.program.close()

    async def _infer_behind(self, inputs: Arrays, read: Read[T]) -> T:
        try:
            return await self._infer_queued(inputs, read)
        except NonFiniteInput:
            return await self._diverted(inputs, read)

    async def _infer_queued(self, inputs: Arrays, read: Read[T]) -> T:
        for name, check in self._checks:
            check(inputs[name])
        free = self.pool.free
        request, waited_s = (free.pop(), 0.0) if free else await self._infer_request()
        alone = self.pool.others_idle and not self._disturbs_the_lone_one()
        large = sum([array.nbytes for array in inputs.values()]) > FILLED_AT_ONCE
        make = partial(Lane[T], new=True) if large else StartedLane[T]
        try:
            lane = make(cast("QueuedRequest", request), inputs, read, self._failures)
        except BaseException as error:
            self._give_failed(request, error)
            raise
        lane.start(self._threads)
        try:
            await lane.done
        finally:
            self._give_when_idle(request, lane)
        if lane.failure is not None:
            raise self.blame(lane.failure) from lane.failure
        result = lane.result()
        # The engine began this inference at the end of the one before; the event loop may have
        # learnt of that end after the end of this one.
        self._ran.append(max(0.0, min(lane.seconds, lane.ended - self._ended)))
        self._ended = lane.ended
        self._record.waited(waited_s + lane.waited_s if large else waited_s)
        if alone:
            self.latency.learn(_bucket(inputs), lane.seconds)
        return result


def _bucket(inputs: Arrays) -> int:
    """Give the key of `LatencyModel` for inputs of this size."""
    return sum([array.size for array in inputs.values()]).bit_length()


class StartedLane(Lane[T]):
    """A lane whose inference is already queued in the engine; its thread only waits for the end.

    Args of the constructor:
        request: filled and started here, on the event loop.
        inputs, read, failures: see `Lane`.
    """

    _request: QueuedRequest

    def __init__(
        self,
        request: QueuedRequest,
        inputs: Arrays,
        read: Read[T],
        failures: tuple[type[Exception], ...],
    ) -> None:
        super().__init__(request, inputs, read, failures)
        request.fill(inputs)
        request.start()

    def _infer(self) -> None:
        started = self._made
        try:
            outputs = self._request.finish()
        except self._failures as error:
            self._fail(error)
            return
        self._take(outputs, started)

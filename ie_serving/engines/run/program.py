"""Runs the requests of one signature, on any engine of this process.

A short inference runs on the event loop, a long one in a lane. `Program.infer` is on the path of
every small request: for speed it is one function where five would be clearer.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.core.runtime.threads import DaemonThreads
from ie_serving.core.values.errors import InvalidTensor, ServingError
from ie_serving.core.values.tensors import Array, Arrays, Read, Signature
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.run.detour import Detour, NonFiniteInput
from ie_serving.engines.run.infer_request import EngineRequest, Lane, Pool, ShapeAdmission
from ie_serving.engines.run.latency_model import CEILING_S, WEIGHT, LatencyModel
from ie_serving.engines.run.threads import thread_limit
from ie_serving.telemetry.log.logs import Event, carried
from ie_serving.telemetry.metrics.inferences import current
from ie_serving.telemetry.metrics.text import SETTLED_AT

if TYPE_CHECKING:
    from ie_serving.engines.run.shape_programs import SentShapeProgram

log = logging.getLogger(__name__)

T = TypeVar("T")

CheckArray = Callable[[Array], None]

SHARED_THREADS = max(16, thread_limit() or os.cpu_count() or 1)
"""Lanes of all models that run at once, made as they are needed: more would only divide the
processors further. A model with more infer requests than this has its own threads."""

INFER_THREADS = DaemonThreads(SHARED_THREADS, "infer", SPARE_CPU.settle)
"""The threads of lanes that all models share."""


def _own_threads(requests: int, apart: bool) -> DaemonThreads | None:
    own = apart or requests > SHARED_THREADS
    return DaemonThreads(requests, "infer", SPARE_CPU.settle) if own else None


class Program:
    """One signature of a compiled model. Used from one event loop, after its load.

    `queued_program.QueuedProgram` lets the engine have the next inference while it computes one.

    Args of the constructor:
        signature: public signature.
        requests: infer requests; as many inferences run at once.
        latency: decides between the loop and a lane.
        failures: types of the engine's errors.
        blame: makes an engine's error the request's error.
        checks: the checks on each request, with the name of the input.
        admission: shapes that are taken; None where each input has one shape only.
        apart: gives the lanes their own threads, for inferences that may block.
        detour: program for requests with NaN or infinity; None where these need no detour.
        freed: called by `close`, when the requests are gone.

    Attributes:
        admission, blame, latency: as given.
        at_once: number of infer requests.
        disturbed: whether an inference of another program has begun beside the last one in a lane.
        pool: its infer requests.
    """

    ahead = False

    def __init__(
        self,
        signature: Signature,
        requests: Sequence[EngineRequest],
        latency: LatencyModel,
        *,
        failures: tuple[type[Exception], ...],
        blame: Callable[[Exception], ServingError],
        checks: Sequence[tuple[str, CheckArray]] = (),
        admission: ShapeAdmission | None = None,
        apart: bool = False,
        detour: Detour | None = None,
        freed: Callable[[], object] = lambda: None,
    ) -> None:
        self.signature = signature
        self.latency = latency
        self._mean_s = latency.mean_s
        self._failures = failures
        self.blame = blame
        self._checks = checks
        self.admission = admission
        self._open = list(admission.names) if admission else []
        self.pool = Pool(requests)
        self.at_once = len(requests)
        self._own_threads = _own_threads(len(requests), apart)
        self._threads = self._own_threads or INFER_THREADS
        self._detour = detour
        self._freed = freed
        self._record = current()
        self._record.pools.add(self.pool)
        self._ran = self._record.ran
        self._about = carried()
        self.disturbed = False

    async def infer(self, inputs: Arrays, read: Read[T]) -> T:
        """See `CompiledModel.infer`."""
        for name, check in self._checks:
            check(inputs[name])
        new = False
        if self.admission is not None:
            shapes = tuple([inputs[name].shape for name in self._open])
            if shapes not in self.admission.known:
                await self.admission.check(shapes)
                new = True
        # A list, not a generator: it costs half for the one or two inputs that models have.
        bucket = sum([array.size for array in inputs.values()]).bit_length()
        # While an item is free no request waits, so taking it here jumps no queue.
        free = self.pool.free
        request, waited_s = (free.pop(), 0.0) if free else await self._infer_request()
        mean_s = self._mean_s.get(bucket, CEILING_S)
        if new or mean_s > self.latency.longest_inline_s:
            try:
                return await self._infer_in_lane(request, inputs, read, bucket, new, waited_s)
            except NonFiniteInput:
                return await self._diverted(inputs, read)
        # No `finally` does this: after a failure the request may have to be renewed first.
        try:
            request.fill(inputs)
            started = time.perf_counter()
            outputs = request.run()
        except NonFiniteInput:
            self.pool.give(request)
            return await self._diverted(inputs, read)
        except BaseException as error:
            self._give_failed(request, error)
            raise
        seconds = time.perf_counter() - started
        seen_s = seconds if seconds < CEILING_S else CEILING_S
        self._mean_s[bucket] = mean_s + WEIGHT * (seen_s - mean_s)
        ran = self._ran  # here, and not by a call: an append is all that most inferences pay
        ran.append(seconds)
        if waited_s or len(ran) >= SETTLED_AT:
            self._record.waited(waited_s)
        try:
            return read(outputs)
        finally:
            if self.pool.waiters:
                self.pool.give(request)
            else:
                free.append(request)

    @property
    def busy(self) -> bool:
        """Whether some inference runs."""
        return len(self.pool.free) < self.pool.size

    async def _diverted(self, inputs: Arrays, read: Read[T]) -> T:
        """Let the detour program compute a request that this program's infer requests refuse."""
        assert self._detour is not None  # they look at values where there is one
        return await self._detour.infer(inputs, read)

    async def _infer_request(self) -> tuple[EngineRequest, float]:
        """Wait for an infer request; tell for how many seconds."""
        began = time.perf_counter()
        self._record.waiting += 1
        try:
            return await self.pool.take(), time.perf_counter() - began
        finally:
            self._record.waiting -= 1

    async def _infer_in_lane(
        self,
        request: EngineRequest,
        inputs: Arrays,
        read: Read[T],
        bucket: int,
        new: bool,
        waited_s: float,
    ) -> T:
        """Run in a thread, copies and `read` included; the request goes back once it is idle."""
        # Requests that share the engine's threads slow each other down, and would teach that this
        # size is slower than it is.
        alone = self.pool.others_idle
        self.disturbed = False
        lane = Lane(request, inputs, read, self._failures, new)
        lane.start(self._threads)
        try:
            await lane.done
        finally:
            self._give_when_idle(request, lane)
        if lane.failure is not None:
            raise self.blame(lane.failure) from lane.failure
        result = lane.result()  # raises here: a failed lane has no latency to learn from
        self._ran.append(lane.seconds)
        self._record.waited(waited_s + lane.waited_s)
        # The time of a new shape is mostly the engine's preparation, so it predicts nothing.
        if alone and not (new or self.disturbed):
            self.latency.learn(bucket, lane.seconds)
        return result

    def _give_when_idle(self, request: EngineRequest, lane: Lane[T]) -> None:
        if lane.is_idle:
            self.pool.give(request)
            return
        # The engine may still write to the request's memory: it is lent again only when idle.
        lane.cancel(partial(self.pool.give, request))

    def _give_failed(self, request: EngineRequest, error: BaseException) -> None:
        """Return an infer request after `error` on the loop, renewed in a thread if needed.

        Raises:
            ServingError: the engine's error, translated for the client.
        """
        # Any other error refuses the inputs, which leaves the engine as it was.
        if not isinstance(error, self._failures):
            self.pool.give(request)
            return
        self._renew_and_give(request)
        raise self.blame(error) from error

    def _renew_and_give(self, request: EngineRequest) -> None:
        if not request.renews:
            self.pool.give(request)
            return
        # In a thread, since it may compile for seconds, and the loop must answer other requests.
        renewed = asyncio.get_running_loop().run_in_executor(self._threads, request.renew)
        renewed.add_done_callback(partial(self._give_renewed, request))

    def _give_renewed(self, request: EngineRequest, renewed: "asyncio.Future[None]") -> None:
        # A renewal that failed shows at the next use, which fails and renews again.
        if not renewed.cancelled() and (error := renewed.exception()):
            with self._about():
                name = self.signature.name
                log.warning(Event("infer request not renewed", signature=name, cause=error))
        self.pool.give(request)

    def close(self) -> None:
        """End threads of its own, and let go of the requests."""
        if self._own_threads:
            self._own_threads.shutdown()
        self.pool.free.clear()
        if self._detour is not None:
            self._detour.close()
        self._freed()


class RunnableSignature(Protocol):
    """One signature that can be run; `Program` is one."""

    @property
    def signature(self) -> Signature:
        """The signature as clients see it."""

    @property
    def at_once(self) -> int:
        """How many inferences run at once; 1 if that is unknown."""

    @property
    def ahead(self) -> bool:
        """Whether one more inference may be given to the engine while these run."""

    def infer(self, inputs: Arrays, read: Read[T]) -> Coroutine[Any, Any, T]:
        """See `CompiledModel.infer`."""

    def close(self) -> None:
        """Free everything."""


class Fallback(Protocol):
    """Takes signatures that the engine which read them cannot run."""

    def take(
        self, directory: Path, left_out: Sequence[Signature], options: EngineOptions
    ) -> tuple[list[RunnableSignature], list[Signature]]:
        """Make programs of those that it can run. Blocking.

        Args:
            directory: directory of the version.
            left_out: the signatures as the file declares them, each with why it is left out.
            options: options of the model.

        Returns:
            The programs, and the other signatures; it may add to why these are left out.
        """


class CompiledPrograms(CompiledModel):
    """The signatures of one version. See `engines.base.CompiledModel`.

    Freeing its memory at process exit would take 5 ms for each version, and is left out. Its child
    processes end with this process (`engines.process.worker`, `engines.pmml.java`).

    Args of the constructor:
        programs: one for each signature.
        freed: called after `close`, when the programs' memory is free.
        listed: signatures that clients see, but that have no program.
        runs_on: the engine of a signature, by its name, where the signature does not name it.
        as_sent: runs signatures for shapes that these do not declare, by their names.
        repeats: further signatures, each with the name of the one whose program computes it.

    Attributes:
        programs: by the names of their signatures, repeats included; none after `close`.
    """

    def __init__(
        self,
        programs: Sequence[RunnableSignature],
        freed: Callable[[], None] = lambda: None,
        listed: Sequence[Signature] = (),
        runs_on: Mapping[str, str] = MappingProxyType({}),
        as_sent: "Mapping[str, SentShapeProgram]" = MappingProxyType({}),
        repeats: Sequence[tuple[Signature, str]] = (),
    ) -> None:
        of = {each.name: name for each, name in repeats}
        self._as_sent = {**as_sent, **{n: as_sent[o] for n, o in of.items() if o in as_sent}}
        self.programs = {program.signature.name: program for program in programs}
        self.programs |= {name: self.programs[own] for name, own in of.items()}
        run = (*(program.signature for program in programs), *(each for each, _ in repeats))
        told = (
            replace(
                each,
                runs_on=each.runs_on or runs_on.get(of.get(each.name, each.name), ""),
                as_sent=each.name in self._as_sent,
            )
            for each in run
        )
        self.signatures = {signature.name: signature for signature in (*listed, *told)}
        self._freed = freed

    def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> Coroutine[Any, Any, T]:
        """See `engines.base`."""
        return self.programs[signature.name].infer(inputs, read)

    def infer_as_sent(
        self,
        signature: Signature,
        inputs: Mapping[str, Array],
        outputs: Collection[str],
        refusal: InvalidTensor,
        read: Read[T],
    ) -> Coroutine[Any, Any, T]:
        """See `engines.base`."""
        return self._as_sent[signature.name].answer(inputs, outputs, refusal, read)

    def at_once(self, signature: Signature) -> int:
        """See `engines.base`."""
        return self.programs[signature.name].at_once

    def ahead(self, signature: Signature) -> bool:
        """See `engines.base`."""
        return self.programs[signature.name].ahead

    @property
    def leave(self) -> None:
        """See `engines.base`: only memory."""

    def close(self) -> None:
        """See `engines.base`."""
        for program in dict.fromkeys((*self._as_sent.values(), *self.programs.values())):
            program.close()
        self.programs.clear()
        self._freed()

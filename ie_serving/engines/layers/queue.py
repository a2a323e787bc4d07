"""The queue of one signature: gathers requests, infers batches, answers each request its rows.

`gathering.Gatherer` decides; this module has the clock, the event loop, the arrays and the model. A
lone request passes through after a look at its rows: no task, no timer, no copy. A waiting request
costs a future, a batch costs a task.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import TypeVar

from ie_serving.core.runtime.eager_start import DirectFuture
from ie_serving.core.runtime.threads import let_go
from ie_serving.core.values.errors import InvalidRequest, ServingError, advised
from ie_serving.core.values.tensors import Arrays, Read, Signature
from ie_serving.engines.base import GATHERED, CompiledModel
from ie_serving.engines.layers.gathering import Batch, BatchRules, Gatherer, WaitingRows
from ie_serving.engines.layers.joining import (
    RowsLost,
    check_rows,
    counted_copies,
    form_of,
    joined,
    pieces,
    rows_of,
    split,
    together,
)
from ie_serving.telemetry.log.logs import Event, carried
from ie_serving.telemetry.metrics.batch_metrics import BatchMetrics
from ie_serving.telemetry.request.entry import CURRENT, ReportBatch, RequestEntry, current

log = logging.getLogger(__name__)

T = TypeVar("T")

JOINED_IN_THREAD = 1 << 20
"""Bytes of a batch from which its inputs are joined in a thread: as long as some 100 us."""

BRIEF_S = 50e-6
"""Default of `brief_s`: a future for each request, the way back to it, and its share of the joined
arrays cost some 30 us."""

now = time.perf_counter


class _WaitingRequest(DirectFuture[Arrays]):
    """The request of a `WaitingRows`: its inputs, the future of its outputs, its observer."""

    __slots__ = ("entry", "inputs")
    inputs: Arrays
    entry: RequestEntry | None


BatchParts = Sequence[WaitingRows[_WaitingRequest]]


class Queue:
    """Gathers requests for one signature of a model. Used from one event loop.

    Args of the constructor:
        model: infers the batches.
        signature: signature of the requests.
        rules: rules of the policy.
        record: called for each batch.
        most_rows: largest number of rows in one request; more are refused. 0 takes any, in pieces.
        brief_s: seconds of an inference below which requests are not gathered on an idle model.
        report: called with each batch whose requests are observed; None where no request is.
    """

    def __init__(
        self,
        model: CompiledModel,
        signature: Signature,
        rules: BatchRules,
        record: BatchMetrics,
        most_rows: int = 0,
        brief_s: float = BRIEF_S,
        report: ReportBatch | None = None,
    ) -> None:
        self._report = report
        self._model = model
        self._signature = signature
        self._names = list(signature.inputs)
        self._rules = rules
        self._record = record
        self._most_rows = most_rows
        self._gatherer: Gatherer[_WaitingRequest] = Gatherer(rules)
        self._running: dict[asyncio.Task[None], BatchParts] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._off = False
        self._brief_s = brief_s
        self._brief = False  # as the last inference that was watched says
        self._about = carried()
        record.watch(self)

    @property
    def sizes(self) -> Sequence[int]:
        """Sizes that batches are filled up to; empty if they are not."""
        return self._rules.sizes

    @property
    def waiting(self) -> int:
        """Rows that wait to be sent."""
        return self._gatherer.waiting

    async def infer(self, inputs: Arrays, read: Read[T]) -> T:
        """See `CompiledModel.infer`.

        Raises:
            QueueFull: too many rows wait already.
            InvalidRequest: more rows than a request may have.
        """
        rows = rows_of(inputs)
        # Requests without rows, or with unequal rows, go to the model, which answers or refuses.
        if not rows or self._off:
            return await self._model.infer(self._signature, inputs, read)
        gatherer, rules = self._gatherer, self._rules
        whole = rows <= rules.rows and (not rules.sizes or rows in rules.sizes)
        watched = gatherer.in_turn
        at_once = gatherer.arrive(whole, self._brief)
        opened = gatherer.in_turn and not watched
        if opened:
            asyncio.get_running_loop().call_soon(self._end_turn)
        if not at_once:
            parts: BatchParts = self._add(inputs, rows)
            try:
                if len(parts) == 1:
                    outputs = await parts[0].content
                else:
                    outputs = together([await part.content for part in parts])
            except BaseException:
                self._abandon(parts)
                parts = ()  # whose future has the error, whose traceback has this frame
                raise
            return read(outputs)
        self._record.alone(rows)
        began = now() if opened else 0.0
        try:
            return await self._model.infer(self._signature, inputs, read)
        finally:
            if opened:
                self._brief = now() - began < self._brief_s
            gatherer.busy -= 1  # as `_free_lane`, without its calls: every lone request is here
            if gatherer.waiting:
                self._send_due()

    def _add(self, inputs: Arrays, rows: int) -> BatchParts:
        """Let a request wait; if it is cancelled while it waits, it costs no inference."""
        if self._most_rows and rows > self._most_rows:
            raise self._too_large(rows)
        form, since = form_of(inputs, self._names), now()
        if rows <= self._rules.rows:
            # Without a constructor of its own, which would be a call more for each request.
            waiting = _WaitingRequest()
            waiting.inputs = inputs
            parts = [WaitingRows(waiting, rows, form, since)]
        else:
            parts = []
            for piece, count in pieces(inputs, rows, self._rules.rows):
                waiting = _WaitingRequest()
                waiting.inputs = piece
                parts.append(WaitingRows(waiting, count, form, since))
        if self._report is not None:
            entry = current()
            for part in parts:
                part.content.entry = entry
        self._gatherer.add(parts)
        if self._gatherer.waiting >= self._rules.rows:
            self._send_due()  # a full batch has nothing to wait for
        return parts

    def _too_large(self, rows: int) -> InvalidRequest:
        return InvalidRequest(
            advised(
                f"Task size {rows} is larger than maximum input batch size {self._most_rows}",
                ": send fewer rows in one request",
            )
        )

    def _abandon(self, parts: BatchParts) -> None:
        """Forget an unwanted request; cancel its batch if no other request of it is wanted."""
        for part in parts:
            self._gatherer.remove(part)
            outputs = part.content
            if not outputs.cancel() and not outputs.cancelled():
                outputs.exception()  # looked at: another piece has failed before
        for task, running in self._running.items():
            if all(part.content.done() for part in running):
                task.cancel()

    # -- sending -------------------------------------------------------------------------------

    def _end_turn(self) -> None:
        self._gatherer.end_turn()
        if self._gatherer.waiting:
            self._send_due()

    def _free_lane(self) -> None:
        self._gatherer.free_lane()
        if self._gatherer.waiting:
            self._send_due()

    def _send_due(self) -> None:
        """Send every batch that is due, and come back when the next one is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while (batch := self._gatherer.take(now())) is not None:
            self._send(batch)
        due = self._gatherer.due_at()
        if due is not None:
            delay = max(0.0, due - now())
            self._timer = asyncio.get_running_loop().call_later(delay, self._send_due)

    def _send(self, batch: Batch[_WaitingRequest]) -> None:
        at = now()
        waited_us = [(at - part.since) * 1e6 for part in batch.parts]
        self._record.batch(batch.reason.value, batch.rows, waited_us)
        asyncio.get_running_loop().create_task(self._run(batch))

    async def _run(self, batch: Batch[_WaitingRequest]) -> None:
        # From its first step on: a task that is cancelled before it would free no lane.
        task = asyncio.current_task()
        assert task is not None
        self._running[task] = batch.parts
        GATHERED.set(len(batch.parts) > 1)  # in this task alone
        try:
            answered, outputs = await self._outcome(batch.parts)
        finally:
            del self._running[task]
            self._free_lane()  # the next batch begins before the replies to this one are written
        _give_out(answered, outputs)

    async def _outcome(self, parts: BatchParts) -> tuple[BatchParts, Arrays]:
        """Infer the parts that are still wanted; give them with their outputs.

        A batch that fails is split in halves, down to single requests, and answered here: so only
        the faulty request gets the error. All of this runs in the batch's lane, in sequence.
        """
        waiting = [part for part in parts if not part.content.done()]
        if not waiting:
            return (), {}
        try:
            if self._report is None:
                return waiting, await self._infer(waiting)
            return waiting, await self._infer_observed(waiting, self._report)
        except Exception as error:
            if len(waiting) == 1:
                _fail(waiting[0], error)
                return (), {}
            self._note_failure(error)
        middle = len(waiting) // 2
        for half in (waiting[:middle], waiting[middle:]):
            _give_out(*await self._outcome(half))
        return (), {}

    async def _infer(self, parts: BatchParts) -> Arrays:
        given = [part.content.inputs for part in parts]
        rows = sum([part.rows for part in parts])
        size = self._rules.size_for(rows)
        if len(given) > 1 and _bytes(given[0]) * len(given) > JOINED_IN_THREAD:
            inputs = await asyncio.to_thread(joined, given, rows, size)
        else:
            inputs = joined(given, rows, size)
        outputs = await self._model.infer(self._signature, inputs, counted_copies)
        if len(given) > 1 or rows != size:
            check_rows(outputs, size)
        return outputs

    async def _infer_observed(self, parts: BatchParts, report: ReportBatch) -> Arrays:
        """Infer, and report the requests that shared the batch, with the batch's steps."""
        asked = [(part.content.entry, part.since) for part in parts]
        members = [(each, since) for each, since in asked if each and each.parts is not None]
        # The task has the context of the request during which the batch was sent.
        own = RequestEntry()
        own.began, own.parts = now(), []
        CURRENT.set(own if members else None)
        try:
            return await self._infer(parts)
        finally:
            if members:
                report(own, members)

    def _note_failure(self, error: Exception) -> None:
        self._record.apart()
        if isinstance(error, RowsLost) and not self._off:
            self._off = True
            name = self._signature.name
            with self._about():
                log.warning(Event("batching stopped", signature=name, cause=error))


def _fail(part: WaitingRows[_WaitingRequest], error: Exception) -> None:
    if not part.content.done():
        # The frames that it went through have the batch, which has the error by this future. A
        # defect keeps them for the log.
        if isinstance(error, ServingError):
            let_go(error)
        part.content.set_exception(error)


def _give_out(parts: BatchParts, outputs: Arrays) -> None:
    for part, own in zip(parts, split(outputs, [part.rows for part in parts]), strict=True):
        if not part.content.done():
            part.content.set_result(own)


def _bytes(inputs: Arrays) -> int:
    return sum(array.nbytes for array in inputs.values())

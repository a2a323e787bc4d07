"""Dynamic batching: a layer that gathers requests for each signature of a model into batches.

queue.py        the event loop's side: futures, tasks, the model
gathering.py    the policy: which requests make a batch, and when it is sent
joining.py      arrays: rows of several requests in one, and back; which may share a batch
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import ConfigError, LoadFailed, ServingError
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import Array, Arrays, Read, Signature
from ie_serving.engines.base import GATHERED, CompiledModel, Engine, EngineAround, EngineOptions
from ie_serving.engines.layer_options import Batching
from ie_serving.engines.layers import own_loop
from ie_serving.engines.layers.gathering import BatchRules
from ie_serving.engines.layers.joining import (
    candidates,
    has_open_rows,
    refused_by_shapes,
    refused_by_trial,
)
from ie_serving.engines.layers.layer import Layer
from ie_serving.engines.layers.queue import Queue
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.metrics.batch_metrics import BatchMetrics
from ie_serving.telemetry.request.entry import ReportBatch

log = logging.getLogger(__name__)

T = TypeVar("T")

PARAMETERS = "batching_params.pbtxt"
"""Parameters of one version, in its directory. Source: `bundle_factory_util.cc` of TensorFlow
Serving."""

ReadParameters = Callable[[str, str], Batching]
"""Reads the text of `PARAMETERS`, given its name for faults as well. Raises ConfigError."""


class BatchedModel(Layer):
    """A model some of whose signatures gather requests. See `engines.base.CompiledModel`.

    Args of the constructor:
        inner: infers the batches.
        queues: queues of the signatures that gather requests, by name.
        notes: remarks on a signature for `ie_serving check`, beside the name of its engine.
    """

    def __init__(
        self,
        inner: CompiledModel,
        queues: Mapping[str, Queue],
        notes: Mapping[str, str],
    ) -> None:
        told = {
            name: replace(each, runs_on=each.runs_on + notes.get(name, ""))
            for name, each in inner.signatures.items()
        }
        super().__init__(inner, told)
        self._queues = queues

    def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> Coroutine[Any, Any, T]:
        """See `engines.base`."""
        queue = self._queues.get(signature.name)
        if queue is None:
            return self.inner.infer(signature, inputs, read)
        return queue.infer(inputs, read)


class BatchingEngine(EngineAround):
    """`engine`, whose models batch requests where their options enable it. See `Engine`.

    Args of the constructor:
        engine: compiles.
        record: called for each batch of the models.
        read: reads the parameters of a version.
        report: called with each batch and its requests; None where traces are off.
    """

    def __init__(
        self,
        engine: Engine,
        record: BatchMetrics,
        read: ReadParameters,
        report: ReportBatch | None = None,
    ) -> None:
        super().__init__(engine)
        self._queue = partial(Queue, report=report)
        self._record = record
        self._read = read

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        """See `engines.base`. Rows are tried here, before the model is used from anywhere else.

        Raises:
            LoadFailed: also for faults of the version's own parameters.
        """
        batching = self._of_version(directory, options.of(Batching))
        if not batching.rows:
            return self._engine.compile(directory, options)
        with ExitStack() as undone:
            compiled = self._engine.compile(directory, replace(options, ahead=True))
            undone.callback(compiled.close)
            batched = self._batched(compiled, batching)
            undone.pop_all()
        return batched

    def _of_version(self, directory: Path, given: Batching) -> Batching:
        if not given.in_version:
            return given
        path = directory / PARAMETERS
        if not path.is_file():
            return Batching()
        try:
            own = self._read(path.read_text(encoding="utf-8", errors="replace"), PARAMETERS)
        except ConfigError as error:
            raise LoadFailed(str(error)) from error
        # The lanes are the server's, in TensorFlow Serving as well.
        return replace(own, num_batch_threads=given.num_batch_threads)

    def _batched(self, model: CompiledModel, batching: Batching) -> BatchedModel:
        queues: dict[str, Queue] = {}
        notes: dict[str, str] = {}
        for name, signature in model.signatures.items():
            # A signature that takes Examples runs another signature, which has its own queue.
            by_others = signature.left_out or signature.definition or signature.examples
            # A kernel with `execute_batch` gathers its calls itself.
            if by_others or signature.gathers:
                continue
            refusal = refused_by_shapes(signature) or refused_by_trial(model, signature)
            if refusal:
                log.warning(Event("batching refused", signature=name, cause=refusal))
                notes[name] = f", each request by itself: {refusal}"
                continue
            rules = rules_of(batching, model.at_once(signature), most_rows(signature))
            _check_room(signature, rules.sizes)
            if rules.lanes == 1 and model.ahead(signature):
                rules = replace(rules, ahead=True)
            warm(model, signature, rules.likely_sizes, rules.count_of_sizes)
            most = batching.most_request_rows
            queues[name] = self._queue(model, signature, rules, self._record, most)
            notes[name] = f", in batches of up to {rules.rows} rows"
        return BatchedModel(model, queues, notes)


def _check_room(signature: Signature, sizes: Sequence[int]) -> None:
    """Refuse a size that no batch can be filled up to. Raises: LoadFailed."""
    row = sum(
        spec.dtype.numpy.itemsize * math.prod(max(size, 1) for size in (spec.shape or ())[1:])
        for spec in signature.inputs.values()
    )
    largest = max(sizes, default=0)
    if row * largest > BUDGET.limit:
        raise LoadFailed(
            f"allowed_batch_sizes: {largest} rows take {row * largest} bytes or more, and all"
            f" requests together may take {BUDGET.limit}: leave that size out",
            Hint(", or raise {server.memory_budget_bytes}"),
        )


def most_rows(signature: Signature) -> int | None:
    """Give the most rows that a signature takes at once; None where there is no limit."""
    limits = [spec.bounds[0][1] for spec in signature.inputs.values() if spec.bounds]
    return min(limits, default=None)


def rules_of(batching: Batching, at_once: int = 1, most: int | None = None) -> BatchRules:
    """Give the rules of the policy, for a model that runs so many inferences and rows at once."""
    rows = batching.rows if most is None else min(batching.rows, most)
    smaller = [size for size in batching.sizes if size < rows]
    return BatchRules(
        rows=rows,
        lanes=batching.num_batch_threads or at_once,
        timeout_s=batching.batch_timeout_micros / 1e6,
        sizes=(*smaller, rows) if batching.sizes else (),
        most_waiting=batching.max_enqueued_batches * rows,
    )


# -- warm-up ------------------------------------------------------------------------------------
# An engine prepares for a shape at its first inference: OpenVINO's CPU plugin takes milliseconds
# for a small network. Without the warm-up, client requests would wait for that once for each size
# of batch, in each of the engine's streams.

MOST_S = 5.0
"""Seconds for the sizes of one signature, so that the load of a slow model with many sizes does not
take minutes. Sizes beyond this limit stay cold."""


def warm(model: CompiledModel, signature: Signature, sizes: Iterable[int], count: int) -> int:
    """Infer batches of each of `sizes`, in this order, with rows as the trial has them. Blocking.

    Args:
        model: infers.
        signature: signature of the model.
        sizes: batch sizes, `count` of them, which may be more than memory holds or time allows.
        count: number of sizes.

    Returns:
        How many sizes were inferred; none where the shape of a single row is open, since which one
        comes is not known.
    """
    if has_open_rows(signature):
        return 0
    warmed, cause = own_loop.run(_warm(model, signature, sizes))
    if left := count - warmed:
        log.warning(
            Event("batch sizes left cold", signature=signature.name, sizes=left, cause=cause)
        )
    return warmed


async def _warm(
    model: CompiledModel, signature: Signature, sizes: Iterable[int]
) -> tuple[int, str]:
    """Give how many sizes were inferred, and why no more."""
    GATHERED.set(True)  # a single row as well: it may come as the rest of a batch
    warmed = 0
    row = next(candidates(signature, 1))
    until = time.monotonic() + MOST_S
    for size in sizes:
        if time.monotonic() > until:
            return warmed, f"the others took {MOST_S:g} s"
        try:
            batch = {name: _repeated(array, size) for name, array in row.items()}
            await _infer_everywhere(model, signature, batch)
        except ServingError as error:
            return warmed, str(error)
        warmed += 1
    return warmed, ""


async def _infer_everywhere(model: CompiledModel, signature: Signature, batch: Arrays) -> None:
    # The first one alone: a shape that is not known yet is tried once, not by all of them.
    await model.infer(signature, batch, _nothing)
    streams = model.at_once(signature)
    if streams > 1:
        await asyncio.gather(*(model.infer(signature, batch, _nothing) for _ in range(streams)))


def _repeated(row: Array, size: int) -> Array:
    """Give `size` rows. Raises: RequestTooLarge, BudgetFull."""
    batch = BUDGET.empty((size, *row.shape[1:]), row.dtype)
    batch[...] = row
    return batch


def _nothing(_: object) -> None:
    """Read no output."""

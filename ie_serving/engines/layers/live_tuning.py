"""Tries faster ways to compute a model on the requests that its clients send.

Which way is the fastest depends on the shapes that clients send, and is not known at a load:

- Where sizes are open, OpenVINO's CPU plugin looks at the shapes of each operation in each
  inference, and folds less: for a detector of images it takes 6 % longer than a graph of these
  sizes alone, for a graph network three times as long.
- onnxruntime and LiteRT are faster for some models, such as those with recurrent layers.

So each way is tried for the shapes that a model has spent much time on:

    WATCHED      the model has not spent as many seconds on these shapes as its load took
    OPENING      a thread opens the next way; the best one so far answers
    COMPARED     the best way answers; then the new one computes the same, unawaited by clients
    TIMED        both answer in turn; the better one becomes the best, and the next way is opened
    SETTLED      the best way answers; what another way than the model refuses, the model answers

A way answers clients only after `COMPARISONS` requests with the same outputs. It replaces the best
one only if it is faster by `SHARE` and `LEAST_GAIN_S`. `docs/guide/models.md` has figures.
"""

import asyncio
import enum
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from ie_serving.core.values.difference import drifts
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import Arrays, Read, Signature, copies
from ie_serving.engines.base import REHEARSED, CompiledModel
from ie_serving.engines.layers.layer import Layer
from ie_serving.telemetry.log.logs import Event, carried

log = logging.getLogger(__name__)

COMPARISONS: Final = 3
"""Requests that a way computes before it answers any."""
TURNS: Final = 15
"""Requests that each of two ways answers before one is chosen. They are those of clients, so that
both ways are measured beside the same other work."""
SHARE: Final = 0.95
"""A way is better if it takes at most this share of the time: less may be noise, and is not worth
the memory of a second model."""
LEAST_GAIN_S: Final = 0.00005
"""Least seconds by which a way is better."""
LEAST_S: Final = 0.0002
"""Mean seconds of a request below which no way is tried: most of that time is the server's."""
FEW: Final = 32
"""Requests after which those below `LEAST_S` are not watched any more: it costs a microsecond."""
LEAST_COST_S: Final = 0.25
"""Least seconds of requests of some shapes after which ways are tried for them."""
MOST_KEPT: Final = 2
"""Shapes with another way than the model: each takes about the memory of a model, and clients
choose the shapes."""
MOST_WATCHED: Final = 64
"""Shapes that are watched at a time, some 300 bytes each; the oldest is forgotten for one more."""
MOST_SETTLED: Final = 8
"""Shapes after which no others are watched: trials of a model come to an end."""

T = TypeVar("T")
InputShapes = tuple[tuple[int, ...], ...]

_UNKNOWN: Final = object()
"""In place of the way of shapes that are not settled."""
_ONE_AT_A_TIME = threading.Lock()
"""To open a way takes processor time from requests."""


class Way(NamedTuple):
    """Another way to compute a model of one signature.

    Attributes:
        name: for the log.
        opens: compiles, for given shapes by input. Blocking. Raises: LoadFailed.
    """

    name: str
    opens: Callable[[Mapping[str, tuple[int, ...]]], CompiledModel]


def tuned(
    model: CompiledModel, ways: Sequence[Way], cost_s: float, tolerance: float
) -> CompiledModel:
    """Add the layer, if there are ways and the model has one signature.

    Args:
        model: the model that answers until a better way is found.
        ways: in the order in which they are tried.
        cost_s: seconds that it takes to open one; the load of the model shows it.
        tolerance: share of a number, and of the greatest of its output, by which floats may differ.
    """
    signature, *others = model.signatures.values()
    if not ways or others or signature.left_out or not signature.inputs or _is_short(signature):
        return model
    return LiveTuningLayer(model, ways, max(LEAST_COST_S, cost_s), tolerance)


def _is_short(signature: Signature) -> bool:
    """Tell whether requests are known to be too short for a way to matter, unless in large batches.

    These gain little: what a graph of open sizes costs more does not grow with the batch.
    """
    shapes = [spec.shape for spec in signature.inputs.values()]
    if signature.row_s is None or any(shape is None or -1 in shape[1:] for shape in shapes):
        return False
    return signature.row_s < LEAST_S


class Stage(enum.Enum):
    """How far the trials for some shapes are; see the head of this module."""

    WATCHED = enum.auto()
    OPENING = enum.auto()
    COMPARED = enum.auto()
    TIMED = enum.auto()
    SETTLED = enum.auto()


class _OpenedWay:
    """A model that may replace the first one; closed when it is dropped and its last user leaves.

    Attributes:
        name: name of its way.
        model: the model.
        users: requests and comparisons that use it now, until it is settled.
        is_dropped: whether another one is better.
    """

    def __init__(self, name: str, model: CompiledModel) -> None:
        self.name = name
        self.model = model
        self.users = 0
        self.is_dropped = False


class _Trial:
    """The trials for some shapes. Changed on the event loop; `stage` also by the opening thread.

    Attributes:
        shapes: of each input, in the order of the signature.
        stage: see `Stage`.
        spent_s, requests: seconds that requests have taken while it was watched, and their number.
        ways: those that are still to be tried.
        best: the best way so far; None for the model itself.
        new: the way that is compared or timed.
        alike: comparisons of `new`.
        turns: requests that have begun while it was timed.
        best_s, new_s: seconds of these requests.
        found: what was found of each way, as text.
    """

    def __init__(self, shapes: InputShapes, ways: Sequence[Way]) -> None:
        self.shapes = shapes
        self.stage = Stage.WATCHED
        self.spent_s = 0.0
        self.requests = 0
        self.ways = list(ways)
        self.best: _OpenedWay | None = None
        self.new: _OpenedWay | None = None
        self.alike = 0
        self.turns = 0
        self.best_s: list[float] = []
        self.new_s: list[float] = []
        self.found: list[str] = []


class LiveTuningLayer(Layer):
    """See `CompiledModel`. Args of the constructor: see `tuned`.

    Attributes:
        ways: as given.
    """

    def __init__(
        self, inner: CompiledModel, ways: Sequence[Way], cost_s: float, tolerance: float
    ) -> None:
        super().__init__(inner)
        (signature,) = inner.signatures.values()
        self._names = list(signature.inputs)
        specs = signature.inputs.values()
        self._has_one_shape = not any(each.shape is None or -1 in each.shape for each in specs)
        self.ways = ways
        self._cost_s = cost_s
        self._tolerance = tolerance
        # What is opened later counts for the record of the version that is loaded now.
        self._context = copy_context()
        self._about = carried()
        self._watches = True
        self._trials: dict[InputShapes, _Trial] = {}
        self._settled: dict[InputShapes, _OpenedWay | None] = {}
        self._comparing: asyncio.Task[None] | None = None
        self._lock = threading.Lock()  # `close` and the opening thread are other threads
        self._is_closed = False

    def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> Coroutine[Any, Any, T]:
        """See `engines.base`."""
        if self._watches or self._settled:
            shapes = tuple([inputs[name].shape for name in self._names])
            way = self._settled.get(shapes, _UNKNOWN)
            if isinstance(way, _OpenedWay):
                return self._infer_other(way.model, signature, inputs, read)
            if way is _UNKNOWN and self._watches and not REHEARSED.get():
                return self._infer_watched(shapes, signature, inputs, read)
        return self.inner.infer(signature, inputs, read)

    def _infer_by(
        self, way: _OpenedWay | None, signature: Signature, inputs: Arrays, read: Read[T]
    ) -> Coroutine[Any, Any, T]:
        if way is None:
            return self.inner.infer(signature, inputs, read)
        return self._infer_other(way.model, signature, inputs, read)

    async def _infer_other(
        self, other: CompiledModel, signature: Signature, inputs: Arrays, read: Read[T]
    ) -> T:
        try:
            return await other.infer(other.signatures[signature.name], inputs, read)
        except ServingError:  # clients get the same refusals as before
            return await self.inner.infer(signature, inputs, read)

    async def _infer_watched(
        self, shapes: InputShapes, signature: Signature, inputs: Arrays, read: Read[T]
    ) -> T:
        trial = self._trials.get(shapes) or self._watch(shapes)
        if trial.stage is Stage.TIMED:
            return await self._infer_timed(trial, signature, inputs, read)
        if trial.stage is Stage.COMPARED and self._comparing is None:
            return await self._infer_compared(trial, signature, inputs, read)
        began = time.perf_counter()
        result = await self._infer_by(trial.best, signature, inputs, read)
        trial.spent_s += time.perf_counter() - began
        trial.requests += 1
        is_time = trial.spent_s >= self._cost_s or trial.requests == FEW
        if is_time and trial.stage is Stage.WATCHED:
            self._go_on(trial)
        return result

    def _watch(self, shapes: InputShapes) -> _Trial:
        oldest = next(iter(self._trials.values()), None)
        if oldest and len(self._trials) >= MOST_WATCHED and oldest.stage is Stage.WATCHED:
            del self._trials[oldest.shapes]
        trial = self._trials[shapes] = _Trial(shapes, self.ways)
        return trial

    def _go_on(self, trial: _Trial) -> None:
        """Try the next way, or settle."""
        is_short = trial.spent_s < LEAST_S * trial.requests
        if trial.spent_s < self._cost_s and not is_short:
            return
        if trial.ways and not is_short and self._watches:
            trial.stage = Stage.OPENING
            # Not of a pool, whose end the process would wait for.
            work = partial(self._context.copy().run, self._open, trial, trial.ways.pop(0))
            threading.Thread(target=work, name="live tuning", daemon=True).start()
            return
        trial.stage = Stage.SETTLED
        if trial.best is not None or not self._has_one_shape:
            self._settled[trial.shapes] = trial.best
        self._trials.pop(trial.shapes, None)
        kept = sum(way is not None for way in self._settled.values())
        is_last = kept >= MOST_KEPT or len(self._settled) >= MOST_SETTLED
        self._watches = not (is_last or self._has_one_shape)
        if trial.found:
            way = trial.best.name if trial.best else "as loaded"
            with self._about():
                facts = {"shapes": str(trial.shapes), "tried": "; ".join(trial.found)}
                log.info(Event("live tuning done", way=way, **facts))

    def _open(self, trial: _Trial, way: Way) -> None:
        """Open a way, in a thread of its own."""
        try:
            with _ONE_AT_A_TIME:
                if self._is_closed:
                    return
                model = way.opens(dict(zip(self._names, trial.shapes, strict=True)))
        except Exception as error:  # an error that ended the thread silently would leave no trace
            trial.found.append(f"{way.name}: {error}")
            trial.new = None
        else:
            with self._lock:
                trial.new = _OpenedWay(way.name, model)
                is_unused = self._is_closed
            if is_unused:
                model.close()
                return
        trial.alike, trial.turns, trial.best_s, trial.new_s = 0, 0, [], []
        trial.stage = Stage.COMPARED  # last: the event loop looks at it first

    async def _infer_compared(
        self, trial: _Trial, signature: Signature, inputs: Arrays, read: Read[T]
    ) -> T:
        """Answer by the best way, and let the new one compute the same afterwards."""
        if trial.new is None:
            self._go_on(trial)
            return await self._infer_by(trial.best, signature, inputs, read)
        result, expected = await self._infer_by(
            trial.best, signature, inputs, lambda outputs: (read(outputs), copies(outputs))
        )
        if self._comparing is None and trial.stage is Stage.COMPARED:
            # The memory of the inputs is the request's, and may be used again after the reply.
            work = self._compare(trial, trial.new, signature.name, copies(inputs), expected)
            self._comparing = asyncio.get_running_loop().create_task(work)
        return result

    async def _compare(
        self, trial: _Trial, way: _OpenedWay, name: str, inputs: Arrays, expected: Arrays
    ) -> None:
        way.users += 1
        try:
            found = await way.model.infer(way.model.signatures[name], inputs, copies)
            wrong = "; ".join(drifts(found, expected, self._tolerance).values())
        except Exception as error:  # whatever it is, it must not become the clients'
            wrong = str(error) or repr(error)
        self._comparing = None
        trial.alike += 1
        if wrong:
            self._drop(trial, way, wrong)
        elif trial.alike == COMPARISONS:
            trial.stage = Stage.TIMED
        self._leave(way)

    async def _infer_timed(
        self, trial: _Trial, signature: Signature, inputs: Arrays, read: Read[T]
    ) -> T:
        """Answer by both ways in turn; choose one when each has answered `TURNS` requests."""
        new, is_new = trial.new, trial.turns % 2 == 1
        assert new is not None  # see `_Trial`
        way, seconds = (new, trial.new_s) if is_new else (trial.best, trial.best_s)
        trial.turns += 1
        if way is not None:
            way.users += 1
        began = time.perf_counter()
        try:
            result = await self._infer_by(way, signature, inputs, read)
            seconds.append(time.perf_counter() - began)
            is_over = min(len(trial.best_s), len(trial.new_s)) >= TURNS
            if is_over and trial.stage is Stage.TIMED and trial.new is new:
                self._choose(trial, new)
        finally:
            if way is not None:
                self._leave(way)
        return result

    def _choose(self, trial: _Trial, new: _OpenedWay) -> None:
        best_s, new_s = min(trial.best_s), min(trial.new_s)  # other work only makes one longer
        times = f"a request takes {1e3 * new_s:.2f} ms, and {1e3 * best_s:.2f} without"
        if new_s > min(SHARE * best_s, best_s - LEAST_GAIN_S):
            self._drop(trial, new, times)
            return
        before, trial.best, trial.new = trial.best, new, None
        trial.found.append(f"{new.name}: {times}")
        if before is not None:
            self._discard(before)
        self._go_on(trial)

    def _drop(self, trial: _Trial, way: _OpenedWay, cause: str) -> None:
        trial.new = None
        trial.found.append(f"{way.name}: {cause}")
        self._discard(way)
        self._go_on(trial)

    def _discard(self, way: _OpenedWay) -> None:
        way.is_dropped = True
        way.users += 1  # it leaves here, and closes the model if it is the only one
        self._leave(way)

    def _leave(self, way: _OpenedWay) -> None:
        """Close a way that is not wanted any more, when its last user leaves."""
        with self._lock:
            way.users -= 1
            is_unused = not way.users and (way.is_dropped or self._is_closed)
        if is_unused:
            asyncio.get_running_loop().run_in_executor(None, way.model.close)

    def close(self) -> None:
        """See `engines.base`."""
        with self._lock:
            self._is_closed = True
            opened = [way for each in self._trials.values() for way in (each.best, each.new)]
            unused = [way for way in (*opened, *self._settled.values()) if way and not way.users]
        for way in unused:
            way.model.close()
        super().close()

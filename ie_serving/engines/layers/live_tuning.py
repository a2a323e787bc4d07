"""Tries faster ways to compute a model on the requests that its clients send.

Which way is the fastest depends on the shapes that clients send, and is not known at a load:

- Where sizes are open, OpenVINO's CPU plugin looks at the shapes of each operation in each
  inference, and folds less: for a detector of images it takes 6 % longer than a graph of these
  sizes alone, for a graph network three times as long.
- onnxruntime and LiteRT are faster for some models, such as those with recurrent layers.

So ways are tried for shapes that a model has spent as many seconds on as its load took. One trial
runs at a time, so that a model has few ways in memory. The steps of a trial:

1. `COMPARISONS` requests are kept as samples, with the model's outputs.
2. A thread opens the next way and computes the samples. A way of other outputs is closed, and the
   thread opens the one after it.
3. The way that was opened, the rival, and the best one so far answer in turn. The better one
   becomes the best; step 2 follows for the next way.

After the last way the best one answers all requests of these shapes. What it refuses, the model
answers. A rival is better if it is faster by `SHARE` and `LEAST_GAIN_S`. `docs/guide/models.md` has
figures.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from contextvars import copy_context
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from ie_serving.core.values.difference import TOLERANCE, drifts
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import Arrays, Read, Signature, copies, size_of
from ie_serving.engines.base import AUTO, REHEARSED, CompiledModel, EngineOptions
from ie_serving.engines.layers import own_loop
from ie_serving.engines.layers.layer import Layer
from ie_serving.engines.layers.precision import FULL
from ie_serving.engines.openvino.devices import CPU
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.telemetry.log.logs import Event, carried

log = logging.getLogger(__name__)

COMPARISONS: Final = 3
"""Requests that a way computes before it answers any."""
MOST_SAMPLE: Final = 1 << 26
"""Bytes of a request and its outputs beyond which it is not kept, and no way is tried."""
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
"""Shapes that are watched at a time, some 300 bytes each. One more takes the place of those that no
request has had for the longest time."""
MOST_SETTLED: Final = 8
"""Shapes after which no others are watched: trials of a model come to an end."""
MOST_MISSED: Final = 1000
"""Requests of other shapes in a row after which a trial ends: it holds memory, and others wait."""

T = TypeVar("T")
InputShapes = tuple[tuple[int, ...], ...]
Sample = tuple[Arrays, Arrays]
"""Inputs of a request, and the model's outputs."""

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
    model: CompiledModel,
    ways: Sequence[Way],
    options: EngineOptions,
    cost_s: float,
) -> CompiledModel:
    """Add the layer to a model of one signature that a CPU computes request by request.

    Args:
        model: the model that answers until a better way is found.
        ways: in the order in which they are tried.
        options: options of the model.
        cost_s: seconds that it takes to open one; the load of the model shows it.
    """
    own = options.of(OpenVinoOptions)
    if not ways or own.live_tuning != AUTO or own.target_device != CPU or options.ahead:
        return model
    signature, *others = model.signatures.values()
    if others or signature.left_out or not signature.inputs or _is_short(signature):
        return model
    tolerance = TOLERANCE if signature.precision in {"", FULL} else own.precision_tolerance
    return LiveTuningLayer(model, ways, max(LEAST_COST_S, cost_s), tolerance)


def _is_short(signature: Signature) -> bool:
    """Tell whether requests are known to be too short for a way to matter, unless in large batches.

    These gain little: what a graph of open sizes costs more does not grow with the batch.
    """
    shapes = [spec.shape for spec in signature.inputs.values()]
    if signature.row_s is None or any(shape is None or -1 in shape[1:] for shape in shapes):
        return False
    return signature.row_s < LEAST_S


class _OpenedWay:
    """A model that may replace the first one. Used on the event loop.

    Attributes:
        name: name of its way.
        model: the model.
        users: requests that it computes now, until its shapes are settled.
        is_dropped: whether another one is better; the last user closes it then.
    """

    def __init__(self, name: str, model: CompiledModel) -> None:
        self.name = name
        self.model = model
        self.users = 0
        self.is_dropped = False


class _Usage:
    """Requests of some shapes: their number, and the seconds that they have taken."""

    def __init__(self) -> None:
        self.requests = 0
        self.spent_s = 0.0


class _Trial:
    """The trial for some shapes. Belongs to the event loop, and to its thread `is_opening`.

    Attributes:
        shapes: of each input, in the order of the signature.
        ways: those that are still to be tried.
        samples: those that each way is compared by.
        best: the best way so far; None for the model itself.
        is_opening: whether a thread opens the next way.
        rival: the way that answers in turn with the best one.
        turns: requests that have begun with this rival.
        best_s, rival_s: seconds of these requests.
        missed: requests of other shapes since the last one of these.
        found: what was found of each way, as text.
    """

    def __init__(self, shapes: InputShapes, ways: Sequence[Way]) -> None:
        self.shapes = shapes
        self.ways = list(ways)
        self.samples: list[Sample] = []
        self.best: _OpenedWay | None = None
        self.is_opening = False
        self.rival: _OpenedWay | None = None
        self.turns = 0
        self.best_s: list[float] = []
        self.rival_s: list[float] = []
        self.missed = 0
        self.found: list[str] = []


class LiveTuningLayer(Layer):
    """See `CompiledModel`.

    Args of the constructor:
        inner: the model that answers until a better way is found.
        ways: in the order in which they are tried.
        cost_s: seconds of requests of some shapes after which they are tried.
        tolerance: share of a number, and of the greatest of its output, by which floats may differ.

    Attributes:
        ways: as given.
    """

    def __init__(
        self, inner: CompiledModel, ways: Sequence[Way], cost_s: float, tolerance: float
    ) -> None:
        super().__init__(inner)
        (signature,) = inner.signatures.values()
        self._name = signature.name
        self._inputs = list(signature.inputs)
        specs = signature.inputs.values()
        self._has_one_shape = not any(each.shape is None or -1 in each.shape for each in specs)
        self.ways = ways
        self._cost_s = cost_s
        self._tolerance = tolerance
        # What is opened later counts for the record of the version that is loaded now.
        self._context = copy_context()
        self._about = carried()
        self._watches = True
        self._watched: dict[InputShapes, _Usage] = {}
        self._trial: _Trial | None = None
        self._settled: dict[InputShapes, _OpenedWay | None] = {}
        self._lock = threading.Lock()  # either `close` closes a way that was opened, or its thread
        self._is_closed = False

    def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> Coroutine[Any, Any, T]:
        """See `engines.base`."""
        if self._watches or self._settled:
            shapes = tuple([inputs[name].shape for name in self._inputs])
            if (way := self._settled.get(shapes)) is not None:
                return self._infer_other(way.model, signature, inputs, read)
            if self._watches and shapes not in self._settled and not REHEARSED.get():
                return self._infer_watched(shapes, signature, inputs, read)
        return self.inner.infer(signature, inputs, read)

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
        trial = self._trial
        if trial is None or trial.shapes != shapes:
            return await self._infer_counted(shapes, signature, inputs, read)
        trial.missed = 0
        if len(trial.samples) < COMPARISONS:
            return await self._infer_sampled(trial, signature, inputs, read)
        if not trial.is_opening:
            if trial.rival is not None:
                return await self._infer_timed(trial, trial.rival, signature, inputs, read)
            self._end(trial)  # no way was left that answers alike
        return await self._infer_by(trial.best, signature, inputs, read)

    async def _infer_counted(
        self, shapes: InputShapes, signature: Signature, inputs: Arrays, read: Read[T]
    ) -> T:
        """Answer by the model; begin a trial if requests of these shapes have taken long enough."""
        if self._trial is not None:
            self._miss(self._trial)
        began = time.perf_counter()
        result = await self.inner.infer(signature, inputs, read)
        if self._trial is None and self._watches and shapes not in self._settled:
            self._count(shapes, time.perf_counter() - began)
        return result

    def _count(self, shapes: InputShapes, seconds: float) -> None:
        usage = self._watched.pop(shapes, None) or _Usage()
        if len(self._watched) >= MOST_WATCHED:
            del self._watched[next(iter(self._watched))]
        self._watched[shapes] = usage
        usage.requests += 1
        usage.spent_s += seconds
        is_enough = usage.spent_s >= self._cost_s
        if not is_enough and usage.requests != FEW:
            return
        if usage.spent_s < LEAST_S * usage.requests:
            self._settle(shapes, None)
        elif is_enough:
            self._trial = _Trial(shapes, self.ways)

    def _miss(self, trial: _Trial) -> None:
        trial.missed += 1
        if trial.missed < MOST_MISSED or trial.is_opening:
            return
        rival, trial.rival = trial.rival, None  # a request that it answers still chooses no more
        if rival is not None:
            self._drop(rival)
        trial.found.append("clients stopped sending these shapes")
        self._end(trial)

    async def _infer_sampled(
        self, trial: _Trial, signature: Signature, inputs: Arrays, read: Read[T]
    ) -> T:
        """Answer by the model, and keep the request; the last sample starts the thread."""
        result, sample = await self.inner.infer(
            signature,
            inputs,
            # Copied before the reply: then the memory of both may be used again.
            lambda outputs: (read(outputs), (copies(inputs), copies(outputs))),
        )
        if self._trial is trial and len(trial.samples) < COMPARISONS:
            self._keep(trial, sample)
        return result

    def _keep(self, trial: _Trial, sample: Sample) -> None:
        if (size := size_of(*sample)) > MOST_SAMPLE:
            trial.found.append(f"a request and its outputs have {size} bytes, above {MOST_SAMPLE}")
            self._end(trial)
            return
        trial.samples.append(sample)
        if len(trial.samples) == COMPARISONS:
            self._go_on(trial)

    def _go_on(self, trial: _Trial) -> None:
        """Let a thread open the next way; end the trial if there is none."""
        if not trial.ways:
            self._end(trial)
            return
        trial.turns, trial.best_s, trial.rival_s = 0, [], []
        trial.is_opening = True
        # Not of a pool, whose end the process would wait for.
        work = partial(self._context.copy().run, self._open, trial)
        threading.Thread(target=work, name="live tuning", daemon=True).start()

    def _open(self, trial: _Trial) -> None:
        """Open ways until one answers alike, in a thread of its own."""
        rival = None
        with _ONE_AT_A_TIME:
            while rival is None and trial.ways and not self._is_closed:
                rival = self._opened(trial, trial.ways.pop(0))
        with self._lock:
            if not self._is_closed:
                trial.rival = rival
                trial.is_opening = False  # last: the event loop looks at it first
                return
        if rival is not None:
            rival.model.close()

    def _opened(self, trial: _Trial, way: Way) -> _OpenedWay | None:
        """Open a way, and compare it; None if either fails. Blocking."""
        with ExitStack() as unused:
            try:
                model = way.opens(dict(zip(self._inputs, trial.shapes, strict=True)))
                unused.callback(model.close)
                wrong = own_loop.run(self._wrong(model, trial.samples))
            except Exception as error:  # one that ended the thread would leave the trial open
                wrong = str(error) or repr(error)
            if not wrong:
                unused.pop_all()
                return _OpenedWay(way.name, model)
            trial.found.append(f"{way.name}: {wrong}")
        return None

    async def _wrong(self, model: CompiledModel, samples: Sequence[Sample]) -> str:
        """Say how the outputs of a way differ from the model's; empty if they do not."""
        for inputs, expected in samples:
            found = await model.infer(model.signatures[self._name], inputs, copies)
            if differing := drifts(found, expected, self._tolerance):
                return "; ".join(differing.values())
        return ""

    async def _infer_by(
        self, way: _OpenedWay | None, signature: Signature, inputs: Arrays, read: Read[T]
    ) -> T:
        """Answer by a way of a trial, which stays open until the reply."""
        if way is None:
            return await self.inner.infer(signature, inputs, read)
        way.users += 1
        try:
            return await self._infer_other(way.model, signature, inputs, read)
        finally:
            way.users -= 1
            self._close_unused(way)

    async def _infer_timed(
        self, trial: _Trial, rival: _OpenedWay, signature: Signature, inputs: Arrays, read: Read[T]
    ) -> T:
        """Answer by both ways in turn; choose one when each has answered `TURNS` requests."""
        is_rivals = trial.turns % 2 == 1
        way, seconds = (rival, trial.rival_s) if is_rivals else (trial.best, trial.best_s)
        trial.turns += 1
        began = time.perf_counter()
        result = await self._infer_by(way, signature, inputs, read)
        seconds.append(time.perf_counter() - began)
        if trial.rival is rival and min(len(trial.best_s), len(trial.rival_s)) >= TURNS:
            self._choose(trial, rival)
        return result

    def _choose(self, trial: _Trial, rival: _OpenedWay) -> None:
        best_s, rival_s = min(trial.best_s), min(trial.rival_s)  # other work only makes one longer
        times = f"a request takes {1e3 * rival_s:.2f} ms, and {1e3 * best_s:.2f} without"
        trial.found.append(f"{rival.name}: {times}")
        worse: _OpenedWay | None = rival
        if rival_s <= min(SHARE * best_s, best_s - LEAST_GAIN_S):
            worse, trial.best = trial.best, rival
        trial.rival = None
        if worse is not None:
            self._drop(worse)
        self._go_on(trial)

    def _drop(self, way: _OpenedWay) -> None:
        way.is_dropped = True
        self._close_unused(way)

    def _close_unused(self, way: _OpenedWay) -> None:
        if way.is_dropped and not way.users:
            asyncio.get_running_loop().run_in_executor(None, way.model.close)

    def _end(self, trial: _Trial) -> None:
        self._trial = None
        self._settle(trial.shapes, trial.best)
        way = trial.best.name if trial.best else "as loaded"
        with self._about():
            facts = {"shapes": str(trial.shapes), "tried": "; ".join(trial.found)}
            log.info(Event("live tuning done", way=way, **facts))

    def _settle(self, shapes: InputShapes, way: _OpenedWay | None) -> None:
        """Let a way, or the model, answer requests of these shapes from now on."""
        self._watched.pop(shapes, None)
        self._settled[shapes] = way
        kept = {each: found for each, found in self._settled.items() if found is not None}
        is_last = len(kept) >= MOST_KEPT or len(self._settled) >= MOST_SETTLED
        if is_last or self._has_one_shape:
            self._watches = False
            self._watched, self._settled = {}, dict(kept)

    def close(self) -> None:
        """See `engines.base`."""
        with self._lock:
            self._is_closed = True
        trial = self._trial
        tried = (trial.best, trial.rival) if trial else ()
        for way in (*tried, *self._settled.values()):
            if way is not None:
                way.model.close()
        super().close()

"""`ctx.models`: lets a kernel call other models of its server; detects deadlocks among kernels.

Any thread of the kernel may call. A kernel that calls another model holds its runner while it
waits. Where all runners in a cycle of kernels are held so, no call of the cycle would ever run. The
call that would close such a cycle is refused. Used on the event loop.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Any, Protocol

from ie_serving.core.values.errors import (
    DeadlineExceeded,
    NotLoaded,
    PreconditionFailed,
    QueueFull,
    ServingError,
)
from ie_serving.core.values.fit import fit, shed
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.signatures import check_served, named
from ie_serving.core.values.tensors import Arrays, Signature, Specs, copies
from ie_serving.engines.other_models import HeldModel, OtherModels
from ie_serving.engines.python.outputs import array_of
from ie_serving.engines.run.program import SHARED_THREADS


class KernelQuestion(Protocol):
    """A kernel's call of another kernel.

    Attributes:
        behind: one of these slots must make progress for this call to be answered: its own slot
            once it runs, else any taken slot of the called kernel.
    """

    behind: "Collection[RunnerSlot]"


class RunnerSlot:
    """A runner that is running calls.

    Attributes:
        asks: calls of other kernels that these calls wait for.
    """

    __slots__ = ("asks",)

    def __init__(self) -> None:
        self.asks: set[KernelQuestion] = set()


ASKER: "ContextVar[RunnerSlot | None]" = ContextVar("asker", default=None)
"""The slot of the calling kernel, while a model answers it; None for clients' requests."""


def is_stuck(slots: Iterable[RunnerSlot]) -> bool:
    """Tell whether every slot waits for one of the others, directly or not, so that none ends.

    A kernel waits for any runner of the kernel that it calls. So one reachable slot that waits for
    no other call is enough for progress. Where no slot is reachable, the wait is for something
    else, such as a process that starts.
    """
    left, seen = list(slots), set[RunnerSlot]()
    if not left:
        return False
    while left:
        slot = left.pop()
        if not slot.asks:
            return False
        if slot not in seen:
            seen.add(slot)
            left += [each for call in slot.asks for each in call.behind]
    return True


LONGEST_S = 600.0
"""Seconds that a kernel waits for another model where neither its caller nor `timeout_ms` sets a
limit: ten minutes, as long as the slowest models answer. Beyond, something hangs."""

_SHARED = BoundedSemaphore(SHARED_THREADS - 1)
"""Shared threads in which kernels may wait for other models at a time; a further call is refused.
One thread stays free for the called models: otherwise no call could make progress."""


@contextmanager
def marked() -> Iterator[None]:
    """Mark errors of an asked model: whether the client is to blame depends on what asked it."""
    try:
        yield
    except ServingError as error:
        error.of_asked = True
        raise


class AskingCall(Protocol):
    """The call in which a kernel calls another model.

    Attributes:
        slot: slot in which it runs.
        shared: it runs in a thread that all models share.
    """

    slot: RunnerSlot | None
    shared: bool

    def time_left(self) -> float | None:
        """Give the seconds until its deadline; None without one."""


@dataclass(frozen=True)
class AskableModels:
    """The models that serve, and the event loop on which they do."""

    others: OtherModels
    loop: asyncio.AbstractEventLoop


class ModelHandle:
    """Another model of the server. Used in a kernel's threads."""

    def __init__(self, models: AskableModels, spec: ModelSpec, asker: AskingCall) -> None:
        self._models = models
        self._spec = spec
        self._asker = asker

    @property
    def inputs(self) -> Specs:
        """The model's inputs, by name."""
        return self._signature().inputs

    @property
    def outputs(self) -> Specs:
        """The model's outputs, by name."""
        return self._signature().outputs

    def _signature(self) -> Signature:
        with marked():
            return _signature(self._models.others.handle(self._spec), self._spec.signature)

    def predict(self, inputs: Mapping[str, Any]) -> Arrays:
        """Call the model, and wait for its outputs.

        Raises:
            ServingError: as a client would get it; also where the kernel would wait for itself.
            DeadlineExceeded: the caller's time is over, or `LONGEST_S`.
            QueueFull: all shared threads but one wait for other models.
        """
        if not self._asker.shared:
            return self._predict(inputs)
        if not _SHARED.acquire(blocking=False):
            raise QueueFull(
                f"{SHARED_THREADS - 1} kernels of isolation inline wait for other models, and take"
                ' all threads but one: ask again later, or give them "isolation": "thread"'
            )
        try:
            return self._predict(inputs)
        finally:
            _SHARED.release()

    async def predict_async(self, inputs: Mapping[str, Any]) -> Arrays:
        """Call the model from a coroutine, on any event loop, without blocking that loop.

        Raises:
            ServingError: as `predict`.
        """
        left_s = self._asker.time_left()
        outputs = asyncio.wrap_future(self._ask(inputs))
        try:
            with marked():
                return await asyncio.wait_for(outputs, LONGEST_S if left_s is None else left_s)
        except asyncio.TimeoutError:
            raise self._late(left_s) from None

    def _predict(self, inputs: Mapping[str, Any]) -> Arrays:
        left_s = self._asker.time_left()
        asked = self._ask(inputs)
        try:
            with marked():
                return asked.result(LONGEST_S if left_s is None else left_s)
        except (TimeoutError, FutureTimeout):  # one class since Python 3.11
            asked.cancel()
            raise self._late(left_s) from None

    def _ask(self, inputs: Mapping[str, Any]) -> Future[Arrays]:
        arrays = {name: array_of(value) for name, value in inputs.items()}
        work = _infer_other(self._models.others, self._spec, arrays, self._asker.slot)
        return asyncio.run_coroutine_threadsafe(work, self._models.loop)

    def _late(self, left_s: float | None) -> DeadlineExceeded:
        limit = f" within {LONGEST_S:g} s" if left_s is None else " in time"
        return DeadlineExceeded(f'"{self._spec.name}" did not answer{limit}; ask again later')


# A coroutine of its own: its context is its own too, and run_coroutine_threadsafe takes no other
# awaitable.
async def _infer_other(
    others: OtherModels, spec: ModelSpec, inputs: Arrays, slot: RunnerSlot | None
) -> Arrays:
    ASKER.set(slot)
    with await _handle(others, spec) as held:
        signature = _signature(held, spec.signature)
        fitted, added = fit(signature, inputs)
        outputs = await held.compiled.infer(signature, fitted, copies)
        return shed(outputs, added) if added else outputs


async def _handle(others: OtherModels, spec: ModelSpec) -> HeldModel:
    """Find the version that `spec` means; await its load where it is loaded on demand."""
    while True:
        try:
            return others.handle(spec)
        except NotLoaded as absent:
            await absent.load()


def _signature(held: HeldModel, name: str) -> Signature:
    found = named(held.signatures, name, f'model "{held.name}" version {held.version}')
    check_served(found)
    return found


class NamedModels:
    """`ctx.models`: the other models by name.

    Args of the constructor:
        models: None where no models can be called.
        asker: the calling kernel's call.
    """

    def __init__(self, models: AskableModels | None, asker: AskingCall) -> None:
        self._models = models
        self._asker = asker

    def __getitem__(self, name: str) -> ModelHandle:
        return self(name)

    def __call__(self, name: str, version: int | None = None, signature: str = "") -> ModelHandle:
        """Give a model, or one version or signature of it; its first use finds out if it exists.

        Raises:
            PreconditionFailed: no models can be called here, and a retry would not help.
        """
        if self._models is None:
            raise PreconditionFailed(
                "no other model can be asked here: only a kernel in a server can ask one, and none"
                ' of isolation "process"'
            )
        return ModelHandle(self._models, ModelSpec(name, version, signature=signature), self._asker)

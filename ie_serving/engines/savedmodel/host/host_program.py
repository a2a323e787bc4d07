"""The host's steps of a signature in order, and the program that runs them around a model."""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.core.values.errors import InvalidRequest, RequestTooLarge
from ie_serving.core.values.tensors import Array, Signature
from ie_serving.engines.run.program import RunnableSignature
from ie_serving.engines.run.threads import thread_limit
from ie_serving.engines.savedmodel.host.allowance import (
    Allowance,
    TooMuchInline,
    spending,
)
from ie_serving.engines.savedmodel.host.host_kernel import Compute, HostObject, as_tensor

T = TypeVar("T")

INLINE_ELEMENTS = 1 << 10
"""Elements up to which the host's part runs on the event loop; more are computed in a thread.
Python takes about half a microsecond for a string in each kernel, a model has a few of them, and
the loop may be held for a millisecond."""
INLINE_BYTES = 1 << 13
"""Bytes of strings up to which it does."""
THREADS = min(4, thread_limit() or os.cpu_count() or 1)
"""Threads of one signature, made as they are needed: Python runs one at a time, but Pillow and
numpy let others run while they compute. Requests that take long wait for those of their kind."""


@dataclass(frozen=True)
class HostStep:
    """One node.

    Attributes:
        what: its operation and name, for texts.
        compute: gives its output, or the list of its outputs.
        sources: slots of its inputs.
        results: used outputs: number and slot.
        in_thread: it may take long even for small inputs and outputs.
    """

    what: str
    compute: Compute
    sources: tuple[int, ...]
    results: tuple[tuple[int, int], ...]
    in_thread: bool = False

    @property
    def operation(self) -> str:
        """Name its operation."""
        return self.what.split()[0]

    def run(self, slots: list[Any]) -> None:
        """Compute the node.

        Raises:
            InvalidRequest: the client's values do not fit the operation.
            RequestTooLarge: the machine has not enough memory for it.
        """
        try:
            given = self.compute(*[slots[at] for at in self.sources])
        except Exception as error:
            self._blame(error)
            raise
        for number, slot in self.results:
            value = given[number] if isinstance(given, list) else given
            # numpy gives a scalar for no dimensions; most values are arrays already.
            if not isinstance(value, (np.ndarray, HostObject)):
                value = as_tensor(value)
            slots[slot] = value

    def _blame(self, error: Exception) -> None:
        """Say which operation of the model an error is of; other errors are defects.

        Raises:
            InvalidRequest, RequestTooLarge: see `run`.
        """
        if isinstance(error, InvalidRequest):
            raise type(error)(f"{error} ({self.what})") from error
        # numpy and Python raise these for shapes and values that do not fit together.
        if isinstance(error, (ValueError, IndexError, ArithmeticError)):
            raise InvalidRequest(f"{self.what} cannot be computed: {error}") from error
        if isinstance(error, MemoryError):
            raise RequestTooLarge(
                f"{self.what} takes more memory than there is: send less at once"
            ) from error


@dataclass
class HostPlan:
    """The host's part of a signature. A slot holds one tensor of a request.

    Attributes:
        slots: initial content of each: a constant, a table, or None.
        inputs: slots of a request's values, by the name of the input or parsed tensor.
        before: steps before the model.
        feeds: model inputs that they fill, by name: slot and dtype.
        made: the source of each of these: the operation, and the inputs that it depends on, by the
            file's aliases or the names of parsed tensors.
        taken: slots of the model's outputs that the host needs, by name.
        after: steps after the model.
        outputs: slots of the signature's outputs, by alias, and the dtype of each.
    """

    slots: list[Any] = field(default_factory=list)
    inputs: dict[str, int] = field(default_factory=dict)
    before: list[HostStep] = field(default_factory=list)
    feeds: dict[str, tuple[int, np.dtype[Any]]] = field(default_factory=dict)
    made: dict[str, tuple[str, Sequence[str]]] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    after: list[HostStep] = field(default_factory=list)
    outputs: dict[str, tuple[int, np.dtype[Any]]] = field(default_factory=dict)

    def operations(self) -> dict[str, str]:
        """Name the operations of either side, for the log."""
        return {"before": ", ".join(_names(self.before)), "after": ", ".join(_names(self.after))}

    def names(self) -> list[str]:
        """Name all operations."""
        return _names([*self.before, *self.after])


def _names(steps: Sequence[HostStep]) -> list[str]:
    return sorted({step.operation for step in steps})


class Function:
    """A function of a loop or branch, which the host runs as a whole.

    Args of the constructor:
        plan: its steps, all of them in `before`, without a model.
        arguments: their names in order.
        returned: slots of its results, in order.

    Attributes:
        filled: arguments that it reads, and the slot of each.
    """

    def __init__(self, plan: HostPlan, arguments: Sequence[str], returned: Sequence[int]) -> None:
        self.plan = plan
        self.filled = [
            (at, plan.inputs[name]) for at, name in enumerate(arguments) if name in plan.inputs
        ]
        self.returned = returned

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """Run it on its arguments."""
        slots = list(self.plan.slots)
        for at, slot in self.filled:
            slots[slot] = values[at]
        for step in self.plan.before:
            step.run(slots)
        return [slots[slot] for slot in self.returned]


class HostProgram:
    """Runs a signature that the host computes in part. See `engines.run.program.RunnableSignature`.

    Args of the constructor:
        plan: the host's part.
        signature: signature of the whole.
        inner: the model's program; None where the host computes everything.
    """

    def __init__(
        self, plan: HostPlan, signature: Signature, inner: RunnableSignature | None
    ) -> None:
        self.signature = signature
        self._plan = plan
        self._inner = inner
        self._threads = ThreadPoolExecutor(THREADS, "host", initializer=SPARE_CPU.settle)
        own = inner.signature.inputs if inner is not None else {}
        self._passed_on = [name for name in own if name not in plan.feeds]
        self.wanted = [*self._passed_on, *(name for name in plan.inputs if name not in own)]

    @property
    def at_once(self) -> int:
        """See `engines.run.program.RunnableSignature`."""
        return self._inner.at_once if self._inner is not None else THREADS

    @property
    def ahead(self) -> bool:
        """See `engines.run.program.RunnableSignature`."""
        return self._inner is not None and self._inner.ahead

    async def infer(
        self, inputs: Mapping[str, Array], read: Callable[[Mapping[str, Array]], T]
    ) -> T:
        """See `CompiledModel.infer`."""
        plan = self._plan
        slots = list(plan.slots)
        for name, slot in plan.inputs.items():
            slots[slot] = inputs[name]
        allowance = Allowance(inputs.values())
        await self._run(plan.before, slots, plan.inputs.values(), allowance)
        if self._inner is None:
            return read(self._host_outputs(slots))
        wanted = {name: inputs[name] for name in self._passed_on}
        for name, (slot, dtype) in plan.feeds.items():
            wanted[name] = slots[slot].astype(dtype, copy=False)
        # Nothing comes behind the model: its outputs are read where they lie, without copies.
        if not plan.after:
            return await self._inner.infer(
                wanted, lambda outputs: read({**outputs, **self._host_outputs(slots)})
            )
        kept = await self._inner.infer(wanted, _copies)
        for name, slot in plan.taken.items():
            slots[slot] = kept[name]
        await self._run(plan.after, slots, plan.taken.values(), allowance)
        return read({**kept, **self._host_outputs(slots)})

    async def _run(
        self,
        steps: Sequence[HostStep],
        slots: list[Any],
        brought: Iterable[int],
        allowance: Allowance,
    ) -> None:
        if steps and _is_small([slots[at] for at in brought]):
            steps = _run_inline(steps, slots, allowance)
        if not steps:
            return
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._threads, _run_all, steps, slots, allowance)
        except asyncio.CancelledError:
            # A thread cannot be stopped: its loops check this in each iteration.
            allowance.abandoned = True
            raise

    def _host_outputs(self, slots: Sequence[Any]) -> dict[str, Array]:
        return {
            alias: np.asarray(slots[slot], dtype, order="C")
            for alias, (slot, dtype) in self._plan.outputs.items()
        }

    def close(self) -> None:
        """Free the model, and end the threads."""
        self._threads.shutdown()
        if self._inner is not None:
            self._inner.close()


def _copies(outputs: Mapping[str, Array]) -> dict[str, Array]:
    """Copy the outputs, since the engine reuses their memory after the inference."""
    return {name: np.array(array) for name, array in outputs.items()}


def _is_small(arrays: Sequence[Array]) -> bool:
    if sum(array.size for array in arrays) > INLINE_ELEMENTS:
        return False
    texts = [array for array in arrays if array.dtype == np.object_]
    return sum(len(text) for array in texts for text in array.ravel().tolist()) <= INLINE_BYTES


def _run_inline(
    steps: Sequence[HostStep], slots: list[Any], allowance: Allowance
) -> Sequence[HostStep]:
    """Run the steps in order, and give those that are left from the first that may take long on."""
    allowance.inline = True
    try:
        with np.errstate(all="ignore"), spending(allowance):
            for at, step in enumerate(steps):
                if step.in_thread:
                    return steps[at:]
                try:
                    step.run(slots)
                except TooMuchInline:
                    return steps[at:]
    finally:
        allowance.inline = False
    return ()


def _run_all(steps: Sequence[HostStep], slots: list[Any], allowance: Allowance) -> None:
    # Infinities are results, not warnings.
    with np.errstate(all="ignore"), spending(allowance):
        for step in steps:
            step.run(slots)

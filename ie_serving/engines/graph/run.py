"""Runs one request to a graph: starts the steps that are needed, and passes on their items.

Steps are evaluated from the outputs backwards, so that a step whose items are not needed, such as
the other branches of a switch, does not run. A step starts all steps that it needs at once, and
they run concurrently. A step that only one other step needs runs in that step's task: a chain needs
no tasks, and concurrent steps need them only where they wait, as for an inference in a thread.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from ie_serving.core.runtime.eager_start import begin
from ie_serving.core.values.codes import code_of
from ie_serving.core.values.errors import ServingError, placed
from ie_serving.core.values.tensors import Array, Arrays
from ie_serving.engines.graph import calls
from ie_serving.engines.graph.calls import CallTarget, call, call_each, once
from ie_serving.engines.graph.definition import (
    REQUEST,
    AnyStep,
    CallStep,
    MergeStep,
    Ref,
    Step,
    SwitchStep,
)
from ie_serving.engines.graph.planning import Plan
from ie_serving.engines.other_models import RecordStep
from ie_serving.engines.run.cache import OutputCache
from ie_serving.telemetry.log.logs import About, Event

log = logging.getLogger(__name__)

StepOutputs = Arrays | None
"""The items of a step; None where it is skipped."""


class GraphRun:
    """One request, with the versions that it uses from its beginning to its end.

    Args of the constructor:
        plan: plan of the graph.
        targets: the model of each step, by its name; the caller holds the versions.
        caches: caches of the steps that have one, by name.
        inputs: inputs of the request.
        record: called with the time of each step.
    """

    def __init__(
        self,
        plan: Plan,
        targets: Mapping[str, CallTarget],
        caches: Mapping[str, OutputCache],
        inputs: Arrays,
        record: RecordStep,
    ) -> None:
        self._plan = plan
        self._targets = targets
        self._caches = caches
        self._given: dict[str, StepOutputs] = {REQUEST: inputs}
        self._record = record
        self._tasks: dict[str, asyncio.Task[StepOutputs]] = {}

    async def outputs(self) -> dict[str, Array]:
        """Give the graph's outputs; those that skipped steps would give have no rows.

        Raises:
            ServingError: of the first step that failed, with its name.
        """
        outputs = self._plan.outputs
        if self._plan.only is not None:  # no step waits for another one: without calls in between
            for step in self._plan.only:
                self._given[step.name] = await self._call(step)
        else:
            try:
                await self._all(self._plan.wanted)
            finally:
                if self._tasks:
                    await self._end()
        return {name: self._output(name, ref) for name, ref in outputs.items()}

    def _output(self, name: str, ref: Ref) -> Array:
        found = self._value(ref)
        return calls.empty(self._plan.signature.outputs[name]) if found is None else found

    def _value(self, ref: Ref) -> Array | None:
        given = self._given[ref.step]
        return None if given is None else given[ref.item]

    # -- asking --------------------------------------------------------------------------------

    async def _all(self, names: Collection[str]) -> None:
        """Wait for several steps; each runs beside the others."""
        lacking = [name for name in names if name not in self._given]
        if len(lacking) == 1:
            await self._get(lacking[0])
        elif lacking:
            begun = [self._begin_step(name) for name in lacking]
            tasks = [task for task in begun if task is not None]
            if not tasks:
                return
            # The other tasks go on after a failure, since a fallback may wait for them; they are
            # cancelled when the request ends.
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()

    async def _get(self, name: str) -> StepOutputs:
        if name in self._given:
            return self._given[name]
        if name not in self._plan.apart:
            return await self._step(name)
        task = self._task(name)
        # An `await task` would let a cancelled waiter, such as a branch, cancel it.
        await asyncio.wait((task,))
        return task.result()

    def _begin_step(self, name: str) -> "asyncio.Task[StepOutputs] | None":
        """Begin a step beside others; give the task that goes on with it, if it waits."""
        if name in self._plan.apart or name in self._tasks:
            return self._task(name)
        task = begin(self._step(name))
        if task is not None:
            self._tasks[name] = task
        return task

    def _task(self, name: str) -> "asyncio.Task[StepOutputs]":
        task = self._tasks.get(name)
        if task is None:
            task = self._tasks[name] = asyncio.get_running_loop().create_task(self._step(name))
        return task

    async def _end(self) -> None:
        """Cancel the running steps, and wait until they have released their models."""
        running = [task for task in self._tasks.values() if task.cancel()]
        if running:
            # Its versions are let go of next: no step may still run on one that is unloaded.
            await asyncio.wait(running)
        for task in self._tasks.values():
            if not task.cancelled():
                task.exception()  # otherwise asyncio logs it as never retrieved

    # -- steps ---------------------------------------------------------------------------------

    async def _step(self, name: str) -> StepOutputs:
        line = self._plan.lines.get(name)
        if line is not None:
            return await self._line(line)
        step = self._plan.steps[name]
        try:
            holds = step.when is None or await self._holds(step)
            given = await self._step_outputs(step) if holds else None
        # A cancellation is none: a client that has gone wants no fallback either.
        except ServingError as error:
            if not step.fallback:
                raise
            code = code_of(error).name
            with self._plan.about():
                log.debug(Event("fallback taken", step=name, fallback=step.fallback, code=code))
            other = await self._get(step.fallback)
            given = other and {item: other[item] for item in self._plan.gives[name]}
        self._given[name] = given
        return given

    async def _line(self, line: Sequence[CallStep]) -> StepOutputs:
        """Run steps that each take the items of the step before, without nested calls."""
        given: StepOutputs = None
        await self._all(self._plan.waits[line[0].name])
        for step in line:
            given = self._given[step.name] = await self._call(step)
        return given

    async def _holds(self, step: Step) -> bool:
        if step.when is None or step.tested is None:
            return True
        await self._all((step.tested.step,))
        tested = self._value(step.tested)
        try:
            return tested is not None and step.when.holds(tested)
        except Exception as error:
            raise of_step(step, error, self._plan.about) from error

    async def _step_outputs(self, step: Step) -> StepOutputs:
        if isinstance(step, CallStep):
            await self._all(self._plan.waits[step.name])
            return await self._call(step)
        if isinstance(step, SwitchStep):
            return await self._switch(step)
        if isinstance(step, MergeStep):
            return await self._merge(step)
        assert isinstance(step, AnyStep)
        return await self._any(step)

    async def _call(self, step: CallStep) -> StepOutputs:
        """Run a computing step whose inputs are ready."""
        inputs: dict[str, Array] = {}
        for name, ref in step.inputs.items():
            given = self._given[ref.step]
            if given is None:
                return None
            inputs[name] = given[ref.item]
        target = self._targets[step.name]
        began = time.perf_counter()
        try:
            if step.is_plain:
                found = await once(step, target, inputs)
            elif step.cache_s:
                found = await self._cached(step, target, inputs)
            else:
                found = await self._several(step, target, inputs)
        except Exception as error:
            raise of_step(step, error, self._plan.about) from error
        self._record(step.name, time.perf_counter() - began)
        return found

    async def _cached(self, step: CallStep, target: CallTarget, inputs: Arrays) -> Arrays:
        whose = f"{target.held.version} {id(target.held.compiled)}"
        compute = partial(self._several, step, target, inputs)
        return await self._caches[step.name].get(whose, inputs, compute)

    def _several(
        self, step: CallStep, target: CallTarget, inputs: Arrays
    ) -> Coroutine[Any, Any, Arrays]:
        if step.split:
            return call_each(step, target, inputs, self._plan.gives[step.name])
        return call(step, target, inputs)

    async def _switch(self, step: SwitchStep) -> StepOutputs:
        await self._all(self._plan.waits[step.name])
        values = [self._value(ref) for ref in step.reads]
        if any(value is None for value in values):
            return None
        try:
            name = calls.chosen(step, values[0] if values else None)
        except Exception as error:
            raise of_step(step, error, self._plan.about) from error
        return self._common_items(step, await self._get(name))

    async def _merge(self, step: MergeStep) -> StepOutputs:
        await self._all(tuple(dict.fromkeys(step.of)))
        several = [(name, given) for name in step.of if (given := self._given[name]) is not None]
        if not several:
            return None
        if step.combine:
            try:
                return calls.combined(step, self._plan.gives[step.name], several)
            except Exception as error:
                raise of_step(step, error, self._plan.about) from error
        return calls.merged(step, self._plan.gives[step.name], several)

    async def _any(self, step: AnyStep) -> StepOutputs:
        for name in step.of:
            given = await self._get(name)
            if given is not None:
                return self._common_items(step, given)
        return None

    def _common_items(self, step: Step, given: StepOutputs) -> StepOutputs:
        """Keep only items that every step that might have been chosen has."""
        return given and {item: given[item] for item in self._plan.gives[step.name]}


def of_step(step: Step, error: Exception, about: About) -> ServingError:
    """Name the step in an error; an unexpected exception goes to the log in full."""
    source = f'step "{step.name}"' + (f" ({step.what})" if isinstance(step, CallStep) else "")
    if isinstance(error, ServingError):
        return placed(source, error)
    with about():
        log.error(Event("step failed by a defect", step=step.name), exc_info=error)
    return ServingError(f"{source}: it failed by a defect; the log names it")

"""A step's model is called: once, again after a failure, for each item; within its time."""

import asyncio
import time
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from ie_serving.core.errors import DeadlineExceeded, InvalidRequest, InvalidTensor, ServingError
from ie_serving.core.fit import fit, shed
from ie_serving.core.tensors import SERVING_DEFAULT, Array, Signature
from ie_serving.engines.graph.choosing import empty
from ie_serving.engines.graph.definition import ModelStep
from ie_serving.engines.graph.models import Held
from ie_serving.engines.graph.specs import Specs

T = TypeVar("T")
Items = Mapping[str, Array]

MOST_ENTRIES = 16_384
"""Entries that `for_each` takes. Tensors without elements may have any number of them in a few
bytes, and each costs an inference."""

LOOP_S = 0.001
"""Seconds after which other requests have a turn, where inferences run on the event loop."""


async def call(step: ModelStep, held: Held, inputs: Items) -> Items:
    """Run the model; try again as often as the step says, unless the request is at fault.

    Raises:
        ServingError: of the last try.
    """
    for _ in range(step.retries):
        try:
            return await _within(step.timeout_s, _once(step, held, inputs))
        # The same request would be refused again.
        except InvalidRequest:
            raise
        except ServingError:
            continue
    if not step.timeout_s:
        return await _once(step, held, inputs)
    return await _within(step.timeout_s, _once(step, held, inputs))


async def call_each(step: ModelStep, held: Held, inputs: Items, gives: Specs) -> Items:
    """Run the model for each entry of the inputs that are split; stack what it gives.

    As many run side by side as the model has infer requests.

    Raises:
        InvalidTensor: the inputs differ in their numbers of entries, or the outputs in shape.
        ServingError: of the first entry that fails.
    """
    count = _count(step, inputs)
    if not count:
        return {item: empty(spec) for item, spec in gives.items()}
    found: list[Items] = [{}] * count
    entries = iter(range(count))

    async def work() -> None:
        began = time.perf_counter()
        for at in entries:
            if time.perf_counter() - began > LOOP_S:
                await asyncio.sleep(0)
                began = time.perf_counter()
            # The dots keep an array of what would be a bare element: models take arrays alone.
            given = {n: array[at, ...] if n in step.split else array for n, array in inputs.items()}
            found[at] = await call(step, held, given)

    lanes = min(count, max(1, held.compiled.at_once(_signature(step, held))))
    await _side_by_side([work() for _ in range(lanes)])
    return {item: _stacked(item, [each[item] for each in found]) for item in gives}


def _count(step: ModelStep, inputs: Items) -> int:
    shapes = {name: inputs[name].shape for name in step.split}
    counts = {shape[0] if shape else None for shape in shapes.values()}
    count = counts.pop()
    if counts or count is None:
        said = "; ".join(f"{name} has shape {list(shape)}" for name, shape in shapes.items())
        raise InvalidTensor(f"for_each takes entries along the first dimension: {said}")
    if count > MOST_ENTRIES:
        raise InvalidTensor(f"for_each takes at most {MOST_ENTRIES} entries; {count} came")
    return int(count)


def _stacked(item: str, arrays: list[Array]) -> Array:
    try:
        return np.stack(arrays)
    except ValueError:
        shapes = sorted({str(list(array.shape)) for array in arrays})
        raise InvalidTensor(
            f'for_each: entries give "{item}" of different shapes, {", ".join(shapes)}'
        ) from None


async def _once(step: ModelStep, held: Held, inputs: Items) -> Items:
    signature = _signature(step, held)
    if not signature.outputs.keys() >= step.taken:
        lacking = ", ".join(sorted(step.taken - signature.outputs.keys()))
        raise ServingError(f'version {held.version} has no output "{lacking}", as earlier ones had')
    fitted, added = fit(signature, inputs)

    def read(outputs: Items) -> Items:
        taken = {item: outputs[alias] for item, alias in step.outputs.items()}
        kept = shed(taken, added) if added else taken
        # Copies: the engine uses the memory of its outputs again.
        return {item: array.copy() for item, array in kept.items()}

    return await held.compiled.infer(signature, fitted, read)


def _signature(step: ModelStep, held: Held) -> Signature:
    name = step.model.signature or SERVING_DEFAULT
    found = held.signatures.get(name)
    if found is None:
        raise ServingError(f'version {held.version} has no signature "{name}"')
    return found


# Not `asyncio.wait_for`: it asks for a task around it, which a request that has not waited yet does
# not have (`server/transport/eager.py`).
async def _within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    if not seconds:
        return await work
    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.wait((task,), timeout=seconds)
    finally:
        is_late = task.cancel()
        if is_late:
            await asyncio.wait((task,))
    if is_late:
        raise DeadlineExceeded(f"it took longer than its timeout_ms, {seconds * 1000:g}")
    return task.result()


async def _side_by_side(works: list[Coroutine[Any, Any, None]]) -> None:
    """Run all; the first error cancels the others."""
    if len(works) == 1:
        await works[0]
        return
    tasks = [asyncio.get_running_loop().create_task(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        running = [task for task in tasks if task.cancel()]
        if running:
            await asyncio.wait(running)
    for error in _errors(tasks):
        raise error


def _errors(tasks: "list[asyncio.Task[None]]") -> "Iterator[BaseException]":
    ended = [task.exception() for task in tasks if not task.cancelled()]
    yield from (error for error in ended if error)

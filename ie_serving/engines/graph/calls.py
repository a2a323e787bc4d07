"""Calls a step's model, merges the items of several steps, and chooses the step of a switch.

A model is called once, or for each item, with retries, within the step's time limit. Merged items
are those of one step, all, or their mean.
"""

import asyncio
import math
import random
import time
import zlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ie_serving.core.runtime.eager_start import begin
from ie_serving.core.runtime.waits import side_by_side
from ie_serving.core.values.errors import (
    DeadlineExceeded,
    InvalidRequest,
    InvalidTensor,
    NotAvailable,
    ServingError,
)
from ie_serving.core.values.fit import fit, shed
from ie_serving.core.values.tensors import Array, Arrays, DataType, Signature, Specs, TensorSpec
from ie_serving.engines.graph.condition import single
from ie_serving.engines.graph.definition import CallStep, MergeStep, SwitchStep
from ie_serving.engines.other_models import LoadedModel

Several = Sequence[tuple[str, Arrays]]
"""Steps that are not skipped, with their items."""

CASES_SHOWN = 20
"""Cases that an error names: a switch may have thousands."""


def chosen(
    step: SwitchStep, value: Array | None, chance: Callable[[], float] = random.random
) -> str:
    """Name the step that answers.

    Args:
        step: chooses.
        value: value of `on`, or of `sticky`; None where the weights alone decide.
        chance: 0 to 1 at random.

    Raises:
        InvalidRequest: the value has no case, and there is no default.
        InvalidTensor: it is not one value.
    """
    if step.weights:
        share = chance() if value is None else _share(value)
        return _weighted(step.weights, share)
    assert value is not None  # `on` is there where no weights are
    word = _word(single(value))
    found = step.cases.get(word, step.default)
    if not found:
        known = ", ".join(list(step.cases)[:CASES_SHOWN])
        raise InvalidRequest(f"{step.on} is {word!r}; expected one of {known}")
    return found


def _word(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    # JSON has one kind of numbers: 2.0 finds the case 2.
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _share(value: Array) -> float:
    # The bytes are hashed: equal values have equal bytes, in every process and for ever.
    return zlib.crc32(_word(single(value)).encode()) / (1 << 32)


def _weighted(weights: Mapping[str, int], share: float) -> str:
    left = share * sum(weights.values())
    for name, weight in weights.items():
        left -= weight
        if left < 0:
            return name
    return max(weights, key=lambda name: weights[name])  # a share of 1.0


def merged(step: MergeStep, specs: Specs, several: Several) -> Arrays:
    """Give all items; of a step that is skipped they have no rows."""
    found: dict[str, Array] = {item: empty(spec) for item, spec in specs.items()}
    for name, items in several:
        prefix = f"{name}." if step.on_conflict == "prefix" else ""
        found |= {f"{prefix}{item}": array for item, array in items.items()}
    return found


def combined(step: MergeStep, specs: Specs, several: Several) -> Arrays:
    """Give the mean or the greatest of each item, of the steps that are not skipped.

    Raises:
        InvalidTensor: the shapes of an item differ.
    """
    return {item: _combined(step, item, [items[item] for _, items in several]) for item in specs}


def _combined(step: MergeStep, item: str, arrays: Sequence[Array]) -> Array:
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        said = ", ".join(f'"{name}"' for name in step.of)
        raise InvalidTensor(
            f'combine: "{item}" of {said} has shapes {sorted(shapes)}; expected the same'
        )
    if step.combine == "max":
        return np.asarray(np.maximum.reduce(arrays))
    # The mean is taken in float64, which holds sums that leave the dtype of the items.
    return np.mean(arrays, axis=0, dtype=np.float64).astype(arrays[0].dtype)


def empty(spec: TensorSpec) -> Array:
    """Give an array of `spec` without rows, in place of a skipped step's item."""
    rest = [max(0, size) for size in (spec.shape or ())[1:]]
    dtype = np.dtype(object) if spec.dtype is DataType.STRING else spec.dtype.numpy
    return np.empty((0, *rest), dtype)


T = TypeVar("T")

MOST_ENTRIES = 16_384
"""Entries that `for_each` takes. Tensors without elements may have any number of them in a few
bytes, and each costs an inference."""

LOOP_S = 0.001
"""Seconds after which other requests have a turn, where inferences run on the event loop."""


class CallTarget(NamedTuple):
    """The model that a step runs in one request.

    Attributes:
        held: the model's version; it stays loaded until the request ends.
        signature: signature of the model.
    """

    held: LoadedModel
    signature: Signature


async def call(step: CallStep, target: CallTarget, inputs: Arrays) -> Arrays:
    """Run it; try again as often as the step says, unless the request is at fault.

    Raises:
        ServingError: of the last try.
    """
    left = step.retries
    while True:
        try:
            work = once(step, target, inputs)
            return await (_with_time_limit(step.timeout_s, work) if step.timeout_s else work)
        # The same request would be refused again.
        except InvalidRequest:
            raise
        except ServingError:
            if not left:
                raise
            left -= 1


async def call_each(step: CallStep, target: CallTarget, inputs: Arrays, gives: Specs) -> Arrays:
    """Run the model for each entry of the split inputs, and stack its outputs.

    As many entries run at once as the model has infer requests.

    Raises:
        InvalidTensor: the inputs differ in their numbers of entries, or the outputs in shape.
        ServingError: of the first entry that fails.
    """
    counts = _counts(step, inputs)
    indices = [*np.ndindex(*counts)]
    if not indices:
        return {item: _none(spec, counts) for item, spec in gives.items()}
    found: list[Arrays] = [{}] * len(indices)
    entries = iter(range(len(indices)))

    async def work() -> None:
        began = time.perf_counter()
        for at in entries:
            if time.perf_counter() - began > LOOP_S:
                await asyncio.sleep(0)
                began = time.perf_counter()
            found[at] = await call(step, target, _entry(step, inputs, indices[at]))

    lanes = min(len(indices), max(1, target.held.compiled.at_once(target.signature)))
    await (side_by_side(work() for _ in range(lanes)) if lanes > 1 else work())
    return {item: _stacked(item, [each[item] for each in found], counts) for item in gives}


def _entry(step: CallStep, inputs: Arrays, index: tuple[int, ...]) -> Arrays:
    entry = dict(inputs)
    for name, levels in step.split.items():
        # The dots give an array where an index would give a scalar: models take only arrays.
        at: Any = (*index[:levels], ...)
        entry[name] = inputs[name][at]
    return entry


def _counts(step: CallStep, inputs: Arrays) -> tuple[int, ...]:
    """Count the entries along each dimension in which they lie."""
    shapes = {name: inputs[name].shape for name in step.split}
    counts = max((shapes[name][:levels] for name, levels in step.split.items()), key=len)
    for name, levels in step.split.items():
        if len(shapes[name]) < levels or shapes[name][:levels] != counts[:levels]:
            said = "; ".join(f"{name} has shape {list(shape)}" for name, shape in shapes.items())
            raise InvalidTensor(f"for_each takes entries along the first dimension: {said}")
    for wanted, count in zip(step.entries, counts, strict=False):
        if wanted not in (-1, count):
            raise InvalidTensor(f"for_each takes {wanted} entries; {count} came")
    if math.prod(counts) > MOST_ENTRIES:
        raise InvalidTensor(
            f"for_each takes at most {MOST_ENTRIES} entries; {math.prod(counts)} came"
        )
    return counts


def _none(spec: TensorSpec, counts: tuple[int, ...]) -> Array:
    """Give the outputs for no entries: empty arrays with the dimensions of an entry's output."""
    array = empty(spec)
    return array.reshape((*counts, *array.shape[len(counts) :]))


def _stacked(item: str, arrays: list[Array], counts: tuple[int, ...]) -> Array:
    try:
        return np.stack(arrays).reshape((*counts, *arrays[0].shape))
    except ValueError:
        shapes = sorted({str(list(array.shape)) for array in arrays})
        raise InvalidTensor(
            f'for_each: entries give "{item}" of different shapes, {", ".join(shapes)}'
        ) from None


def target_of(held: LoadedModel, signature: str, step: str) -> CallTarget:
    """Give the target of a step. Raises: NotAvailable, where it has no such signature."""
    found = held.signatures.get(signature)
    if found is None:
        has = f"it has {', '.join(held.signatures)}"
        lacks = f'version {held.version} has no signature "{signature}"; {has}'
        raise NotAvailable(f'step "{step}": {lacks}')
    return CallTarget(held, found)


def lacking(step: CallStep, target: CallTarget) -> str:
    """Say which outputs are not there any more that the step takes; empty: none."""
    outputs = target.signature.outputs.keys()
    if outputs >= step.taken:
        return ""
    names = ", ".join(sorted(step.taken - outputs))
    return f'version {target.held.version} has no output "{names}", as earlier ones had'


async def once(step: CallStep, target: CallTarget, inputs: Arrays) -> Arrays:
    """Run it once. Raises: ServingError."""
    signature = target.signature
    if why := lacking(step, target):
        raise ServingError(why)
    fitted, added = fit(signature, inputs)

    def read(outputs: Arrays) -> Arrays:
        plain = shed(outputs, added) if added else outputs
        # Copies: the engine uses the memory of its outputs again.
        return {item: plain[alias].copy() for item, alias in step.outputs.items()}

    return await target.held.compiled.infer(signature, fitted, read)


# `asyncio.wait_for` would not do: it needs a surrounding task, which a request has only after its
# first wait (`core/runtime/eager_start.py`).
async def _with_time_limit(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    found: list[T] = []

    async def keep() -> None:
        found.append(await work)

    task = begin(keep())
    if task is None:  # it has not waited: mostly so
        return found[0]
    try:
        await asyncio.wait((task,), timeout=seconds)
    finally:
        is_late = task.cancel()
        if is_late:
            await asyncio.wait((task,))
    if is_late:
        raise DeadlineExceeded(f"it took longer than its timeout_ms, {seconds * 1000:g}")
    task.result()
    return found[0]

"""Warms a version up with a batch of each size before it serves.

An engine prepares for a shape at its first inference: OpenVINO's CPU plugin takes milliseconds for
a small network. Without the warm-up, client requests would wait for that once for each size of
batch, in each of the engine's streams.
"""

import asyncio
import logging
import time
from collections.abc import Iterable

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import Array, Arrays, Signature
from ie_serving.engines.base import GATHERED, CompiledModel
from ie_serving.engines.layers import own_loop
from ie_serving.engines.layers.sample_rows import candidates, has_open_rows
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

MOST_S = 5.0
"""Seconds for the sizes of one signature, so that the load of a slow model with many sizes does not
take minutes. Sizes beyond this limit stay cold."""


def warm(model: CompiledModel, signature: Signature, sizes: Iterable[int], count: int) -> int:
    """Infer batches of each of `sizes`, in this order, with rows as the trial has them. Blocking.

    Args:
        model: infers.
        signature: of the model.
        sizes: as many as `count`, which may be more than memory holds or time allows.
        count: how many there are.

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

"""Finds generated requests that a compiled model accepts, for trials of its precision."""

import time
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import islice

import numpy as np

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import Array, Arrays, DataType, Signature, TensorSpec, copies
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.generated import (
    GeneratedInput,
    GeneratedRequest,
    Guess,
    ValueKind,
    guesses,
    requests,
    usual,
)
from ie_serving.engines.layers.precision_trial import TrialRequest

MOST_GUESSES = 24
"""Sizes and integers that are tried for a signature: each may compile for a shape."""
MOST_S = 5.0
"""Seconds after which no further guess is made, for all signatures together."""
MOST_REQUESTS = 6
"""Requests of finite values for each signature."""
ROWS = 16
"""Rows of zeros where the batch is open: a batch of clients is seldom larger where it is small
enough to be answered in microseconds."""


async def generated_for(model: CompiledModel) -> list[TrialRequest]:
    """Give requests of finite values that the model takes, of each signature of known ranks."""
    until = time.monotonic() + MOST_S
    return [
        asked
        for name, signature in model.signatures.items()
        if has_specs(signature)
        async for asked in _taken(model, name, signature, until)
    ]


def zeros_for(model: CompiledModel) -> list[TrialRequest]:
    """Give a batch of zeros for each signature of known ranks, whether it takes that or not.

    None where a size beyond the batch is open: zeros of a made-up size say nothing of the time that
    an image of a client's takes.
    """
    found = {name: each for name, each in model.signatures.items() if has_specs(each)}
    specs = [spec for each in found.values() for spec in each.inputs.values()]
    if any(-1 in spec.shape[1:] for spec in specs if spec.shape):
        return []
    return [
        TrialRequest("zeros", name, {alias: _zeros(spec) for alias, spec in each.inputs.items()})
        for name, each in found.items()
    ]


def _zeros(spec: TensorSpec) -> Array:
    fill = b"" if spec.dtype is DataType.STRING else 0
    return np.full([ROWS if n == -1 else n for n in spec.shape or ()], fill, spec.dtype.numpy)


def has_specs(signature: Signature) -> bool:
    """Whether requests can be generated: all ranks are known, and nothing is parsed before."""
    is_served = not (signature.left_out or signature.definition or signature.examples)
    known = signature.inputs and all(each.shape is not None for each in signature.inputs.values())
    return bool(is_served and known and not signature.states)


async def _taken(
    model: CompiledModel, name: str, signature: Signature, until: float
) -> AsyncIterator[TrialRequest]:
    inputs = [input_of(alias, spec) for alias, spec in signature.inputs.items()]
    first = await _first_taken(model, signature, inputs, until)
    if first is None:
        return
    guess, asked, answer = first
    yield TrialRequest(f"generated: {asked}", name, asked.inputs, answer=answer)
    finite = (each for each in requests(inputs, guess) if each.kind is ValueKind.FINITE)
    for each in islice(finite, MOST_REQUESTS - 1):
        yield TrialRequest(f"generated: {each}", name, each.inputs)


async def _first_taken(
    model: CompiledModel, signature: Signature, inputs: list[GeneratedInput], until: float
) -> tuple[Guess, GeneratedRequest, Arrays] | None:
    """Give the first guess that the model takes, with its usual request and that one's answer."""
    for guess in islice(guesses(inputs), MOST_GUESSES):
        if time.monotonic() >= until:
            return None
        asked = usual(inputs, guess)
        with suppress(ServingError):
            return guess, asked, await model.infer(signature, asked.inputs, copies)
    return None


def input_of(alias: str, spec: TensorSpec) -> GeneratedInput:
    """Describe an input; the first dimensions that are open are those of one batch."""
    names = (f"{alias} {at}" if at else "batch" for at in range(len(spec.shape or ())))
    dims = zip(names, spec.shape or (), strict=True)
    return GeneratedInput(
        alias, spec.dtype, tuple(name if size < 0 else size for name, size in dims)
    )

"""Packs calls of a kernel as tensors, between the server and the kernel's process.

A call is its context as JSON and its inputs, in the order of the metadata; an answer is an error as
JSON, or nothing, and the outputs.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ie_serving.core.values.codes import ERROR_OF, code_of
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.requests import Caller
from ie_serving.core.values.tensors import Array, Arrays, Specs
from ie_serving.engines.process.protocol import text, words
from ie_serving.engines.python.context import Context
from ie_serving.engines.python.runners import KernelCall


def packed_context(ctx: Context) -> Array:
    """Give the caller's context as a tensor."""
    left = ctx.time_left()
    return text(json.dumps({"id": ctx.request_id, "headers": dict(ctx.headers), "left_s": left}))


def context_of(tensor: Array) -> Context:
    """Read the tensor that `packed_context` made."""
    given: dict[str, Any] = json.loads(words(tensor))
    ctx = Context(Caller(given["headers"], given["left_s"]))
    ctx.request_id = given["id"]
    return ctx


def packed(call: KernelCall, inputs: Sequence[str]) -> list[Array]:
    """Give a call as tensors."""
    return [packed_context(call.ctx), *(call.inputs[name] for name in inputs)]


def packed_answer(call: KernelCall, outputs: Specs) -> Iterator[Array]:
    """Give the outcome of a call as tensors."""
    outcome = call.outcome
    if isinstance(outcome, Mapping):
        yield text("")
        yield from (outcome[name] for name in outputs)
        return
    assert outcome is not None  # `InProcess` leaves none open
    yield text(json.dumps({"code": code_of(outcome), "text": str(outcome), "over": call.over}))


def answered(
    tensors: Iterator[Array], outputs: Sequence[str]
) -> tuple[Arrays | ServingError, bool]:
    """Read the tensors that `packed_answer` made, and whether the memory was full."""
    said = words(next(tensors))
    if not said:
        return {name: next(tensors) for name in outputs}, False
    error = json.loads(said)
    return ERROR_OF.get(error["code"], ServingError)(error["text"]), error["over"]

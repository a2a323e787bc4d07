"""`ie_serving kernel run`: loads a kernel, runs it on one REST request, and prints the reply.

No server runs, so the kernel cannot call other models. Its log goes to standard error.
"""

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

from ie_serving.config.dialects.kernel_run import KernelRun
from ie_serving.core.compat import added
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.fit import fit, shed
from ie_serving.core.values.signatures import body_of, reply_of
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array
from ie_serving.engines.other_models import Surroundings
from ie_serving.engines.python.driver import load
from ie_serving.wire.json.request import Format, parse_predict
from ie_serving.wire.json.response import encode_predictions

FAILED = 1
"""Exit code if the kernel cannot be loaded, refuses the request, or fails."""


def run(asked: KernelRun) -> int:
    """Print the reply on standard output, or the error on standard error; give the exit code."""
    try:
        reply = asyncio.run(_kernel_reply(asked, _body(asked)))
    except ServingError as error:
        print(f"ie_serving: error: {error}", file=sys.stderr)
        return FAILED
    sys.stdout.buffer.write(reply)
    sys.stdout.buffer.flush()
    return 0


def _body(asked: KernelRun) -> bytes:
    if asked.input is None:
        return sys.stdin.buffer.read()
    try:
        return asked.input.read_bytes()
    except OSError as error:
        raise ServingError(f"{asked.input} cannot be read: {error.strerror}") from error


async def _kernel_reply(asked: KernelRun, body: bytes) -> bytes:
    raw = asked.raw or any(takes(asked.directory) for takes in added("foreign_kernels"))
    name = asked.directory.parent.name if asked.directory.name.isdecimal() else asked.directory.name
    model = load(asked.directory, asked.options.having(Surroundings(name)))
    try:
        signature = model.signatures[SERVING_DEFAULT]
        form: Any = Format.COLUMN
        if raw:
            given: Mapping[str, Array] = body_of(signature, body)
        else:
            given, form = parse_predict(body).decode(signature)
        inputs, extra = fit(signature, given)

        def read(outputs: Mapping[str, Array]) -> bytes:
            kept = shed(outputs, extra) if extra else outputs
            if raw:
                return reply_of(signature, kept)[1]
            return bytes(encode_predictions(kept, form, signature.outputs)) + b"\n"

        return await model.infer(signature, inputs, read)
    finally:
        model.close()

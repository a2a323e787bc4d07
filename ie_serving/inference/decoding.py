"""Requests become arrays or Examples: at once, or in a thread where that would hold the loop up.

A small Predict does not come here: `DataPlane.predict` decodes it where it is.
"""

from collections.abc import Sequence
from typing import Final

from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.fit import cast_all, have_dtypes
from ie_serving.core.values.requests import Decoded, ExamplesRequest, Features, InferRequest
from ie_serving.core.values.tensors import Signature

MANY_EXAMPLES: Final = 1000
"""Examples from which they are read in a thread: each takes 0.8 us, however large it is, since its
features are read when they are asked for."""


async def decode_large(request: InferRequest, signature: Signature) -> Decoded:
    """Decode and cast in a thread, unless it can be done at once.

    A few megabytes of a list of integers take tens of milliseconds.
    """
    decoded = request.at_once(signature) if request.at_once else None
    if decoded is not None and have_dtypes(signature, decoded[0]):
        return decoded
    return await in_thread(_decode_and_cast, request, signature)


def _decode_and_cast(request: InferRequest, signature: Signature) -> Decoded:
    # The cast here as well: it reads and writes as much memory as decoding did.
    inputs, form = request.decode(signature)
    return cast_all(signature, inputs), form


async def decode_examples(request: ExamplesRequest) -> Sequence[Features]:
    """Read the Examples of a Classify, Regress or MultiInference."""
    if request.count < MANY_EXAMPLES:
        return request.decode()
    return await in_thread(request.decode)

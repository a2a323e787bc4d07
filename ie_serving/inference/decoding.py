"""Decodes requests into arrays or Examples; in a thread where it would block the event loop.

Small Predict requests do not come here: `DataPlane.predict` decodes them on the event loop.
"""

from collections.abc import Sequence
from typing import Final

from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.fit import cast_all, have_dtypes
from ie_serving.core.values.requests import Decoded, ExamplesRequest, Features, InferRequest
from ie_serving.core.values.tensors import Signature

MANY_EXAMPLES: Final = 1000
"""Number of Examples from which a thread reads them. Each takes 0.8 us whatever its size, since its
features are parsed only when used."""


async def decode_large(request: InferRequest, signature: Signature) -> Decoded:
    """Decode and cast in a thread, unless the request can be decoded at once.

    A list of integers of a few megabytes takes tens of milliseconds.
    """
    decoded = request.at_once(signature) if request.at_once else None
    if decoded is not None and have_dtypes(signature, decoded[0]):
        return decoded
    return await in_thread(_decode_and_cast, request, signature)


def _decode_and_cast(request: InferRequest, signature: Signature) -> Decoded:
    # The cast is in the thread as well: it reads and writes as much memory as decoding.
    inputs, form = request.decode(signature)
    return cast_all(signature, inputs), form


async def decode_examples(request: ExamplesRequest) -> Sequence[Features]:
    """Read the Examples of a Classify, Regress or MultiInference."""
    if request.count < MANY_EXAMPLES:
        return request.decode()
    return await in_thread(request.decode)

"""Bodies too large for the event loop: requests are decoded, replies encoded, in a thread.

Few threads encode, and a small request may cause a large reply. So the byte budget counts each copy
that waits for a thread, together with the text that the thread will make of the copy.

Also decodes requests into arrays or Examples; in a thread where it would block the event loop.

Small Predict requests do not come here: `DataPlane.predict` decodes them on the event loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.fit import cast_all, have_dtypes
from ie_serving.core.values.requests import Decoded, ExamplesRequest, Features, InferRequest
from ie_serving.core.values.tensors import Array, Signature
from ie_serving.inference.interface import Encode, Outputs

T = TypeVar("T")

NARROW: Final = 4
"""Largest size in bytes of an element whose text is short."""
SHORT_TEXT: Final = 16
LONG_TEXT: Final = 28
"""Bytes of JSON that the budget counts for a wider element until the reply is encoded. A float32
takes up to 15 with its comma, a float64 up to 25, plus an eighth for buffer growth; the mean is
lower. Afterwards the budget counts the reply's actual length."""


@dataclass(frozen=True, slots=True)
class Unencoded(Generic[T]):
    """Copies of outputs for a thread to encode: too many elements for the event loop."""

    encode: Encode[T]
    outputs: Outputs


Read = Callable[[Outputs], T | Unencoded[T]]
"""Called by the engine with the outputs, while their memory is valid."""


def unencoded(encode: Encode[T], outputs: Outputs) -> Unencoded[T]:
    """Copy outputs for a thread to encode.

    Raises:
        QueueFull, RequestTooLarge: the copies do not fit into the byte budget.
    """
    copies = {
        alias: BUDGET.copy(array, beside=array.size * _text(array))
        for alias, array in outputs.items()
    }
    return Unencoded(encode, copies)


def _text(array: Array) -> int:
    return SHORT_TEXT if array.dtype.itemsize <= NARROW else LONG_TEXT


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

"""Replies too large to encode on the event loop, which copies their outputs for a thread to encode.

Few threads encode, and a small request may cause a large reply. So the byte budget counts each copy
that waits for a thread, together with the text that the thread will make of the copy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.tensors import Array
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

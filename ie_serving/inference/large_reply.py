"""Replies that are too large to be encoded on the event loop: copied there, encoded in a thread.

Few threads encode, and each small request may ask for a large reply: the copies that wait for a
thread are counted in the budget of bytes, each with the text that will be made of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.tensors import Array
from ie_serving.inference.interface import Encode, Outputs

T = TypeVar("T")

NARROW: Final = 4
"""Bytes of an element up to which its text is short."""
SHORT_TEXT: Final = 16
LONG_TEXT: Final = 28
"""Bytes of JSON that are counted for an element until its reply is made. A float of 32 bits takes
up to 15 with its comma, one of 64 bits 25, and memory that grows has an eighth to spare; the mean
is below. The reply is counted by its own length afterwards."""


@dataclass(frozen=True, slots=True)
class Unencoded(Generic[T]):
    """Copies of outputs that a thread encodes: they are too many for the event loop."""

    encode: Encode[T]
    outputs: Outputs


Read = Callable[[Outputs], T | Unencoded[T]]
"""What the engine calls with the outputs, while their memory is valid."""


def unencoded(encode: Encode[T], outputs: Outputs) -> Unencoded[T]:
    """Copy outputs for a thread to encode.

    Raises:
        QueueFull, RequestTooLarge: the budget of bytes has no room.
    """
    copies = {
        alias: BUDGET.copy(array, beside=array.size * _text(array))
        for alias, array in outputs.items()
    }
    return Unencoded(encode, copies)


def _text(array: Array) -> int:
    return SHORT_TEXT if array.dtype.itemsize <= NARROW else LONG_TEXT

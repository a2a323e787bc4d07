"""Replies that are too large to be encoded on the event loop: copied there, encoded in a thread."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ie_serving.inference.interface import Encode, Outputs

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unencoded(Generic[T]):
    """Copies of outputs that a thread encodes: they are too many for the event loop."""

    encode: Encode[T]
    outputs: Outputs


Read = Callable[[Outputs], T | Unencoded[T]]
"""What the engine calls with the outputs, while their memory is valid."""

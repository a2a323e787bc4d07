"""What the values of one request may make the host do: bytes that it makes, turns of its loops.

A number of a few bytes can ask for a tensor, an image or a loop of any size. So a kernel whose
values decide a size asks for room before it allocates, and a loop asks before each turn. Nothing is
bounded at load, where the values are the model's own.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import InvalidTensor

MOST_BYTES = 1 << 27
"""Bytes that the values of one request may ask for, all its operations together: a photograph of 40
megapixels, or 150 of 224 x 224 that are decoded and resized. A PNG of some KB can announce more."""
MOST_TURNS = 100_000
"""Turns of all loops of one request. With a sum, a text and its condition a turn takes 25 µs, so a
loop that computes little holds a thread for 2.5 s; `tf.map_fn` takes a turn for each row."""


class Allowance:
    """What one request has asked for. Used by one thread at a time.

    Attributes:
        abandoned: nobody waits for the request any more; its loops end.
    """

    def __init__(self) -> None:
        self.abandoned = False
        self._turns = 0
        # Given back with this object: a thread that goes on after its client has left keeps it.
        self._lease = BUDGET.lease()

    def take(self, size: int) -> None:
        """Count bytes. Raises: InvalidTensor, QueueFull, RequestTooLarge."""
        if self._lease.size + size > MOST_BYTES:
            raise InvalidTensor(
                f"the values of the request ask for {size} bytes, after {self._lease.size}; a"
                f" request may ask for {MOST_BYTES}: send smaller sizes, or fewer rows"
            )
        self._lease.take(size)

    def turn(self) -> None:
        """Count a turn of a loop. Raises: InvalidTensor."""
        self._turns += 1
        if self._turns > MOST_TURNS or self.abandoned:
            raise InvalidTensor(
                f"the loops of a request may take {MOST_TURNS} turns: send fewer rows"
            )


_current: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def spending(allowance: Allowance) -> Iterator[None]:
    """Count within what the kernels do against the allowance of a request."""
    token = _current.set(allowance)
    try:
        yield
    finally:
        _current.reset(token)


def make_room(shape: Iterable[int], dtype: npt.DTypeLike) -> None:
    """Ask for a tensor before it is allocated.

    Args:
        shape: its sizes, as Python's integers, which do not overflow; a negative one is left to
            the kernel to refuse.
        dtype: of its elements; a string counts as its reference.

    Raises:
        InvalidTensor: the request asks for too much.
        QueueFull, RequestTooLarge: all requests together do.
    """
    allowance = _current.get()
    if allowance is not None:
        kind: np.dtype[Any] = np.dtype(dtype)
        allowance.take(max(math.prod(shape), 0) * kind.itemsize)


def turn() -> None:
    """Ask for one more turn of a loop. Raises: InvalidTensor."""
    allowance = _current.get()
    if allowance is not None:
        allowance.turn()

"""Limits the work that one request's values cause on the host: bytes made, iterations of loops.

A number of a few bytes can demand a tensor, an image or a loop of any size. So a kernel whose
values decide a size calls `make_room` before it allocates, and a loop calls `turn` before each
iteration. At load there is no limit, since the values are the model's own.
"""

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import InvalidRequest, InvalidTensor
from ie_serving.core.values.tensors import Array

MOST_BYTES = 1 << 27
"""Bytes that the values of one request may demand in all its operations; more is refused. Enough
for a photograph of 40 megapixels, or 150 of 224 x 224. A PNG of some KB can announce more."""
SENT_TIMES, MOST_BYTES_OF_SENT = 64, 1 << 29
"""Bytes that the values may demand for each byte of texts in the request, such as the JPEGs of a
large batch, and at most together."""
MOST_BYTES_FURTHER = 1 << 24
"""Bytes that one tensor or picture may demand beyond `MOST_BYTES` of the request. What is made of
it, such as its floats, is not counted: of large ones, a few at a time, it would fill the memory."""
MOST_BYTES_INLINE = 1 << 16
"""Bytes that they may demand on the event loop, which takes some 10 µs for them; what demands more
is computed in a thread."""
MOST_TURNS = 100_000
"""Turns of all loops of one request. With a sum, a text and its condition a turn takes 25 µs, so a
loop that computes little holds a thread for 2.5 s; `tf.map_fn` takes a turn for each row."""


class TooMuchInline(Exception):
    """An operation on the event loop demands more than that may do: it is for a thread to run."""


class Allowance:
    """The work that one request has used. Any of its threads may count.

    Args of the constructor:
        inputs: inputs of the request.

    Attributes:
        abandoned: the result is no longer wanted; loops end.
        inline: inferences run on the event loop.
    """

    def __init__(self, inputs: Iterable[Array] = ()) -> None:
        self.abandoned = False
        self.inline = False
        self._inputs = inputs
        self._most = 0  # not known yet
        self._turns = 0
        self._lock = threading.Lock()
        # Given back with this object: a thread that goes on after its client has left keeps it.
        self._lease = BUDGET.lease()

    def take(self, size: int) -> None:
        """Count bytes. Raises: InvalidTensor, QueueFull, RequestTooLarge, TooMuchInline."""
        if self.inline and self._lease.size + size > MOST_BYTES_INLINE:
            raise TooMuchInline
        with self._lock:
            total = self._lease.size + size
            if total > MOST_BYTES and (size > MOST_BYTES_FURTHER or total > self._most_of_sent()):
                raise self._refusal(size)
            self._lease.take(size)

    def _refusal(self, size: int) -> InvalidTensor:
        most = self._most_of_sent()
        parts = f", {MOST_BYTES_FURTHER} at once beyond {MOST_BYTES}" if most > MOST_BYTES else ""
        return InvalidTensor(
            f"the values of the request ask for {size} bytes, after {self._lease.size}; a request"
            f" may ask for {most}{parts}: send smaller sizes, or fewer rows"
        )

    def _most_of_sent(self) -> int:
        """Give the bytes that the request may demand, by the length of its texts; counted once."""
        if not self._most:
            texts = (text for each in self._inputs if each.dtype == object for text in each.flat)
            sent = SENT_TIMES * sum(map(len, texts))
            self._most = max(MOST_BYTES, min(sent, MOST_BYTES_OF_SENT))
        return self._most

    def turn(self, count: int = 1) -> None:
        """Count turns of a loop. Raises: InvalidTensor."""
        with self._lock:
            self._turns += count
        if self._turns > MOST_TURNS or self.abandoned:
            raise InvalidTensor(
                f"the loops of a request may take {MOST_TURNS} turns: send fewer rows"
            )


_current: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def spending(allowance: Allowance) -> Iterator[None]:
    """Count the kernels' work in the body against the allowance of a request."""
    token = _current.set(allowance)
    try:
        yield
    finally:
        _current.reset(token)


def make_room(shape: Iterable[int], dtype: npt.DTypeLike) -> None:
    """Count a tensor's memory before it is allocated.

    Args:
        shape: its sizes, as Python's integers, which do not overflow; a negative one is left to
            the kernel to refuse.
        dtype: dtype of its elements; a string counts as its reference.

    Raises:
        InvalidTensor: the request exceeds its allowance.
        QueueFull, RequestTooLarge: all requests together exceed the budget.
        TooMuchInline: it is too much for the event loop.
    """
    allowance = _current.get()
    if allowance is not None:
        kind: np.dtype[Any] = np.dtype(dtype)
        allowance.take(max(math.prod(shape), 0) * kind.itemsize)


def turn(count: int = 1) -> None:
    """Count iterations of a loop; with 0 only see that the result is wanted.

    Raises:
        InvalidTensor: they are too many, or for nothing.
    """
    allowance = _current.get()
    if allowance is not None:
        allowance.turn(count)


def empty_value(dtype: np.dtype[Any]) -> Array:
    """Give the default value that fills a tensor: zero, or the empty string."""
    return np.array(b"" if dtype == np.object_ else 0, dtype)


def filled(shape: Sequence[int], value: Array) -> Array:
    """Make a tensor of one value. Raises: InvalidRequest, where a size is negative or too much."""
    if any(size < 0 for size in shape):
        raise InvalidRequest(f"sizes must not be negative, but are {list(shape)}")
    make_room(shape, value.dtype)
    made = np.empty(shape, value.dtype)
    made[...] = value  # `np.full` would cut zero bytes off the end of a string
    return made

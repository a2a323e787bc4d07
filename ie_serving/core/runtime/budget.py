"""Byte budget: limits the bytes that requests and replies hold in this process, on both transports.

Code that keeps bytes whose number a client decides takes a `Lease` for them first: for messages and
bodies as they arrive, for what they are inflated and filled up to, and for unread replies. A lease
gives its bytes back when it is released, or when nothing refers to it any more. So it is stored
with the bytes: in the memory itself (`memory`), or in the waiting call. Then a request that is
cancelled, reset or left by its client gives its bytes back, and a thread that still works on it
keeps its share until it has ended.

Small amounts are not counted: a request below `SMALL` that is answered at once costs nothing here.
"""

import math
import sys
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np

from ie_serving.core.values.errors import BudgetFull, RequestTooLarge
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import Array

SMALL: Final = 64 * 1024
"""Bytes of a message, a body or a tensor from which it is counted while it is processed."""

A = TypeVar("A", bound="np.ndarray[Any, Any]")

AnyBytes: TypeAlias = bytes | bytearray | memoryview
Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"

_ADVICE: Final = Hint(", or raise {server.memory_budget_bytes}")


class Budget:
    """Counts the bytes that are held. Any thread may use it.

    Attributes:
        limit: the most bytes that may be held.
        taken: all bytes that were ever taken; it only grows.
    """

    def __init__(self, limit: int = sys.maxsize) -> None:
        self.limit = limit
        self.taken = 0
        self._held = 0
        self._lock = threading.Lock()
        # Returned sizes are queued: the garbage collector may end a lease at any point, even in the
        # thread that holds the lock, and then only appends here.
        self._given: deque[int] = deque()

    @property
    def held(self) -> int:
        """Bytes that are held now."""
        with self._lock:
            return self._settled()

    def lease(self, size: int = 0) -> "Lease":
        """Take bytes.

        Raises:
            RequestTooLarge: more than the limit.
            BudgetFull: more than is left now.
        """
        lease = Lease(self)
        lease.take(size)
        return lease

    def memory(self, size: int) -> Bytes:
        """Get memory that is counted, unless it is small, until nothing refers to it.

        Raises:
            RequestTooLarge, BudgetFull: as `lease`.
        """
        return self.counted(np.empty(size, np.uint8))

    def counted(self, array: A) -> A:
        """Count the memory of an array, unless it is small; return the array to use in its place.

        Raises:
            RequestTooLarge, BudgetFull: as `lease`.
        """
        return kept(array, self.lease(array.nbytes)) if array.nbytes >= SMALL else array

    def copy(self, array: Array, beside: int = 0) -> Array:
        """Copy an array into memory from `empty`, which counts the copy. Raises: as `empty`."""
        copy = self.empty(array.shape, array.dtype, beside)
        copy[...] = array
        return copy

    def empty(self, shape: Sequence[int], dtype: "np.dtype[Any]", beside: int = 0) -> Array:
        """Get an uninitialised array; count it, unless it is small, before it is made.

        Args:
            shape: shape of the array.
            dtype: dtype of the array.
            beside: further bytes to count as long as the array exists, for data made from it.

        Raises:
            RequestTooLarge, BudgetFull: as `lease`.
        """
        size = math.prod(shape) * dtype.itemsize + beside
        if size < SMALL:
            return np.empty(shape, dtype)
        lease = self.lease(size)
        # A view of numpy's own type, since readers may check the type. A view refers to the owner
        # of the memory, past all views in between: so the owner must have the lease.
        owner: Any = LeasedMemory(shape, dtype)
        owner.lease = lease
        return cast(Array, owner.view(np.ndarray))

    def held_with(self, data: AnyBytes) -> AnyBytes:
        """Count existing bytes, unless they are small; return the buffer to use in their place.

        Raises:
            RequestTooLarge, BudgetFull: as `lease`.
        """
        if len(data) < SMALL:
            return data
        return kept(np.frombuffer(data, np.uint8), self.lease(len(data))).data

    def check(self, size: int) -> None:
        """Refuse bytes that can never fit, before they arrive.

        Raises:
            RequestTooLarge: more than the limit.
        """
        if size > self.limit:
            raise self._refusal(size, 0)

    def take(self, size: int) -> None:
        """Count bytes. Only for leases, which give them back."""
        with self._lock:
            held = self._settled() if self._given else self._held
            if held + size > self.limit:
                raise self._refusal(size, held)
            self._held = held + size
            self.taken += size

    def give(self, size: int) -> None:
        """Stop counting bytes. Only for leases."""
        self._given.append(size)

    def _settled(self) -> int:
        while self._given:
            self._held -= self._given.popleft()
        return self._held

    def _refusal(self, size: int, held: int) -> BudgetFull | RequestTooLarge:
        if size > self.limit:
            return RequestTooLarge(
                f"the request takes {size} bytes of memory, and all requests together may take"
                f" {self.limit}: send less at once",
                _ADVICE,
            )
        return BudgetFull(
            f"the server holds {held} of at most {self.limit} bytes for requests, and this one"
            f" takes {size} more: send it again later, or less at once",
            _ADVICE,
        )


class Lease:
    """The bytes of a budget that one holder has taken.

    Attributes:
        size: number of bytes.
    """

    __slots__ = ("_budget", "size")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.size = 0

    def take(self, size: int) -> None:
        """Take more bytes; on an error, which is as of `Budget.lease`, the lease is unchanged."""
        self._budget.take(size)
        self.size += size

    def give(self, size: int) -> None:
        """Give some of the bytes back; nothing if they were released before."""
        given = min(size, self.size)
        self.size -= given
        self._budget.give(given)

    def release(self) -> None:
        """Give all bytes back; a second call does nothing."""
        size, self.size = self.size, 0
        if size:
            self._budget.give(size)

    def __del__(self) -> None:
        self.release()


class LeasedMemory(np.ndarray):
    """Memory with a lease: views keep their base alive, and so the lease."""

    lease: Lease


def leased(size: int, lease: Lease) -> Bytes:
    """Get memory that keeps a lease until nothing refers to the memory any more."""
    return kept(np.empty(size, np.uint8), lease)


def kept(array: A, lease: Lease) -> A:
    """Return a view of an array that keeps a lease, as all views of that view do."""
    view: Any = array.view(LeasedMemory)
    view.lease = lease
    return cast(A, view)


BUDGET: Final = Budget()
"""The budget of this process; the composition root sets its limit."""

"""Counts in the budget the bytes of a connection's incomplete and waiting requests.

Small amounts are not counted, so that a usual request costs nothing here: one that arrives whole,
or whose body arrives in two or three reads.
"""

from collections.abc import Iterable
from typing import Final

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.values.errors import ServingError
from ie_serving.server.transport.http1.faults import MOST_FIELDS, TOO_MANY, RequestRefused
from ie_serving.server.transport.http1.messages import RequestHead

GATHERED: Final = 64 * 1024
"""Largest body in bytes that is buffered until complete, so that the application need not wait for
it. The application reads a larger one as it arrives, or refuses it by its head. A body of 64 KB
mostly arrives in one read of the socket, which returns up to 256 KB, and is little memory for a
connection with a slow client."""
FREE: Final = 8 * 1024
"""Bytes of a connection that are not counted."""
STEP: Final = 8 * 1024
"""Bytes by which the count runs ahead, so that slowly arriving data is not counted byte by byte."""
FREE_FIELDS: Final = 32
"""Headers of a request that are not counted; further ones are counted in steps of as many."""
FIELD_BYTES: Final = 320
"""Bytes of memory for a header: two strings, their pair, and its place in the mapping by name."""
REQUEST_BYTES: Final = 1024
"""Bytes of memory for a waiting request, beside its headers."""


class HeldBytes:
    """The count of one connection."""

    __slots__ = ("_lease",)

    def __init__(self) -> None:
        self._lease = Lease(BUDGET)

    @property
    def size(self) -> int:
        """Number of counted bytes."""
        return self._lease.size

    def count(self, held: int) -> None:
        """Count the bytes held now. Raises: QueueFull, RequestTooLarge: the budget is spent."""
        if held > max(FREE, self.size):
            self._lease.take(held + STEP - self.size)
        else:
            self.settle(held)

    def settle(self, held: int) -> None:
        """Return to the budget the bytes that are no longer held."""
        wanted = held + STEP if held > FREE else 0
        if wanted < self.size:
            self._lease.give(self.size - wanted)


def room_for_head(lease: Lease | None, size: int) -> Lease | None:
    """Count a complete head of `size` bytes, if it is large.

    Raises:
        RequestRefused: the byte budget is spent.
    """
    return _with_room(lease, size) if size > FREE else lease


def room_for_fields(lease: Lease | None, room: int) -> Lease:
    """Count `FREE_FIELDS` more headers of a request that has `room` so far.

    Raises:
        RequestRefused: the headers are too many, or the byte budget is spent.
    """
    if room == MOST_FIELDS:
        raise RequestRefused(431, TOO_MANY)
    return _with_room(lease, FREE_FIELDS * FIELD_BYTES)


def _with_room(lease: Lease | None, size: int) -> Lease:
    lease = lease or Lease(BUDGET)
    try:
        lease.take(size)
    except ServingError as error:
        raise RequestRefused(429, str(error)) from error
    return lease


def waiting_bytes(heads: Iterable[RequestHead]) -> int:
    """Estimate the bytes of waiting requests, without headers that have their own lease.

    A body of unknown length counts as the largest that is buffered, since its size is not tracked.
    """
    return sum(
        REQUEST_BYTES
        + (0 if head.lease else FIELD_BYTES * len(head.headers))
        + min(GATHERED if head.length is None else head.length, GATHERED)
        for head in heads
    )

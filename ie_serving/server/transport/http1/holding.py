"""What a connection holds of requests that have come in part or wait, counted in the budget.

What is small is not counted, so that the usual request costs nothing here: one that comes whole, or
whose body comes in two or three reads.
"""

from collections.abc import Iterable
from typing import Final

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.values.errors import ServingError
from ie_serving.server.transport.http1.faults import MOST_FIELDS, TOO_MANY, Refused
from ie_serving.server.transport.http1.messages import RequestHead

GATHERED: Final = 64 * 1024
"""Bytes of the largest body that is kept until it is whole, so that the application need not wait
for it. A larger one the application reads as it comes, or refuses by its head. A body of 64 KB
mostly comes in one read of the socket, which brings up to 256 KB, and is little to hold for a
connection whose client is slow."""
FREE: Final = 8 * 1024
"""Bytes of a connection that are not counted."""
STEP: Final = 8 * 1024
"""Bytes by which the count goes ahead, so that what drips is not counted with every byte."""
FREE_FIELDS: Final = 32
"""Headers of a request that are not counted, and by how many more are."""
FIELD_BYTES: Final = 320
"""Bytes that a header takes: two strings, their pair, and its place among those by name."""
REQUEST_BYTES: Final = 1024
"""Bytes that a request takes that waits, beside its headers."""


class Holding:
    """The count of one connection."""

    __slots__ = ("_lease",)

    def __init__(self) -> None:
        self._lease = Lease(BUDGET)

    @property
    def size(self) -> int:
        """Bytes that are counted."""
        return self._lease.size

    def count(self, held: int) -> None:
        """Count what is held now. Raises: QueueFull, RequestTooLarge, there is no room for it."""
        if held > max(FREE, self.size):
            self._lease.take(held + STEP - self.size)
        else:
            self.settle(held)

    def settle(self, held: int) -> None:
        """Give back what is not held any more."""
        wanted = held + STEP if held > FREE else 0
        if wanted < self.size:
            self._lease.give(self.size - wanted)


def room_for_head(lease: Lease | None, size: int) -> Lease | None:
    """Count a head of `size` bytes that is complete, where it is large.

    Raises:
        Refused: the budget of bytes has no room.
    """
    return _with_room(lease, size) if size > FREE else lease


def room_for_fields(lease: Lease | None, room: int) -> Lease:
    """Count `FREE_FIELDS` more headers of a request that has `room`.

    Raises:
        Refused: these are too many, or the budget of bytes has no room.
    """
    if room == MOST_FIELDS:
        raise Refused(431, TOO_MANY)
    return _with_room(lease, FREE_FIELDS * FIELD_BYTES)


def _with_room(lease: Lease | None, size: int) -> Lease:
    lease = lease or Lease(BUDGET)
    try:
        lease.take(size)
    except ServingError as error:
        raise Refused(429, str(error)) from error
    return lease


def waiting_bytes(heads: Iterable[RequestHead]) -> int:
    """Estimate what requests take that wait, without headers that have their own lease.

    A body of unknown length counts as the largest that is gathered, since it is not asked for.
    """
    return sum(
        REQUEST_BYTES
        + (0 if head.lease else FIELD_BYTES * len(head.headers))
        + min(GATHERED if head.length is None else head.length, GATHERED)
        for head in heads
    )

"""Shared state of all workers of one server, which the arbiter creates before it forks any.

Each worker has a slot, a number from 0 on, which its replacement takes over. The workers have no
leader: each publishes its state on its board, which all others read, and sends a question directly
to the worker that it concerns. All of this is memory and sockets without names, so it disappears
with the server.
"""

import os
import tempfile
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final, Protocol

from ie_serving.server.workers.mailboxes import Mailboxes
from ie_serving.server.workers.numbers import Numbers

LOOK: Final = b"look"
"""Message: a board has changed."""
PORT: Final = b"port"
"""Message: a connection, with the number of the socket that it came to (`spread.py`)."""
NOT_ACCEPTING: Final = -1
"""Connection count of a worker that accepts none."""


class Place(Protocol):
    """Stores bytes that outlive a worker; `server.process.handover.Handover` is one."""

    def read(self) -> bytes:
        """Return the bytes written last; empty before the first write."""

    def write(self, data: bytes, /) -> None:
        """Replace the bytes. Raises: OSError, and the previous bytes stay."""

    def clear(self) -> None:
        """Discard the bytes."""


class Crew:
    """The state that all workers share.

    Args of the constructor:
        size: number of workers.
        place: makes a place.

    Attributes:
        boards: what each worker publishes to the others (`member.py`).
        shown: number that grows at the beginning and at the end of each write to a board, by which
            others notice a change; odd while the board is being written.
        configurations, answering: what each worker leaves to its replacement.
        applied: number of the configuration that each worker has applied last (`ledger.py`).
        beats: grows each second while the event loop of a worker runs (`member.py`).
        connections: number of each worker's connections, or NOT_ACCEPTING (`spread.py`).
        given, taken: connections that were handed over: from one slot to another (a row for each
            giver), and how many each has received.
        counted: each slot's counters when they were told last (`counted.py`).
        log_level: number of the level that was last requested; 0: none was.
        turn: file whose lock is held while the configuration of all is changed (`turn.py`).
    """

    def __init__(self, size: int, place: Callable[[], Place]) -> None:
        self.size = size
        self.mailboxes = Mailboxes(size)
        self.boards: Sequence[Place] = [place() for _ in range(size)]
        self.configurations: Sequence[Place] = [place() for _ in range(size)]
        self.answering: Sequence[Place] = [place() for _ in range(size)]
        self.counted: Sequence[Place] = [place() for _ in range(size)]
        self.shown = Numbers(size)
        self.applied = Numbers(size)
        self.beats = Numbers(size)
        self.connections = Numbers(size, NOT_ACCEPTING)
        self.given = Numbers(size * size)
        self.taken = Numbers(size)
        self.log_level = Numbers(1)
        self.turn = _nameless()

    @property
    def has_accepting(self) -> bool:
        """Whether any worker accepts connections."""
        return any(number != NOT_ACCEPTING for number in self.connections.all())

    def free_slot(self, taken: Collection[int]) -> int:
        """Return the first slot that is not in `taken`."""
        return next(slot for slot in range(self.size) if slot not in taken)

    def left(self, slot: int) -> None:
        """Record, in the arbiter, that the worker of a slot has ended: the others forget it.

        Connections that were being handed to it go to another worker. Other descriptors are closed,
        which ends the wait of the worker at the other end.
        """
        self.connections[slot] = NOT_ACCEPTING
        self.boards[slot].clear()
        for words, descriptor in self.mailboxes.unread(slot):
            if descriptor is None:
                continue
            if words.startswith(PORT):
                self._pass_on(slot, words, descriptor)
            with suppress(OSError):
                os.close(descriptor)
        self.taken[slot] = self.given_to(slot)
        self.shown[slot] += 2 - self.shown[slot] % 2
        for other in range(self.size):
            if other != slot:
                self.mailboxes.send(other, LOOK)

    def _pass_on(self, slot: int, words: bytes, connection: int) -> None:
        """Hand a connection to the worker with the fewest, in the name of the ended worker."""
        accepting = [each for each in range(self.size) if self.connections[each] != NOT_ACCEPTING]
        for heir in sorted(accepting, key=self.load):
            if self.mailboxes.send(heir, words, connection):
                self.given[slot * self.size + heir] += 1
                return

    def load(self, slot: int) -> int:
        """Return a worker's number of connections, including those being handed to it."""
        return self.connections[slot] + self.given_to(slot) - self.taken[slot]

    def given_to(self, slot: int) -> int:
        """Return how many connections the other workers have handed to a slot."""
        return sum(self.given[giver * self.size + slot] for giver in range(self.size))

    def forget(self) -> None:
        """Discard what workers have left: the next start counts as the first."""
        for place in (*self.configurations, *self.answering):
            place.clear()


def _nameless() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())

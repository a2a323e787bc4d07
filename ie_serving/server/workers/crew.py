"""All workers of one server: what the arbiter makes before it forks any of them.

Each worker has a slot, a number from 0 on, which its replacement takes over. Nobody leads: what a
worker has to tell stands on its board, which all others read, and a question goes straight to the
worker that it is for. All of it is memory and sockets without names, so that it ends with the
server.
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
"""Number of connections of a worker that takes none."""


class Place(Protocol):
    """Holds bytes that outlive a worker; `server.process.handover.Handover` is one."""

    def read(self) -> bytes:
        """Give what was written last; empty before the first time."""

    def write(self, data: bytes, /) -> None:
        """Replace it. Raises: OSError, and what was written before stays."""

    def clear(self) -> None:
        """Forget what was written."""


class Crew:
    """What all workers share.

    Args of the constructor:
        size: how many workers there are to be.
        place: makes a place.

    Attributes:
        boards: what each worker shows to the others (`member.py`).
        shown: how often each board was written, by which others notice.
        configurations, answering: what each worker leaves to its replacement.
        applied: number of the configuration that each worker has applied last (`ledger.py`).
        beats: grows each second while the event loop of a worker turns (`member.py`).
        connections: how many each worker has, or NOT_ACCEPTING (`spread.py`).
        given, taken: connections that were handed over: from one slot to another (a row for each
            giver), and how many each has received.
        counted: what each worker had counted when that was read last (`counted.py`).
        counting: file whose lock is held by whoever reads and writes that.
        log_level: the number of the one that was asked for by request; 0: none was.
        turn: file whose lock is held by whoever changes the configuration of all (`turn.py`).
    """

    def __init__(self, size: int, place: Callable[[], Place]) -> None:
        self.size = size
        self.mailboxes = Mailboxes(size)
        self.boards: Sequence[Place] = [place() for _ in range(size)]
        self.configurations: Sequence[Place] = [place() for _ in range(size)]
        self.answering: Sequence[Place] = [place() for _ in range(size)]
        self.counted = place()
        self.shown = Numbers(size)
        self.applied = Numbers(size)
        self.beats = Numbers(size)
        self.connections = Numbers(size, NOT_ACCEPTING)
        self.given = Numbers(size * size)
        self.taken = Numbers(size)
        self.log_level = Numbers(1)
        self.turn, self.counting = _nameless(), _nameless()

    @property
    def has_accepting(self) -> bool:
        """Whether any worker takes connections."""
        return any(number != NOT_ACCEPTING for number in self.connections.all())

    def free_slot(self, taken: Collection[int]) -> int:
        """Give the first slot that is not among `taken`."""
        return next(slot for slot in range(self.size) if slot not in taken)

    def left(self, slot: int) -> None:
        """Note, in the arbiter, that the worker of a slot has ended: the others forget it.

        Connections that were on their way to it go to another worker. Other descriptors are closed,
        which ends the wait of whoever holds the other end.
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
        self.shown[slot] += 1
        for other in range(self.size):
            if other != slot:
                self.mailboxes.send(other, LOOK)

    def _pass_on(self, slot: int, words: bytes, connection: int) -> None:
        """Hand a connection to the worker with the fewest, as if the one that ended had."""
        accepting = [each for each in range(self.size) if self.connections[each] != NOT_ACCEPTING]
        for heir in sorted(accepting, key=self.load):
            if self.mailboxes.send(heir, words, connection):
                self.given[slot * self.size + heir] += 1
                return

    def load(self, slot: int) -> int:
        """Give how many connections a worker has, with those that are on their way to it."""
        return self.connections[slot] + self.given_to(slot) - self.taken[slot]

    def given_to(self, slot: int) -> int:
        """Give how many connections others have handed to the worker of a slot."""
        return sum(self.given[giver * self.size + slot] for giver in range(self.size))

    def forget(self) -> None:
        """Forget what workers have left: the next start is the first one."""
        for place in (*self.configurations, *self.answering):
            place.clear()


def _nameless() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())

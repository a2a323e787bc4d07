"""Shared state of all workers of one server, which the arbiter creates before it forks any.

Each worker has a slot, a number from 0 on, which its replacement takes over. Each publishes its
state on its board, which all others read, and sends a question directly to the worker that it
concerns. All of this is memory and sockets without names, so it disappears with the server.
"""

import mmap
import os
import socket
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

LOOK: Final = b"look"
"""Message: a board has changed."""
PORT: Final = b"port"
"""Message: a connection, with the number of the socket that it came to (`spread.py`)."""
NOT_ACCEPTING: Final = -1
"""Connection count of a worker that accepts none."""
LONGEST = 64
"""Most bytes of a message. Longer data goes over a descriptor sent with one (`questions.py`)."""
_BYTES = 8


class Keeper(Protocol):
    """Stores bytes that outlive a worker; `server.process.handover.Handover` is one."""

    def read(self) -> bytes:
        """Return the bytes written last; empty before the first write."""

    def write(self, data: bytes, /) -> None:
        """Replace the bytes. Raises: OSError, and the previous bytes stay."""

    def clear(self) -> None:
        """Discard the bytes."""


class Numbers:
    """A row of signed 64-bit numbers. Each has one writer at a time, and any number of readers."""

    def __init__(self, size: int, first: int = 0) -> None:
        # Anonymous and shared, so processes that fork later have the same pages, not copies.
        self._pages = mmap.mmap(-1, size * _BYTES)
        # Stores of an aligned word are atomic: a reader sees the old number or the new one.
        self._cells = memoryview(self._pages).cast("q")
        for each in range(size):
            self._cells[each] = first

    def __getitem__(self, place: int) -> int:
        return self._cells[place]

    def __setitem__(self, place: int, number: int) -> None:
        self._cells[place] = number

    def __len__(self) -> int:
        return len(self._cells)

    def all(self) -> list[int]:
        """Return all numbers, in order."""
        return self._cells.tolist()


class Message(NamedTuple):
    """A received message.

    Attributes:
        words: as sent.
        descriptor: received with it, and now the receiver's; None without one.
    """

    words: bytes
    descriptor: int | None


class Mailboxes:
    """A mailbox for each slot: short messages, each with a file descriptor or none.

    A slot keeps its mailbox when its worker is replaced. No method waits.
    """

    def __init__(self, size: int) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(size)]
        for sender, receiver in pairs:
            sender.setblocking(False)
            receiver.setblocking(False)
        self._senders = [sender for sender, _ in pairs]
        self._receivers = [receiver for _, receiver in pairs]

    def receiver(self, slot: int) -> socket.socket:
        """Return the socket that becomes readable when a message for `slot` has come."""
        return self._receivers[slot]

    def send(self, slot: int, words: bytes, descriptor: int | None = None) -> bool:
        """Send a message; False if the mailbox is full, so that its reader has work anyway.

        The sender keeps the descriptor and closes it.
        """
        descriptors = [] if descriptor is None else [descriptor]
        try:
            socket.send_fds(self._senders[slot], [words], descriptors)
        except OSError:  # full; or the system has too many descriptors in transit
            return False
        return True

    def receive(self, slot: int) -> Message | None:
        """Take the next message of `slot`; None if there is none."""
        try:
            words, descriptors, _, _ = socket.recv_fds(self._receivers[slot], LONGEST, 1)
        except OSError:
            return None
        return Message(words, descriptors[0] if descriptors else None)

    def unread(self, slot: int) -> Iterator[Message]:
        """Yield messages that a dead worker has not read. The caller closes each descriptor."""
        while (message := self.receive(slot)) is not None:
            yield message


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
        lock: file whose lock is held while the configuration of all is changed (`changes.py`).
        changes: number of the change that was begun last.
    """

    def __init__(self, size: int, place: Callable[[], Keeper]) -> None:
        self.size = size
        self.mailboxes = Mailboxes(size)
        self.boards: Sequence[Keeper] = [place() for _ in range(size)]
        self.configurations: Sequence[Keeper] = [place() for _ in range(size)]
        self.answering: Sequence[Keeper] = [place() for _ in range(size)]
        self.counted: Sequence[Keeper] = [place() for _ in range(size)]
        self.shown = Numbers(size)
        self.applied = Numbers(size)
        self.beats = Numbers(size)
        self.connections = Numbers(size, NOT_ACCEPTING)
        self.given = Numbers(size * size)
        self.taken = Numbers(size)
        self.log_level = Numbers(1)
        self.changes = Numbers(1)
        self.lock = _nameless()

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

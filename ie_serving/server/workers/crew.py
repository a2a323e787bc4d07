"""Shared state of all workers of one server, which the arbiter creates before it forks any.

Each worker has a slot, a number from 0 on, which its replacement takes over. Each publishes its
state on its board, which all others read, and sends a question directly to the worker that it
concerns. All of this is memory and sockets without names, so it disappears with the server.

The ledger has each worker's copy of the configuration that it has applied last, with its number:
each change of all workers has a number, one above the previous. A replacement begins with the copy
of the highest number, and a worker with a lower number knows that it has missed a change.

The counters of ended workers are kept, so that the sum over all workers never falls: Prometheus
takes a falling sum for a restart of the whole server, and `rate()` would count the other workers'
numbers again. So each worker stores its counters in its slot whenever it reports them, and its
replacement adds them to its own. Counts between the last scrape and a worker's death are lost, as
with any process.
"""

import mmap
import os
import pickle
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from ie_serving.core.runtime.handover import HandoverStore, nameless

LOOK: Final = b"look"
"""Message: a board has changed."""
PORT: Final = b"port"
"""Message: a connection, with the number of the socket that it came to (`spread.py`)."""
NOT_ACCEPTING: Final = -1
"""Connection count of a worker that accepts none."""
LONGEST = 64
"""Most bytes of a message. Longer data goes over a descriptor sent with one (`questions.py`)."""
_BYTES = 8


class SharedNumbers:
    """A row of signed 64-bit numbers. Each has one writer at a time, and any number of readers."""

    def __init__(self, size: int, first: int = 0) -> None:
        # Anonymous and shared, so processes that fork later have the same pages, not copies.
        self._pages = mmap.mmap(-1, size * _BYTES)
        # Stores of an aligned word are atomic: a reader sees the old number or the new one.
        self._cells = memoryview(self._pages).cast("q")
        for each in range(size):
            self._cells[each] = first

    def __getitem__(self, index: int) -> int:
        return self._cells[index]

    def __setitem__(self, index: int, number: int) -> None:
        self._cells[index] = number

    def __len__(self) -> int:
        return len(self._cells)

    def all(self) -> list[int]:
        """Return all numbers, in order."""
        return self._cells.tolist()


class CrewMessage(NamedTuple):
    """A received message.

    Attributes:
        words: words of the message.
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

    def receive(self, slot: int) -> CrewMessage | None:
        """Take the next message of `slot`; None if there is none."""
        try:
            words, descriptors, _, _ = socket.recv_fds(self._receivers[slot], LONGEST, 1)
        except OSError:
            return None
        return CrewMessage(words, descriptors[0] if descriptors else None)

    def unread(self, slot: int) -> Iterator[CrewMessage]:
        """Yield messages that a dead worker has not read. The caller closes each descriptor."""
        while (message := self.receive(slot)) is not None:
            yield message


class Crew:
    """The state that all workers share.

    Args of the constructor:
        size: number of workers.
        make_store: creates storage that outlives a worker.

    Attributes:
        boards: the state that each worker publishes to the others (`member.py`).
        shown: grows at the beginning and at the end of each write to a board, by which the other
            workers notice a change; odd during the write.
        configurations, answering: state of each worker for its replacement.
        applied: number of the configuration that each worker has applied last.
        beats: grows each second while the event loop of a worker runs (`member.py`).
        connections: number of each worker's connections, or NOT_ACCEPTING (`spread.py`).
        given, taken: counts of connections handed from one slot to another (a row for each giver),
            and received by each slot.
        counted: each slot's counters at the last scrape.
        log_level: number of the level that was last requested; 0: none was.
        lock: file whose lock is held during a change of all workers' configuration (`changes.py`).
        changes: number of the last change that began.
    """

    def __init__(self, size: int, make_store: Callable[[], HandoverStore]) -> None:
        self.size = size
        self.mailboxes = Mailboxes(size)
        self.boards: Sequence[HandoverStore] = [make_store() for _ in range(size)]
        self.configurations: Sequence[HandoverStore] = [make_store() for _ in range(size)]
        self.answering: Sequence[HandoverStore] = [make_store() for _ in range(size)]
        self.counted: Sequence[HandoverStore] = [make_store() for _ in range(size)]
        self.shown = SharedNumbers(size)
        self.applied = SharedNumbers(size)
        self.beats = SharedNumbers(size)
        self.connections = SharedNumbers(size, NOT_ACCEPTING)
        self.given = SharedNumbers(size * size)
        self.taken = SharedNumbers(size)
        self.log_level = SharedNumbers(1)
        self.changes = SharedNumbers(1)
        self.lock = nameless()

    @property
    def has_accepting(self) -> bool:
        """Whether any worker accepts connections."""
        return any(number != NOT_ACCEPTING for number in self.connections.all())

    def free_slot(self, taken: Collection[int]) -> int:
        """Return the first slot that is not in `taken`."""
        return next(slot for slot in range(self.size) if slot not in taken)

    def left(self, slot: int) -> None:
        """Record, in the arbiter, that the worker of a slot has ended, and notify the others.

        Connections in transit to it go to another worker. Other descriptors in its mailbox are
        closed, which ends the wait of the worker at the other end.
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
        """Discard the state left for replacements: the next start counts as the first."""
        for store in (*self.configurations, *self.answering):
            store.clear()


class Ledger:
    """One worker's access to the ledger. A `HandoverStore` of the configuration.

    Args of the constructor:
        crew: shared state of all workers.
        slot: index of the worker.
        is_first: the whole server starts, so other workers' copies do not apply.

    Attributes:
        crew, slot: as given.
        number: number of the change that this worker has applied last.
    """

    def __init__(self, crew: Crew, slot: int, *, is_first: bool) -> None:
        self.crew = crew
        self.slot = slot
        self._is_first = is_first
        self.number = 0

    @property
    def newest(self) -> int:
        """Number of the last change that any worker has applied."""
        return max(self.crew.applied.all())

    @property
    def is_behind(self) -> bool:
        """Whether another worker has applied a change that this worker has not."""
        return self.newest > self.number

    def has(self, number: int) -> bool:
        """Return whether a worker's last applied change has this number."""
        return number in self.crew.applied.all()

    def read(self) -> bytes:
        """Return the newest copy, and record its number as applied by this worker."""
        self.number = self.newest
        return b"" if self._is_first else self.newest_copy()

    def newest_copy(self) -> bytes:
        """Return the newest copy, preferring this worker's own; empty if there is none."""
        applied = self.crew.applied.all()
        slots = sorted(range(self.crew.size), key=lambda slot: (-applied[slot], slot != self.slot))
        return _first_of(self.crew.configurations[slot] for slot in slots)

    def write(self, data: bytes, /) -> None:
        """Replace this worker's copy. Raises: OSError, and other workers' copies are read."""
        try:
            self.crew.configurations[self.slot].write(data)
        except OSError:
            self.clear()  # the previous copy must not pass for the newest
            raise
        finally:
            self.crew.applied[self.slot] = self.number

    def clear(self) -> None:
        """Discard this worker's copy."""
        self.crew.configurations[self.slot].clear()


class AnsweringVersions:
    """The serving versions, as recorded by this slot's last worker, or else by another worker.

    Args of the constructor: as of `Ledger`.
    """

    def __init__(self, crew: Crew, slot: int) -> None:
        self._own = crew.answering[slot]
        self._all = crew.answering

    def read(self) -> bytes:
        """Return the bytes written last; empty if no worker has left any."""
        # A worker that ended during its start has left nothing.
        return _first_of((self._own, *self._all))

    def write(self, data: bytes, /) -> None:
        """Replace this worker's bytes. Raises: OSError, and the previous bytes stay."""
        self._own.write(data)

    def clear(self) -> None:
        """Discard this worker's record."""
        self._own.clear()


def _first_of(stores: Iterable[HandoverStore]) -> bytes:
    return next(filter(None, (store.read() for store in stores)), b"")


Counters = Mapping[str, float]
"""Values of counters and histograms, by the name of the sample with its labels."""


class CounterStore:
    """Stores this worker's counters, and returns those of ended workers.

    Attributes:
        before: counters of all earlier workers of this slot.
    """

    def __init__(self, crew: Crew, slot: int) -> None:
        self._stores = crew.counted
        self._slot = slot
        self.before = _stored(self._stores[slot])

    def store(self, own: Counters) -> None:
        """Store the counters of this worker, before a scrape reports them."""
        with suppress(OSError):  # no memory: a replacement begins with the previous ones
            self._stores[self._slot].write(pickle.dumps(_sum([self.before, own])))

    def of_the_gone(self, told: Mapping[int, Counters]) -> Counters:
        """Return the counters of ended workers that no running worker includes.

        Args:
            told: `before` of each worker in the scrape, by slot.
        """
        missing = (store for slot, store in enumerate(self._stores) if slot not in told)
        return _sum([*told.values(), *map(_stored, missing)])


def _stored(store: HandoverStore) -> Counters:
    found: Counters = pickle.loads(store.read() or _NOTHING)
    return found


def _sum(each: Iterable[Counters]) -> Counters:
    total: dict[str, float] = {}
    for numbers in each:
        for name, number in numbers.items():
            total[name] = total.get(name, 0.0) + number
    return total


_NOTHING = pickle.dumps({})

"""The ledger: each worker's copy of the configuration that it has applied last, with its number.

Each change of all workers has a number, one above the previous. A replacement begins with the copy
of the highest number, and a worker with a lower number knows that it has missed a change.
"""

from collections.abc import Iterable

from ie_serving.server.workers.crew import Crew, Keeper


class Ledger:
    """One worker's access to the ledger. Implements `config.files.followed.Place`.

    Args of the constructor:
        crew: shared state of all workers.
        slot: the worker's.
        is_first: the whole server starts, so other workers' copies do not apply.

    Attributes:
        crew, slot: as given.
        number: of the change that this worker has applied last.
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


class Answering:
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


def _first_of(places: Iterable[Keeper]) -> bytes:
    return next(filter(None, (place.read() for place in places)), b"")

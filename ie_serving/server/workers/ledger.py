"""The configuration that was applied last, by any of the workers: a copy of each, and its number.

Each change of all workers has a number, one above the one before. A worker that replaces another
begins with the newest copy there is, and one that has missed a change finds out by the numbers.
"""

from collections.abc import Iterable

from ie_serving.server.workers.crew import Crew, Place


class Ledger:
    """One worker's view of it. As `config.files.succession.Place`.

    Args of the constructor:
        crew: what all workers share.
        slot: the worker's.
        is_first: the server starts: what others have left meanwhile is not for this one.

    Attributes:
        number: of the change that this worker has applied last.
    """

    def __init__(self, crew: Crew, slot: int, *, is_first: bool) -> None:
        self._crew = crew
        self._slot = slot
        self._is_first = is_first
        self.number = 0

    @property
    def newest(self) -> int:
        """Number of the last change that any worker has applied."""
        return max(self._crew.applied.all())

    @property
    def is_behind(self) -> bool:
        """Whether another worker has applied a change that this one has not."""
        return self.newest > self.number

    def read(self) -> bytes:
        """Give the newest copy, and know its number as applied here."""
        self.number = self.newest
        return b"" if self._is_first else self.newest_copy()

    def newest_copy(self) -> bytes:
        """Give the newest copy: the own one where several are as new; empty where there is none."""
        applied = self._crew.applied.all()
        newest = max(applied)
        slots = [slot for slot, number in enumerate(applied) if number == newest]
        return _first_of(self._crew.configurations[slot] for slot in self._own_first(slots))

    def _own_first(self, slots: Iterable[int]) -> list[int]:
        return sorted(slots, key=lambda slot: slot != self._slot)

    def write(self, data: bytes, /) -> None:
        """Replace the own copy. Raises: OSError, and the one before stays."""
        self._crew.configurations[self._slot].write(data)
        self._crew.applied[self._slot] = self.number

    def clear(self) -> None:
        """Forget the own copy."""
        self._crew.configurations[self._slot].clear()


class Answering:
    """Which versions answer, as this slot's worker has left it, or else another one's.

    Args of the constructor: as of `Ledger`.
    """

    def __init__(self, crew: Crew, slot: int) -> None:
        self._own = crew.answering[slot]
        self._all = crew.answering

    def read(self) -> bytes:
        """Give what was written last; empty where no worker has left anything."""
        # A worker that never came so far has left nothing.
        return _first_of((self._own, *self._all))

    def write(self, data: bytes, /) -> None:
        """Replace the own one. Raises: OSError, and the one before stays."""
        self._own.write(data)

    def clear(self) -> None:
        """Forget the own one."""
        self._own.clear()


def _first_of(places: Iterable[Place]) -> bytes:
    return next(filter(None, (place.read() for place in places)), b"")

"""The sequences of all versions of a model, and of all models.

A request may name no version, and the default version changes. So an id is unique among all
versions of a model: it always means the same sequence, and an error can say why it is gone.
"""

import asyncio
import logging
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Protocol

from ie_serving.engines.layers import sequence
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.metrics.layers import SequenceMetrics

log = logging.getLogger(__name__)

MOST_REMEMBERED = 10_000
"""Remembered ids of one model's sequences that are gone without an END, with the reason; beyond
this the oldest are forgotten. Each takes some 200 bytes."""

AT_ONCE = 100
"""Idle sequences that are dropped in one turn of the event loop: to free the states of 20,000 takes
some 100 ms."""

CallLater = Callable[[float, Callable[[], None]], "asyncio.TimerHandle"]


class VersionSequences(Protocol):
    """The sequences of one version; see `sequence_table.SequenceTable`."""

    version: int | None

    def __len__(self) -> int: ...

    def __contains__(self, number: object) -> bool: ...

    @property
    def state_bytes(self) -> int:
        """Bytes that the states take."""

    def idle(self) -> Sequence[sequence.Sequence]:
        """Give the sequences without a request since the last call."""

    def drop(self, idle: Iterable[sequence.Sequence]) -> Collection[int]:
        """Drop those that still have had none; give the ids."""


class Family:
    """The tables of one model's versions that serve or are being unloaded.

    Args of the constructor:
        model: its name.
        metrics: counts of its sequences.
        on_join: called when a version begins to serve.
    """

    def __init__(
        self, model: str, metrics: SequenceMetrics, on_join: Callable[[], None] = lambda: None
    ) -> None:
        self.metrics = metrics
        self._model = model
        self._on_join = on_join
        # Weakly: a version whose last request outlives the drain is not closed, only dereferenced.
        self._tables: weakref.WeakSet[VersionSequences] = weakref.WeakSet()
        self._gone: OrderedDict[int, str] = OrderedDict()
        self._lock = threading.Lock()  # versions are freed in threads

    @property
    def tables(self) -> list[VersionSequences]:
        """The tables of versions that serve or are being unloaded."""
        with self._lock:
            return list(self._tables)

    def join(self, table: VersionSequences) -> None:
        """Add a version that begins to serve."""
        with self._lock:
            self._tables.add(table)
        self.metrics.begin(self._counts)
        self._on_join()

    def leave(self, table: VersionSequences, numbers: Collection[int]) -> None:
        """Take a version out that is unloaded, with the ids of its sequences. In any thread."""
        with self._lock:
            known = table in self._tables
            self._tables.discard(table)
        if known and numbers:
            self._note_gone(numbers, f", version {table.version}, which had it, is unloaded")
            self._dropped("unloaded", table, len(numbers))

    def version_of(self, number: int, asking: VersionSequences) -> int | None:
        """Tell which other version has a sequence; None where none has, or `asking` is no part."""
        tables = self.tables
        if asking not in tables:  # still warming up: apart from clients' sequences
            return None
        others = (each for each in tables if each is not asking and number in each)
        return next((each.version for each in others), None)

    def drop_idle(self) -> Iterator[None]:
        """Drop sequences without a request since the last call, some of them at each step."""
        for table in self.tables:
            idle, gone = table.idle(), 0
            for start in range(0, len(idle), AT_ONCE):
                numbers = table.drop(idle[start : start + AT_ONCE])
                self._note_gone(numbers, ", it was dropped since no request for it had come")
                gone += len(numbers)
                yield
            if gone:
                self._dropped("idle", table, gone)

    def forget(self, number: int) -> None:
        """Forget why a sequence is gone: its id is used again."""
        if self._gone:
            with self._lock:
                self._gone.pop(number, None)

    def why_gone(self, number: int) -> str:
        """Give the reason why a sequence is gone, as text after its id; empty where unknown."""
        why = self._gone.get(number, "")
        return f"{why}: start a new one" if why else ""

    def _note_gone(self, numbers: Iterable[int], why: str) -> None:
        with self._lock:
            for number in numbers:
                self._gone[number] = why
            while len(self._gone) > MOST_REMEMBERED:
                self._gone.popitem(last=False)

    def _dropped(self, reason: str, table: VersionSequences, sequences: int) -> None:
        self.metrics.drop(reason, sequences)
        log.info(
            Event(
                "sequences dropped",
                model=self._model,
                version=table.version,
                reason=reason,
                sequences=sequences,
            )
        )

    def _counts(self) -> tuple[int, int]:
        tables = self.tables
        return sum(map(len, tables)), sum(each.state_bytes for each in tables)


class Families:
    """The families of all models, and the one timer that looks for idle sequences.

    Args of the constructor:
        every_s: seconds between two scans; 0 makes none.
        call_later: calls back after so many seconds; None takes the event loop's.
    """

    def __init__(self, every_s: float, call_later: CallLater | None = None) -> None:
        self._every_s = every_s
        self._call_later = call_later
        self._timer: asyncio.TimerHandle | None = None
        # Weakly: a family lasts as long as its model is configured, or a version of it in memory.
        self._families: weakref.WeakValueDictionary[str, Family] = weakref.WeakValueDictionary()

    def of(self, model: str, metrics: SequenceMetrics) -> Family:
        """Give the family of a model; it keeps its records when the model is configured again.

        Args:
            model: its name.
            metrics: count its sequences from now on.
        """
        family = self._families.get(model)
        if family is None:
            family = self._families[model] = Family(model, metrics, self._watch)
        family.metrics = metrics
        return family

    def close(self) -> None:
        """Look for idle sequences no longer."""
        self._every_s = 0.0
        if self._timer is not None:
            self._timer.cancel()

    # No timer before the first model that keeps sequences, and none after the last.
    def _watch(self) -> None:
        if self._every_s and self._timer is None:
            self._call_in(self._every_s, self._scan)

    def _scan(self) -> None:
        families = list(self._families.values())
        self._go_on(chain.from_iterable(family.drop_idle() for family in families))

    def _go_on(self, scan: Iterator[None]) -> None:
        for _ in scan:
            self._call_in(0.0, partial(self._go_on, scan))
            return
        self._timer = None
        if any(family.tables for family in list(self._families.values())):
            self._watch()

    def _call_in(self, delay_s: float, call: Callable[[], None]) -> None:
        call_later = self._call_later or asyncio.get_running_loop().call_later
        self._timer = call_later(delay_s, call)

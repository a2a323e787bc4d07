"""One worker among several: publishes its state, reads the states and messages of the others."""

import asyncio
import logging
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple

from ie_serving.core.values.errors import NotAvailable, ServingError
from ie_serving.core.values.versions import VersionStatus
from ie_serving.server.workers.crew import LOOK, Crew
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

BEAT_S: Final = 1.0
"""Seconds between two checks of the boards without a message: a message to a full mailbox is not
sent again. A check reads one number for each worker."""
SOON_S: Final = 0.01
"""Seconds for which changes of this worker's board are collected before a write, which contains all
models: a thousand may load within seconds."""
SILENT_BEATS: Final = 15
"""This worker's beats without a beat of another worker, after which that worker counts as stopped
or hung. Work on its event loop takes milliseconds, but an import or unpickling in a thread may hold
the GIL for seconds. Counted in beats, not in seconds, since a clock continues while the whole
server is suspended. Shorter than the limit of a REST request."""

_NOT_SEEN: Final = -1


class WorkerSilent(NotAvailable):
    """The other worker exists, but its event loop does not run: it is stopped, or hangs."""


class WorkerPhase(IntEnum):
    """Phase of a worker."""

    STARTING = 0
    """It loads, and accepts no requests."""
    OPEN = 1
    """It accepts requests."""
    READY = 2
    """It accepts requests, and every model has served."""


class ConfigChange(NamedTuple):
    """A change of the configuration of all workers, which one of them leads.

    Attributes:
        number: number of the change: above those of all changes before it.
        body: pickled description of the change (`changes.py`).
    """

    number: int
    body: bytes


class ChangeAnswer(NamedTuple):
    """A worker's answer to a change.

    Attributes:
        number: number of the change.
        error: reason why the worker cannot make the change; None if it is prepared.
    """

    number: int
    error: ServingError | None = None


@dataclass(frozen=True, kw_only=True)
class Board:
    """The state that a worker publishes to the others.

    Attributes:
        pid: process id of the worker.
        phase: phase of the worker.
        statuses: statuses of its versions, by the model's name.
        change: the change that this worker leads at present.
        answer: answer to the last change that another worker has led.
        applied: number of the change that this worker has applied last.
        config_fault: reason why the configuration file is not applied, as this worker last saw it.
    """

    pid: int = 0
    phase: WorkerPhase = WorkerPhase.STARTING
    statuses: Mapping[str, Sequence[VersionStatus]] = field(default_factory=dict)
    change: ConfigChange | None = None
    answer: ChangeAnswer = field(default=ChangeAnswer(0))
    applied: int = 0
    config_fault: str = ""


class Member:
    """This worker, as a member of the crew. Lives on one event loop.

    Attributes:
        boards: boards of the other running workers, by slot, as last read.
    """

    def __init__(self, crew: Crew, slot: int) -> None:
        self.crew = crew
        self.slot = slot
        self.boards: Mapping[int, Board] = {}
        self._own = Board(pid=os.getpid())
        self._seen = [_NOT_SEEN] * crew.size
        self._heard = crew.beats.all()
        self._missed = [0] * crew.size
        self._takers: dict[bytes, Callable[[bytes, int | None], None]] = {}
        self._watchers: list[Callable[[], None]] = []
        self._statuses: Callable[[], Mapping[str, Sequence[VersionStatus]]] = dict
        self._writing: asyncio.TimerHandle | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._news = asyncio.Event()

    # -- life --------------------------------------------------------------------------------

    def begin(self, statuses: Callable[[], Mapping[str, Sequence[VersionStatus]]]) -> None:
        """Start to read messages and to publish this worker's board.

        Args:
            statuses: returns the statuses of this worker's versions; called at each write.
        """
        self._statuses = statuses
        self.crew.beats[self.slot] += 1
        loop = asyncio.get_running_loop()
        loop.add_reader(self.crew.mailboxes.receiver(self.slot).fileno(), self._read_mail)
        self._beat = loop.call_later(BEAT_S, self._look_again)
        self._write()
        self.look()

    def end(self) -> None:
        """Stop reading messages and publishing."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self.crew.mailboxes.receiver(self.slot).fileno())
        for timer in (self._beat, self._writing):
            if timer:
                timer.cancel()

    # -- the boards --------------------------------------------------------------------------

    @property
    def own(self) -> Board:
        """This worker's board."""
        return self._own

    def show(self, **what: Any) -> None:  # noqa: ANN401
        """Change some fields of this worker's board, and publish it at once."""
        self._own = replace(self._own, **what)
        self._write()

    def changed(self) -> None:
        """Publish a version's changed state within `SOON_S`."""
        if self._writing is None:
            self._writing = asyncio.get_running_loop().call_later(SOON_S, self._write)

    @property
    def open(self) -> Mapping[int, Board]:
        """The boards of the other workers that accept requests."""
        return {slot: each for slot, each in self.boards.items() if each.phase >= WorkerPhase.OPEN}

    @property
    def is_first(self) -> bool:
        """Whether no worker of a lower slot accepts requests; a hung worker does not count."""
        return self.first is self._own

    @property
    def first(self) -> Board:
        """The board of the worker of the lowest slot that accepts requests, or this one's."""
        lower = (slot for slot in self.open if slot < self.slot and not self.is_silent(slot))
        slot = min(lower, default=self.slot)
        return self._own if slot == self.slot else self.boards[slot]

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` after each check of the boards: at least each second, and at messages."""
        self._watchers.append(watcher)

    async def until(self, holds: Callable[[], Any], limit_s: float | None = None) -> None:
        """Wait until `holds` returns a true value; call it again whenever a board has changed.

        Raises: asyncio.TimeoutError, after `limit_s` seconds; and whatever `holds` raises.
        """
        await asyncio.wait_for(self._until(holds), limit_s)

    async def _until(self, holds: Callable[[], Any]) -> None:
        while not holds():
            self._news.clear()
            await self._news.wait()

    def notify(self) -> None:
        """Make `until` call its functions again."""
        self._news.set()

    def look(self) -> None:
        """Read the boards that have changed, and call the watchers."""
        self.read_boards()
        for watcher in self._watchers:
            watcher()
        self.notify()

    def read_boards(self) -> None:
        """Read the boards that have changed."""
        boards = dict(self.boards)
        for slot, times in enumerate(self.crew.shown.all()):
            if slot == self.slot or times == self._seen[slot]:
                continue
            # An odd number: the board is being written, so it is read again next time.
            self._seen[slot] = _NOT_SEEN if times % 2 else times
            if content := self.crew.boards[slot].read():
                boards[slot] = pickle.loads(content)
            else:
                boards.pop(slot, None)
        self.boards = boards

    def show_changes(self) -> None:
        """Publish changes at once that `changed` has scheduled."""
        if self._writing:
            self._write()

    def _write(self) -> None:
        if self._writing:
            self._writing.cancel()
            self._writing = None
        self._own = replace(self._own, statuses=self._statuses())
        content, shown = pickle.dumps(self._own), self.crew.shown
        shown[self.slot] += 1
        try:
            self.crew.boards[self.slot].write(content)
        except OSError as error:
            log.warning(Event("board not written", cause=error.strerror))
        shown[self.slot] += 1
        for slot in range(self.crew.size):
            if slot != self.slot:
                self.crew.mailboxes.send(slot, LOOK)

    def _look_again(self) -> None:
        self._beat = asyncio.get_running_loop().call_later(BEAT_S, self._look_again)
        self.crew.beats[self.slot] += 1
        self._hear_beats()
        self.look()

    def _hear_beats(self) -> None:
        beats = self.crew.beats.all()
        for slot, (before, now) in enumerate(zip(self._heard, beats, strict=True)):
            self._missed[slot] = self._missed[slot] + 1 if now == before else 0
        self._heard = beats

    def is_silent(self, slot: int) -> bool:
        """Return whether the worker of `slot` accepts requests, but is stopped or hangs."""
        has_not_beaten = self.crew.beats[slot] == self._heard[slot]
        return self._missed[slot] >= SILENT_BEATS and has_not_beaten and slot in self.open

    def check(self, slot: int) -> None:
        """Check that the worker of `slot` is not silent. Raises: WorkerSilent."""
        if not self.is_silent(slot):
            return
        pid = self.boards[slot].pid
        raise WorkerSilent(
            f"worker process {pid} has shown no sign of life for {SILENT_BEATS * BEAT_S:g} s: it is"
            f" stopped or hangs; continue it (kill -CONT {pid}) or end it (kill -KILL {pid}), which"
            " lets another one take its place, and ask again"
        )

    def name_of(self, slot: int) -> str:
        """Name the worker of `slot` in errors."""
        board = self.boards.get(slot)
        return f"worker process {board.pid}" if board else "another worker"

    # -- the mailbox -------------------------------------------------------------------------

    def take(self, kind: bytes, taker: Callable[[bytes, int | None], None]) -> None:
        """Pass messages that begin with `kind` to `taker`, each with its descriptor.

        The descriptor is None if this process has too many open files: the system then closed it.
        """
        self._takers[kind] = taker

    def _read_mail(self) -> None:
        while (message := self.crew.mailboxes.receive(self.slot)) is not None:
            taker = self._takers.get(message.words.partition(b" ")[0])
            if taker:
                taker(*message)
            elif message.descriptor is not None:
                os.close(message.descriptor)
        self.look()

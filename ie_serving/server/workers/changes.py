"""Changes the configuration of all workers: one worker leads each change, the others follow it.

    leader                                  every other worker
    takes the lock
    shows the change on its board  ──>      prepares: loads what is new
    prepares as well
                                   <──      shows that it is prepared, or why it cannot be
    all are prepared: commits,
    and writes it to the ledger    ──>      commits
                                   <──      writes it to the ledger
    takes the change off its board
    releases the lock

Any worker can lead: the one that gets the kernel's lock, which ends with its process. A worker that
is behind the ledger applies the newest configuration without a leader. So:

- The leader dies, hangs or gives up before it commits: the others see that its board no longer has
  the change, or that the leader is silent, and undo their preparation.
- The leader dies after it has committed: the others see the commit in the ledger, and commit.
- A worker that dies delays nothing: its replacement begins with the newest configuration.
- A silent worker makes a change fail that has to be prepared, since it would answer differently
  from the rest. A change that is not all-or-nothing is made without it, and it catches up.
"""

import asyncio
import fcntl
import logging
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from enum import Enum
from functools import partial
from typing import Any, Final

from ie_serving.core.runtime.waits import Tasks
from ie_serving.core.values.errors import NotAvailable, ServingError, portable
from ie_serving.server.workers.crew import Ledger
from ie_serving.server.workers.member import Board, ChangeAnswer, ConfigChange, Member, WorkerPhase
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

COMMIT_S: Final = 10.0
"""Seconds for a worker to commit, which takes milliseconds; then the leader answers without it.
Less than the limit of a REST request, whose client would get an error despite the change."""
ASK_S: Final = 0.02
"""Seconds between two tries to get the lock, since the kernel does not notify. Changes take longer,
and rarely wait for each other."""

WantedConfig = Any
"""The configuration that all workers change to, of a class that pickle can copy."""
Agreed = Callable[[], Awaitable[None]]
"""Awaited once a worker is prepared, before it switches to the new versions; raises to undo."""


class ChangeKind(Enum):
    """Kind of a change."""

    BY_MODEL = "by model"
    """Applied at once; each model succeeds or fails separately."""
    ALL_OR_NOTHING = "all or nothing"
    """Refused unless all new versions load."""
    LABELS = "labels"
    """Changes labels only; refused unless the versions of the labels serve."""


ApplyChange = Callable[[ChangeKind, WantedConfig, Agreed], Awaitable[None]]
"""Changes this worker. Raises: ServingError, and then nothing has changed."""


class ConfigChanges:
    """Changes the configuration of all workers. Lives on one event loop.

    Args of the constructor:
        member: this worker.
        ledger: numbers of changes.
        apply: changes this worker.
        newest: returns the configuration that a worker has applied last.

    Attributes:
        tasks: the change that this worker follows.
    """

    def __init__(
        self, member: Member, ledger: Ledger, apply: ApplyChange, newest: Callable[[], WantedConfig]
    ) -> None:
        self._member = member
        self._ledger = ledger
        self._apply = apply
        self._newest = newest
        self._lock = ConfigLock(member.crew.lock, self._check_leader)
        self._changing = asyncio.Lock()  # this worker leads or follows one change at a time
        self.tasks = Tasks()
        self._not_applied = ""

    async def begin(self) -> None:
        """Enter the phase OPEN, and keep up with the newest configuration from now on."""
        self._member.watch(self._look)
        # Shown before looking: the leader sees this worker, or this worker the leader's commit.
        self._member.show(phase=WorkerPhase.OPEN, applied=self._ledger.number)
        async with self._changing:
            await self._catch_up()

    def close(self) -> None:
        """End the change that is being followed, as the process ends."""
        self.tasks.cancel()

    async def change(self, how: ChangeKind, make: Callable[[], WantedConfig]) -> None:
        """Change all workers to another configuration; return when each has changed.

        Args:
            how: kind of the change.
            make: returns what to change to; called when no other change is in progress.

        Raises:
            ServingError: the configuration cannot be applied; no worker has changed.
        """
        async with self._lock.held(), self._changing:
            await self._catch_up()
            wanted = make()
            if how is not ChangeKind.BY_MODEL:
                for slot in self._member.open:
                    self._member.check(slot)
            await self._lead(how, wanted)

    async def _lead(self, how: ChangeKind, wanted: WantedConfig) -> None:
        number = self._member.crew.changes[0] = self._member.crew.changes[0] + 1
        self._member.show(change=ConfigChange(number, pickle.dumps((how, wanted))))
        try:
            await self._apply(how, wanted, partial(self._all_agreed, how, number))
            self._member.show(applied=number)
            await self._all_done(number)
        finally:
            self._member.show(change=None)

    async def _all_agreed(self, how: ChangeKind, number: int) -> None:
        if how is not ChangeKind.BY_MODEL:
            await self._member.until(partial(self._are_prepared, number))
        self._ledger.number = number  # which the models write to the ledger as they commit

    def _are_prepared(self, number: int) -> bool:
        """Return whether all other workers are prepared. Raises: ServingError, if one fails."""
        for slot, board in self._member.open.items():
            self._member.check(slot)
            if error := _refusal(board, number):
                raise error
        return all(board.answer.number == number for board in self._member.open.values())

    async def _all_done(self, number: int) -> None:
        """Wait until all others have committed; log those that have not."""
        with suppress(asyncio.TimeoutError):
            await self._member.until(lambda: not self._awaited(number), COMMIT_S)
        for slot, board in self._member.open.items():
            if board.applied < number:
                cause = _refusal(board, number) or f"{self._member.name_of(slot)} has not changed"
                log.warning(Event("worker not heard", verb="change", cause=cause))

    def _awaited(self, number: int) -> bool:
        return any(
            board.applied < number
            and not _refusal(board, number)
            and not self._member.is_silent(slot)
            for slot, board in self._member.open.items()
        )

    # -- changes that another worker leads ---------------------------------------------------

    def _check_leader(self) -> None:
        """Check that the leader of a change is not silent. Raises: WorkerSilent."""
        for slot, board in self._member.boards.items():
            if board.change:
                self._member.check(slot)

    def _look(self) -> None:
        """Follow another worker's change, or catch up with a change that was missed."""
        if not self.tasks and (self._newest_change() or self._ledger.is_behind):
            self.tasks.begin(self._follow())

    def _newest_change(self) -> ConfigChange | None:
        """Return the change that another worker leads; None if already followed."""
        changes = (board.change for board in self._member.boards.values())
        new = [each for each in changes if each and each.number > self._member.own.answer.number]
        return max(new, key=lambda each: each.number, default=None)

    async def _follow(self) -> None:
        async with self._changing:
            change = self._newest_change()
            if change is None or change.number > self._ledger.newest:
                await self._catch_up()
            if change is not None:
                answer = await self._followed_to(change)
                self._member.show(answer=answer, applied=self._ledger.number)

    async def _followed_to(self, change: ConfigChange) -> ChangeAnswer:
        """Take part in a change to its end; return the answer that remains."""
        how, wanted = pickle.loads(change.body)
        try:
            await self._apply(how, wanted, partial(self._agreed, change.number))
        except Exception as error:
            return ChangeAnswer(change.number, portable(error))
        return ChangeAnswer(change.number)

    async def _agreed(self, number: int) -> None:
        self._member.show(answer=ChangeAnswer(number))
        await self._member.until(lambda: self._ledger.has(number) or self._is_over(number))
        if not self._ledger.has(number):
            raise NotAvailable(
                "the worker that changed the configuration did not go on: send the change again"
            )
        self._ledger.number = number

    def _is_over(self, number: int) -> bool:
        """Return whether no worker leads the change any more."""
        return not any(
            board.change and board.change.number == number and not self._member.is_silent(slot)
            for slot, board in self._member.boards.items()
        )

    async def _catch_up(self) -> None:
        """Change to the newest configuration if other workers have applied it without this one."""
        if not self._ledger.is_behind:
            return
        number = self._ledger.newest
        log.warning(Event("change missed, made now", number=number))

        async def agreed() -> None:
            self._ledger.number = number

        try:
            await self._apply(ChangeKind.BY_MODEL, self._newest(), agreed)
        except Exception as error:
            # Tried each second, logged once for each cause; a defect with its traceback.
            if repr(error) != self._not_applied:
                trace = None if isinstance(error, ServingError) else error
                log.error(Event("configuration not applied", cause=error), exc_info=trace)
            self._not_applied = repr(error)
        else:
            self._not_applied = ""
            self._member.show(applied=number)


def _refusal(board: Board, number: int) -> ServingError | None:
    return board.answer.error if board.answer.number == number else None


class ConfigLock:
    """The lock whose holder leads a change. Lives on one event loop of each worker.

    The kernel releases the lock when its process dies. POSIX locks belong to processes, so workers
    do not share a lock although they have inherited the same file (fcntl(2)).

    Args of the constructor:
        file: shared by all workers.
        check: raises NotAvailable if the worker that leads a change is stopped or hangs.
    """

    def __init__(self, file: int, check: Callable[[], None]) -> None:
        self._file = file
        self._check = check
        self._here = asyncio.Lock()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold the lock during the body. Raises: NotAvailable, as `check`."""
        async with self._here:
            while not self._try_lock():
                self._check()
                await asyncio.sleep(ASK_S)
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _try_lock(self) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

"""Changes the configuration of all workers in two phases: all prepare, then all commit.

    asked worker                            every other one
    takes its turn
    "change", number, models       ──>      prepares: loads what is new
    prepares as well
                                   <──      prepared, or the error, which ends the change
    commits: names change hands
    commit                         ──>      commits
                                   <──      done
    releases its turn

A change that is not all-or-nothing needs no preparation. A worker that dies is skipped: its
replacement begins with the configuration that was committed last (`ledger.py`). A stopped or hung
worker is skipped as well if there is nothing to prepare, and catches up when it continues; else
the change is refused, since that worker would answer differently from the rest. If the asked worker
is stopped or hangs, the others undo their preparation, and further changes are refused with an
error that names it. If it dies between two commits, the others see by the change numbers that they
are behind, and apply the change themselves.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, Protocol

from ie_serving.core.values.errors import ServingError
from ie_serving.server.workers.ledger import Ledger
from ie_serving.server.workers.line import Gone, Line, Silent
from ie_serving.server.workers.member import Member
from ie_serving.server.workers.turn import Turn
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

CHANGE: Final = "change"
PREPARED: Final = "prepared"
COMMIT: Final = "commit"
DONE: Final = "done"
LOADING_S: Final = 3600.0
"""Seconds that other workers may take to load, above any load; the caller's deadline is shorter."""
COMMIT_S: Final = 10.0
"""Seconds for a commit, which takes milliseconds; then the change is answered without that worker.
Less than the limit of a REST request, whose client would be told that nothing has changed."""

Configs = Sequence[Any]
Agreed = Callable[[], Awaitable[None]]
"""Awaited when all is prepared, just before names change hands; raises to undo the change."""


class How(Enum):
    """Kind of a change."""

    BY_MODEL = "by model"
    """Applied at once; each model succeeds or fails separately."""
    ALL_OR_NOTHING = "all or nothing"
    """Refused unless all new versions load."""
    LABELS = "labels"
    """Changes labels only; refused unless the versions of the labels serve."""


Apply = Callable[[How, Configs, Agreed], Awaitable[None]]
"""Changes this worker. Raises: ServingError, and then nothing has changed."""


class Followed(Protocol):
    """Follows the configuration file.

    Attributes:
        seen: digest of the content that was applied last; None without a file.
    """

    seen: str | None


class Changes:
    """Changes the configuration of all workers. Lives on one event loop.

    Args of the constructor:
        member: this worker.
        ledger: numbers of changes.
        apply: changes this worker.
        check: raises ServingError for a configuration that several workers cannot serve.
    """

    def __init__(
        self,
        member: Member,
        ledger: Ledger,
        apply: Apply,
        check: Callable[[Configs], None],
    ) -> None:
        self._member = member
        self._ledger = ledger
        self._apply = apply
        self._check = check
        self._turn = Turn(member.crew.turn, member.check_process)
        self._followed: Followed | None = None
        self._catching_up: asyncio.Task[None] | None = None
        self._following = 0
        self._not_applied = ""
        member.answer(CHANGE, self._follow)

    def begin(self, followed: Followed, newest: Callable[[], tuple[Configs, str | None]]) -> None:
        """Check from now on whether this worker has missed a change.

        Args:
            followed: the configuration file.
            newest: returns the models that were configured last, and the digest of the file then.
        """
        self._followed = followed
        self._newest = newest
        self._member.watch(self._look)

    async def change(self, how: How, make: Callable[[], Configs]) -> None:
        """Change all workers to another configuration; return when each has changed.

        Args:
            how: see `How`.
            make: makes the configuration; called when no other change is in progress.

        Raises:
            ServingError: the configuration cannot be applied; no worker has changed.
        """
        async with self._turn.taken():
            configs = make()
            self._check(configs)
            number = self._ledger.newest + 1
            seen = self._followed.seen if self._followed else None
            ask = partial(self._ask_all, number, configs, seen, how)
            if how is How.BY_MODEL:
                await self._apply(how, configs, partial(self._numbered, number, seen))
                await _done(await ask())
            else:
                await self._in_two_steps(number, how, configs, seen, await ask())

    async def _in_two_steps(
        self, number: int, how: How, configs: Configs, seen: str | None, lines: list[Line]
    ) -> None:
        waits = [asyncio.ensure_future(line.hear(LOADING_S)) for line in lines]
        for wait in waits:
            wait.add_done_callback(_look_at)

        async def agreed() -> None:
            await _without_gone(waits)
            await self._numbered(number, seen)

        try:
            await self._apply(how, configs, agreed)
            # No await between this worker's commit and the message to the others.
            for line in lines:
                line.tell(COMMIT)
            await _done(lines)
        finally:
            for wait in waits:
                wait.cancel()
            _close(lines)

    async def _ask_all(
        self, number: int, configs: Configs, seen: str | None, how: How
    ) -> list[Line]:
        lines: list[Line] = []
        try:
            for slot in self._member.open:
                if line := await self._ask(slot, number, configs, seen, how):
                    lines.append(line)
        except BaseException:  # also cancellation: only this frame refers to the lines
            _close(lines)
            raise
        return lines

    async def _ask(
        self, slot: int, number: int, configs: Configs, seen: str | None, how: How
    ) -> Line | None:
        """Ask one worker; None if the change is made without it. Raises: Silent."""
        try:
            return await self._member.call(slot, CHANGE, number, configs, seen, how)
        except (Gone, Silent) as error:
            log.warning(Event("worker not heard", verb=CHANGE, cause=error))
            if isinstance(error, Silent) and how is not How.BY_MODEL:
                raise
            return None

    async def _numbered(self, number: int, seen: str | None) -> None:
        """Record the number of the change, in the step that commits it."""
        self._ledger.number = number
        if self._followed is not None:
            self._followed.seen = seen

    async def _follow(
        self, line: Line, number: int, configs: Configs, seen: str | None, how: How
    ) -> None:
        async def agreed() -> None:
            if how is not How.BY_MODEL:
                line.tell(PREPARED)
                await line.hear(LOADING_S)
            await self._numbered(number, seen)

        self._following += 1
        try:
            await self._apply(how, configs, agreed)
        finally:
            self._following -= 1
        line.tell(DONE)

    def _look(self) -> None:
        """Change to the newest configuration if this worker has missed it."""
        is_busy = self._following or (self._catching_up and not self._catching_up.done())
        if self._ledger.is_behind and not is_busy:
            self._catching_up = asyncio.ensure_future(self.catch_up())

    async def catch_up(self) -> None:
        """Change to the newest configuration if another worker has applied it without this one."""
        try:
            # After a change in progress, which may be about to reach this worker.
            async with self._turn.taken():
                if self._ledger.is_behind:
                    number = self._ledger.newest
                    configs, seen = self._newest()
                    log.warning(Event("change missed, made now", number=number))
                    agreed = partial(self._numbered, number, seen)
                    await self._apply(How.BY_MODEL, configs, agreed)
        except ServingError as error:
            # Tried each second, logged once for each cause.
            if str(error) != self._not_applied:
                log.error(Event("configuration not applied", cause=error))
            self._not_applied = str(error)
        else:
            self._not_applied = ""


def _close(lines: Sequence[Line]) -> None:
    for line in lines:
        line.close()


async def _done(lines: Sequence[Line]) -> None:
    """Wait until all others have committed; log their errors."""
    await asyncio.gather(*map(_committed, lines))


def _look_at(wait: "asyncio.Future[Any]") -> None:
    """Retrieve an error that came after another one, so that asyncio does not log it."""
    if not wait.cancelled():
        wait.exception()


async def _committed(line: Line) -> None:
    try:
        await line.hear(COMMIT_S)
    except ServingError as error:
        log.warning(Event("worker not heard", verb=CHANGE, cause=error))
    finally:
        line.close()


async def _without_gone(waits: Sequence["asyncio.Future[Any]"]) -> None:
    """Wait until all workers that have not died are prepared. Raises: ServingError."""
    pending: set[asyncio.Future[Any]] = set(waits)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for wait in done:
            error = wait.exception()
            if error is not None and not isinstance(error, Gone):
                raise error

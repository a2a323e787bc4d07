"""A change of the configuration in all workers: one of them asks the others, then all commit.

    asked worker                            every other one
    takes its turn
    "change", number, models       ──>      prepares: loads what is new
    prepares as well
                                   <──      prepared, or the error, which ends the change
    commits: names change hands
    commit                         ──>      commits
                                   <──      done
    gives its turn back

Where not all or nothing is asked for, there is nothing to prepare. A worker that dies is left out:
its replacement begins with what was committed last (`ledger.py`). One that is stopped or hangs is
left out as well where there is nothing to prepare, and finds out when it goes on; elsewhere it has
the change refused, since it would answer otherwise than the rest. Where the asked one is stopped or
hangs, the others undo what they have prepared, and further changes are refused with its name. Where
the asked one dies in between, the others find by the numbers that they are behind, and change by
themselves.
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
"""Seconds that others may take to load, longer than any load: the caller's deadline is shorter."""
COMMIT_S: Final = 10.0
"""Seconds for what takes milliseconds; beyond it the change is answered without that worker. Less
than a request over REST may take: it would be told that nothing has changed."""

Configs = Sequence[Any]
Agreed = Callable[[], Awaitable[None]]
"""Awaited when all is prepared, just before names change hands; it raises to undo all of it."""


class How(Enum):
    """What kind of a change it is."""

    BY_MODEL = "by model"
    """Made at once; each model stands for itself."""
    ALL_OR_NOTHING = "all or nothing"
    """Refused unless all that is new loads."""
    LABELS = "labels"
    """Labels alone are others; refused unless their versions serve."""


Apply = Callable[[How, Configs, Agreed], Awaitable[None]]
"""Changes this worker. Raises: ServingError, and nothing has changed."""


class Followed(Protocol):
    """What follows the configuration file.

    Attributes:
        seen: digest of the content that was applied last; None without a file.
    """

    seen: str | None


class Changes:
    """Lives on one event loop.

    Args of the constructor:
        member: this worker.
        ledger: numbers of changes.
        apply: changes this worker.
        check: raises ServingError for what several workers cannot serve.
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
        """Look from now on whether this worker has missed a change.

        Args:
            followed: the configuration file.
            newest: gives the models that were wanted last, and the digest of the file then.
        """
        self._followed = followed
        self._newest = newest
        self._member.watch(self._look)

    async def change(self, how: How, make: Callable[[], Configs]) -> None:
        """Change all workers to another configuration; return when each has.

        Args:
            how: see there.
            make: gives the configuration, when no other change is under way.

        Raises:
            ServingError: it cannot be applied; nothing has changed anywhere.
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
            # No await lies between the commit here and the word to the others.
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
        except BaseException:  # cancellation too: nobody else knows of the lines
            _close(lines)
            raise
        return lines

    async def _ask(
        self, slot: int, number: int, configs: Configs, seen: str | None, how: How
    ) -> Line | None:
        """Ask one worker; None where the change is made without it. Raises: Silent."""
        try:
            return await self._member.call(slot, CHANGE, number, configs, seen, how)
        except (Gone, Silent) as error:
            log.warning(Event("worker not heard", verb=CHANGE, cause=error))
            if isinstance(error, Silent) and how is not How.BY_MODEL:
                raise
            return None

    async def _numbered(self, number: int, seen: str | None) -> None:
        """Know the change by its number, in the step in which it is committed."""
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
        """Change to the newest configuration where this worker has missed it."""
        is_busy = self._following or (self._catching_up and not self._catching_up.done())
        if self._ledger.is_behind and not is_busy:
            self._catching_up = asyncio.ensure_future(self.catch_up())

    async def catch_up(self) -> None:
        """Change to the newest configuration if another worker has applied it without this one."""
        try:
            # After whoever changes now, who may be about to tell of it.
            async with self._turn.taken():
                if self._ledger.is_behind:
                    number = self._ledger.newest
                    configs, seen = self._newest()
                    log.warning(Event("change missed, made now", number=number))
                    agreed = partial(self._numbered, number, seen)
                    await self._apply(How.BY_MODEL, configs, agreed)
        except ServingError as error:
            # Each second anew: said once for each cause.
            if str(error) != self._not_applied:
                log.error(Event("configuration not applied", cause=error))
            self._not_applied = str(error)
        else:
            self._not_applied = ""


def _close(lines: Sequence[Line]) -> None:
    for line in lines:
        line.close()


async def _done(lines: Sequence[Line]) -> None:
    """Wait until all others have committed; what they say against it is logged."""
    await asyncio.gather(*map(_committed, lines))


def _look_at(wait: "asyncio.Future[Any]") -> None:
    """Have asyncio not complain of an error that another one came before."""
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
    """Wait until all have prepared, but for those that have died. Raises: ServingError."""
    pending: set[asyncio.Future[Any]] = set(waits)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for wait in done:
            error = wait.exception()
            if error is not None and not isinstance(error, Gone):
                raise error

"""One worker among several: the parts that `app/application.py` needs to present them as one.

To clients the workers are one server. Each worker polls all repositories on its own and publishes
the states of its versions on its board. A change of the configuration, or a requested poll, goes to
all workers (`server/workers`). A server with one worker builds none of this.
"""

import asyncio
import logging
import pickle
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from ie_serving.app.workers import Follow, WorkerGroup, Workers
from ie_serving.config.files.followed_config import AppliedConfig
from ie_serving.config.schema.contradictions import check_models
from ie_serving.config.settings import ServerSettings
from ie_serving.core.runtime.handover import HandoverStore
from ie_serving.models.admin.reload_requests import PollModel, ReloadRequests
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.fleet.repository import ModelRepository
from ie_serving.models.manager import Edit, ModelManager, edited
from ie_serving.models.peers import KnownStatuses, ListedPeers, gained_or_lost
from ie_serving.server.transport.connection_limit import ConnectionLimit
from ie_serving.server.workers.changes import Agreed, ChangeKind, ConfigChanges
from ie_serving.server.workers.crew import Counters, CounterStore, Ledger
from ie_serving.server.workers.member import Member, WorkerPhase
from ie_serving.server.workers.questions import Questions
from ie_serving.server.workers.spread import Spread
from ie_serving.telemetry.log import logs
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.metrics.summed_page import counted, summed

POLL: Final = "poll"
VERSIONS: Final = "versions"
PAGE: Final = "page"
LEVEL: Final = "level"

POLL_S: Final = 600.0
"""Seconds to wait for the poll of another worker; the client that asked gives up sooner."""
RELOAD_S: Final = 3600.0
"""Seconds to wait for the reload of another worker, which loads models."""
LEVEL_S: Final = 5.0
"""Seconds to wait for another worker's change of log level, which takes microseconds."""
PAGE_S: Final = 5.0
"""Seconds to wait for the metrics of another worker; Prometheus gives up after 10."""
TOGETHER_S: Final = 30.0
"""Seconds for which a started worker keeps its ports closed while other workers still load: the
first to open them would get all clients that connect meanwhile. After that it opens them alone."""


class SeveralWorkers(Workers):
    """Several workers. Lives on one event loop; methods of `Workers` are described there."""

    def __init__(self, ledger: HandoverStore, server: ServerSettings) -> None:
        assert isinstance(ledger, Ledger)  # the arbiter makes it where it starts several workers
        self.member = member = Member(ledger.crew, ledger.slot)
        self.ledger = ledger
        self.server = server
        self.others = ListedPeers(
            partial(_board_statuses, member), member.changed, member.show_changes
        )

    def leads(self) -> bool:
        """See `Workers`."""
        return self.member.is_first

    def over(
        self, models: ModelManager, metrics: Metrics, limit: ConnectionLimit, follow: Follow
    ) -> "SeveralWorkerGroup":
        """See `Workers`."""
        return SeveralWorkerGroup(self, models, metrics, limit, follow)


class SeveralWorkerGroup(WorkerGroup):
    """One of several workers, over its models. Methods of `WorkerGroup` are described there."""

    def __init__(
        self,
        workers: SeveralWorkers,
        models: ModelManager,
        metrics: Metrics,
        limit: ConnectionLimit,
        follow: Follow,
    ) -> None:
        self._member = member = workers.member
        self._ledger = workers.ledger
        self._server = workers.server
        self._models = models
        self.sharing = self._spread = Spread(member, lambda: limit.count)
        limit.on_count = self._spread.tell
        self._questions = Questions(member)
        self._questions.answer(PAGE, self._worker_page)
        self._changes = ConfigChanges(member, self._ledger, self._apply_here, self._newest)
        self._known: Sequence[KnownStatuses] = ()
        self._level = 0
        self._own_level: Callable[[str], None] = logs.change
        self._counted = CounterStore(member.crew, member.slot)
        self._telling = asyncio.Lock()
        self._own_page = metrics.own_page
        metrics.united = self._page
        super().__init__(self, self, follow)

    # -- the configuration -------------------------------------------------------------------

    async def begin(self) -> None:
        """See `WorkerGroup`."""
        self._follow_level()
        self._member.begin(self._models.served.own_statuses)
        self._member.watch(self._look)
        self._member.watch(self._follow_level)
        self._member.watch(self._show_fault)
        self._look()
        await self.config.start()
        self._spread.expect()
        await self._changes.begin()
        if not self.config.is_replacement:
            await self._together()

    async def _together(self) -> None:
        size = self._member.crew.size - 1
        try:
            await self._member.until(lambda: len(self._member.open) == size, TOGETHER_S)
        except asyncio.TimeoutError:
            return

    def _newest(self) -> "_WantedConfig":
        applied: AppliedConfig = pickle.loads(self._ledger.newest_copy())
        return _WantedConfig(applied.desired, applied.seen, applied.repositories)

    def _wanted_config(self, configs: Sequence[ModelConfig]) -> "_WantedConfig":
        check_models(self._server, configs)
        return _WantedConfig(configs, self.config.seen, self.config.repositories)

    def leads(self) -> bool:
        """Return whether this worker is the one that watches the configuration file."""
        return self._member.is_first

    def config_fault(self) -> str:
        """See `WorkerGroup`."""
        return self.config.fault if self.leads() else self._member.first.config_fault

    def _show_fault(self) -> None:
        if self.config.fault != self._member.own.config_fault:
            self._member.show(config_fault=self.config.fault)

    async def apply(self, wanted: Sequence[ModelConfig] | Edit, *, all_or_nothing: bool) -> None:
        """Change all workers to another configuration; see `ModelManager.apply`."""
        how = ChangeKind.ALL_OR_NOTHING if all_or_nothing else ChangeKind.BY_MODEL
        await self._changes.change(
            how, lambda: self._wanted_config(edited(wanted, self._models.desired))
        )

    async def relabel(self, edit: Edit) -> None:
        """Change labels in all workers; see `ModelManager.relabel`."""
        await self._changes.change(
            ChangeKind.LABELS, lambda: self._wanted_config(edit(self._models.desired))
        )

    async def _apply_here(self, how: ChangeKind, wanted: "_WantedConfig", agreed: Agreed) -> None:
        async def commit() -> None:
            await agreed()
            self.config.seen = wanted.seen
            self.config.repositories = wanted.repositories

        if how is ChangeKind.LABELS:
            await self._models.relabel(lambda _: wanted.configs, agreed=commit)
            return
        strictly = how is ChangeKind.ALL_OR_NOTHING
        await self._models.apply(wanted.configs, all_or_nothing=strictly, agreed=commit)

    def _look(self) -> None:
        """Read the other workers' boards; let models switch to versions that became ready there."""
        before = self._known
        self._known = _board_statuses(self._member)
        # The objects are identical while no board has changed: this runs at each message, for
        # example for each connection, and comparing a thousand models takes milliseconds.
        if [*map(id, before)] == [*map(id, self._known)]:
            return
        names = gained_or_lost(before, self._known)
        for name, stream in self._models.streams() if names else ():
            if name in names:
                stream.others_changed()

    def end(self) -> None:
        """See `WorkerGroup`."""
        self._member.end()
        self._changes.close()

    # -- work that all workers do ------------------------------------------------------------

    def poll_all(self, own: PollModel) -> PollModel:
        """See `WorkerGroup`."""
        self._questions.answer(POLL, own)

        async def poll(model: str) -> None:
            await self._questions.ask_all(POLL, model, limit_s=POLL_S)

        return poll

    def reload_all(self, own: ReloadRequests) -> Callable[[], Awaitable[bool]]:
        """See `WorkerGroup`."""
        self._questions.answer(VERSIONS, own.versions)

        async def reload() -> bool:
            is_new = await own.file()  # which changes all workers
            return any(await self._questions.ask_all(VERSIONS, limit_s=RELOAD_S)) or is_new

        return reload

    def level_all(self, own: Callable[[str], None]) -> Callable[[str], Awaitable[None]]:
        """See `WorkerGroup`."""
        self._own_level = own

        async def follow() -> None:
            self._follow_level()

        self._questions.answer(LEVEL, follow)

        async def change(level: str) -> None:
            self._member.crew.log_level[0] = getattr(logging, level)
            await self._questions.ask_all(LEVEL, limit_s=LEVEL_S, of_silent=False)

        return change

    def _follow_level(self) -> None:
        """Set the log level that was requested last, also one from before this worker started.

        Checked each second: a worker that was suspended or slow may have missed the request.
        """
        level = self._member.crew.log_level[0]
        if level != self._level:
            self._level = level
            self._own_level(logging.getLevelName(level))

    def ready(self, own: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """See `WorkerGroup`."""
        member = self._member

        async def ready() -> None:
            await own()
            member.show(phase=WorkerPhase.READY)
            await member.until(
                lambda: all(b.phase >= WorkerPhase.READY for b in member.open.values())
            )

        return ready

    # -- metrics -----------------------------------------------------------------------------

    async def _page(self) -> bytes:
        workers = 1 + len(self._member.open)
        found = await self._questions.ask_all(PAGE, limit_s=PAGE_S, of_silent=False)
        whole = len(found) >= workers
        return await asyncio.to_thread(self._united, found, whole=whole)

    def _united(self, found: Sequence["_WorkerPage"], *, whole: bool) -> bytes:
        gone = self._counted.of_the_gone({each.slot: each.before for each in found})
        return summed([each.page for each in found], gone, whole=whole)

    async def _worker_page(self) -> "_WorkerPage":
        # One at a time: the counters of an older page must not be stored after those of a newer.
        async with self._telling:
            page = bytes(await self._own_page())
            self._counted.store(await asyncio.to_thread(counted, page))
        return _WorkerPage(self._member.slot, page, self._counted.before)


def _board_statuses(member: Member) -> list[KnownStatuses]:
    member.read_boards()
    return [board.statuses for board in member.open.values()]


class _WantedConfig(NamedTuple):
    """A configuration of all workers, with the file's digest and directories of models."""

    configs: Sequence[ModelConfig]
    seen: str | None
    repositories: tuple[ModelRepository, ...]


class _WorkerPage(NamedTuple):
    """The metrics of one worker; `before` is that of `CounterStore`."""

    slot: int
    page: bytes
    before: Counters

"""Decides which models that are loaded on demand are in memory. Lives on one event loop.

A request for a model that is not there awaits `Residency.load`: one load for all who wait. Before
it the models whose last use is longest ago are unloaded, until the load fits the budget
(`policy.py`). What a model holds is measured at a load that no other load overlaps and that
imports no library; before that its files are the estimate, and as much again is spare: engines keep
weights in an order of their own. After each load the resident bytes of the process correct the sum,
and further models are unloaded if the estimate was too low.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Final

from ie_serving.core.runtime.heaps import HEAPS, resident_bytes
from ie_serving.core.runtime.waits import SingleFlight, Tasks
from ie_serving.core.values.errors import BudgetFull, NotLoaded, ServingError
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import Signature
from ie_serving.engines.base import CompiledModel
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.residency.policy import (
    BusyAction,
    Evict,
    Refuse,
    Resident,
    RoomStep,
    Trim,
    idle_too_long,
    make_room,
    measured_size,
)
from ie_serving.models.stream_rules import DormantModel, LoadOnDemand
from ie_serving.models.version.handle import Servable
from ie_serving.models.version.loader import MakeServable
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.metrics.version_metrics import ResidencyMetrics, Usage

log = logging.getLogger(__name__)

LOOK_S: Final = 0.02
"""Seconds between two looks at models in use that hold the room: most requests take less."""
LONGEST_UNLOAD_S: Final = 10.0
"""Seconds that other loads wait for an unloaded model to be out of memory: its code may hang in
`close`, or its load may be overdue."""
IDLE_LOOKS: Final = 10
"""Looks for idle models in the time that one may be idle: it is unloaded a tenth late at most."""


@dataclass(frozen=True, kw_only=True)
class ResidencyRules:
    """The settings of all models that are loaded on demand.

    Attributes:
        budget: bytes of the process that a load must not exceed; 0: no limit.
        idle_s: seconds without a request after which a model is unloaded; 0: never.
        wait_s: seconds for which a request waits for the load; 0: not at all.
        is_on_demand: tells which models are loaded on demand.
        used: names the models that graphs use, which stay as long as these do.
        clock: seconds that only grow.
    """

    budget: int = 0
    idle_s: float = 0.0
    wait_s: float = 0.0
    is_on_demand: Callable[[ModelConfig], bool] = lambda config: True
    used: Callable[[], Collection[str]] = tuple
    clock: Callable[[], float] = time.monotonic


@dataclass(slots=True, eq=False)
class _ResidentEntry:
    """A model in memory or on its way there, its uses, and the bytes it is believed to hold.

    Attributes:
        spare: bytes that a model which is being loaded may hold beyond its size.
    """

    stream: DormantModel
    usage: Usage
    size: int
    spare: int


class Residency:
    """See the module.

    Args of the constructor:
        rules: the settings.
        resident: gives the resident bytes of this process.

    Attributes:
        metrics: the counters.
    """

    def __init__(self, rules: ResidencyRules, resident: Callable[[], int] = resident_bytes) -> None:
        self._rules = rules
        self._resident = resident
        self.metrics = ResidencyMetrics(rules.budget, resident)
        self._entries: dict[str, _ResidentEntry] = {}
        self._loads: SingleFlight[DormantModel, None] = SingleFlight()
        self._tasks = Tasks()
        self._sizes: dict[str, tuple[int, int]] = {}
        """Bytes of a model's files, and the bytes it took in memory with them; 0: not measured."""
        self._pinned: Collection[str] = frozenset()
        self._by_use: list[_ResidentEntry] = []
        """The entries, in the order of the last sort, so that the next one takes little time."""
        self._used = 0
        """Resident bytes at the last measurement, with what was loaded and unloaded since."""
        self._base = 0
        """Resident bytes before the first load: what is left of the budget, models may hold."""
        self._room = asyncio.Lock()  # first come, first served
        self._waiting = 0
        """Loads that wait for busy models; each adds LOOK_S to the pause."""
        self._sweep: asyncio.Task[None] | None = None

    @property
    def in_memory(self) -> list[str]:
        """Name the models in memory, and those on their way into it."""
        return [*self._entries]

    def on_demand(self, config: ModelConfig) -> LoadOnDemand | None:
        """Give what brings a model into memory; None for one that is always loaded."""
        return self.load if self._rules.is_on_demand(config) else None

    def keep(self, names: Collection[str]) -> None:
        """Forget the models that are not configured any more."""
        self.metrics.keep(names)
        for name in self._sizes.keys() - set(names):
            del self._sizes[name]
        for name in self._entries.keys() - set(names):
            self._tasks.begin(self._leave(name, self._entries[name]))

    def follow(self, served: Iterable[ModelConfig]) -> None:
        """Pin the models that the configurations in use pin, and no others."""
        self._pinned = {config.name for config in served if config.pinned}

    def load_note(self, config: ModelConfig, note: Callable[[], None]) -> Callable[[], None]:
        """Return `note` for a model that is always loaded, else a function that does nothing.

        To note what all models serve takes milliseconds, and loads on demand come all the time.
        """
        return _nothing if self._rules.is_on_demand(config) else note

    def servable(self, config: ModelConfig) -> MakeServable:
        """Give what makes the model's servables: such as count their uses, where these matter."""
        if not self._rules.is_on_demand(config):
            return Servable
        return partial(TrackedServable, self.metrics.of(config.name), self._rules.clock)

    async def load(self, stream: DormantModel) -> None:
        """Bring a model into memory, or wait for the load that does.

        Raises:
            NotLoaded: it takes longer than `wait_s`; the load goes on.
            BudgetFull: the model does not fit the budget.
        """
        self.metrics.waits[stream.name] += 1
        load = self._loads.begin(stream, partial(self._load, stream))
        wait_s = self._rules.wait_s
        if not wait_s:
            raise NotLoaded(
                f"model {stream.name} is being loaded for this request: ask again",
                partial(self.load, stream),
            )
        try:
            # Shielded: a client that leaves must not end the load for the others.
            await asyncio.wait_for(asyncio.shield(load), wait_s)
        except asyncio.TimeoutError:
            raise NotLoaded(
                f"model {stream.name} was not loaded within {wait_s:g} s, and the load goes on:"
                " ask again later",
                partial(self.load, stream),
            ) from None

    def set_ready(self, ready: bool) -> None:
        """Warn at the start of a budget that is used up already: every load would be refused."""
        budget, held = self._rules.budget, self._resident()
        if ready and budget and held >= budget:
            told = {"budget_bytes": budget, "resident_bytes": held}
            log.warning(Event("no room in the budget for models on demand", **told))

    def close(self) -> None:
        """Cancel what runs, as the process ends."""
        self._loads.close()
        self._tasks.cancel()

    # -- loads -------------------------------------------------------------------------------

    async def _load(self, stream: DormantModel) -> None:
        try:
            await self._bring(stream)
        except ServingError:
            raise
        except Exception as error:  # those who asked may all have left
            log.error(Event("load on demand failed by a defect", model=stream.name, cause=error))
            raise

    async def _bring(self, stream: DormantModel) -> None:
        if stream.is_admitted:  # a version that the policy wants anew is on its way
            await stream.first_load()
            return
        await stream.look_anew()
        await self._until_there_is_room(stream)
        # How many are fetched and compiled at a time, their pools of threads decide.
        known = len(sys.modules)
        stream.admit()
        await stream.first_load()
        self._measure(stream, has_imported=len(sys.modules) > known)
        # A load that makes room sees what is used now; this one must not wait for it, since it may
        # wait for this one to end.
        if self._used > self._rules.budget > 0 and not self._room.locked():
            async with self._room:
                await self._shrink()
        if self._rules.idle_s and (self._sweep is None or self._sweep.done()):
            self._sweep = self._tasks.begin(self._unload_idle())

    async def _until_there_is_room(self, stream: DormantModel) -> None:
        """Unload others until the load fits, and note its bytes as used."""
        name, began = stream.name, self._rules.clock()
        stored = stream.stored_bytes
        measured_with, size = self._sizes.get(name, (0, 0))
        is_known = size and measured_with == stored
        needed, spare = (size, 0) if is_known else (stored, stored)
        try:
            while self._rules.budget:
                async with self._room:  # one at a time, and in turn
                    if await self._make_room(name, needed, spare, began):
                        break
                self._waiting += 1
                try:
                    await asyncio.sleep(LOOK_S * self._waiting)
                finally:
                    self._waiting -= 1
                # Unloaded models may have left memory late.
                self._used = min(self._used, self._resident() + self._coming())
        except BudgetFull:
            self.metrics.refused[name] += 1
            raise
        if name in self._entries:  # of a stream that another configuration has ended
            before = self._forget(name)
            self._used -= before.size + before.spare
        usage = self.metrics.of(name)
        entry = self._entries[name] = _ResidentEntry(stream, usage, needed, spare)
        self._by_use.append(entry)
        self._used += needed + spare
        usage.last = self._rules.clock()

    async def _make_room(self, name: str, needed: int, spare: int, began: float) -> bool:
        """Unload others until the load fits; False: it has to wait longer, and others may go on.

        Raises: BudgetFull.
        """
        if not self._used:
            self._used = self._base = self._resident()
        budget = self._rules.budget
        trimmed = budget - self._base
        while step := self._step(needed, spare, self._rules.clock() - began, trimmed):
            if isinstance(step, Evict):
                await self._evict(step.name, "room")
            elif isinstance(step, Trim):
                await asyncio.to_thread(HEAPS.give_back)
                self._used, trimmed = self._resident() + self._coming(), 0
            elif isinstance(step, Refuse):
                raise BudgetFull(
                    f"model {name} takes {needed} bytes, and of the budget of {budget} bytes there"
                    f" are at most {step.most} for it",
                    Hint(": raise {server.model_memory_budget_bytes}"),
                )
            elif step is BusyAction.GIVE_UP:
                raise BudgetFull(
                    f"model {name} takes {needed} bytes, and models in use hold the budget of"
                    f" {budget} bytes: ask again later",
                    Hint(", or raise {server.model_memory_budget_bytes}"),
                )
            elif step is BusyAction.STEP_ASIDE:
                return False
            else:
                await asyncio.sleep(LOOK_S)
        return True

    def _step(
        self, needed: int, spare: int = 0, waited_s: float = 0.0, trimmed: int = 0
    ) -> RoomStep | None:
        budget = self._rules.budget
        staying = sum(self._entries[name].size for name in self._staying())
        free, limit = budget - self._used, budget - self._base - staying
        return make_room(self._residents(), free, needed, limit, spare, waited_s, trimmed)

    async def _shrink(self) -> None:
        """Unload idle models while the process exceeds the budget: a load took more than meant."""
        while isinstance(step := self._step(0), Evict):
            await self._evict(step.name, "room")

    def _measure(self, stream: DormantModel, *, has_imported: bool) -> None:
        """Correct the size of the model just loaded, and the bytes used in all.

        Args:
            stream: the model.
            has_imported: whether modules were imported meanwhile. The first load of an engine also
                takes the memory of its libraries, which stays: the model's next load is measured.
        """
        entry, budget = self._entries[stream.name], self._rules.budget
        entry.spare = 0
        held = self._resident() if budget else 0
        found = [each.memory for each in stream.available.values()]
        stored, size = stream.stored_bytes, 0
        if found and None not in found and (not has_imported or stream.name in self._sizes):
            most = budget - self._base if held <= budget > 0 else None
            size = entry.size = measured_size(sum(filter(None, found)), stored, most)
        if size or stream.name not in self._sizes:
            self._sizes[stream.name] = stored, size
        if budget:
            self._used = held + self._coming(entry)

    def _coming(self, but: _ResidentEntry | None = None) -> int:
        """Sum the sizes of the models that are being loaded, except one."""
        entries = (self._entries.get(stream.name) for stream in self._loads.under_way)
        loading = (each for each in entries if each and each.stream in self._loads.under_way)
        return sum(each.size + each.spare for each in loading if each is not but)

    def _staying(self) -> Collection[str]:
        """Name the models in memory that only their removal unloads."""
        return self._entries.keys() & {*self._pinned, *self._rules.used()}

    def _residents(self) -> Iterator[Resident]:
        """Give the models in memory, from the one whose last use is longest ago on."""
        # Run before each load, for hundreds of models in memory: so this counts microseconds.
        self._by_use.sort(key=_LAST_USE)
        staying = self._staying()
        for each in self._by_use:
            stream = each.stream
            is_held = any(version.holders > 0 for version in stream.available.values())
            in_use = is_held or stream in self._loads.under_way
            yield Resident(stream.name, each.size, each.usage.last, in_use, stream.name in staying)

    # -- unloads -----------------------------------------------------------------------------

    async def _evict(self, name: str, why: str) -> None:
        entry = self._forget(name)
        self.metrics.unloads[name, why] += 1
        log.info(Event("model unloaded until it is asked for", model=name, cause=why))
        entry.stream.dismiss()
        try:
            await asyncio.wait_for(_out(entry.stream), LONGEST_UNLOAD_S)
        except asyncio.TimeoutError:  # further models can be unloaded; its memory still counts
            log.warning(Event("model not out of memory yet", model=name, waited_s=LONGEST_UNLOAD_S))
            return
        self._used -= entry.size
        if self._rules.budget:  # it may have held more than was believed
            self._used = min(self._used, self._resident() + self._coming())

    async def _leave(self, name: str, entry: _ResidentEntry) -> None:
        """Forget a model that is not configured any more, once it is out of memory."""
        if load := self._loads.under_way.get(entry.stream):
            await asyncio.wait([load])
        while not entry.stream.is_out:
            await entry.stream.changed()
        if self._entries.get(name) is entry:
            self._used -= self._forget(name).size

    def _forget(self, name: str) -> _ResidentEntry:
        entry = self._entries.pop(name)
        self._by_use.remove(entry)
        return entry

    async def _unload_idle(self) -> None:
        """Unload models that no request has used for a while, as long as there are any."""
        idle_s, clock = self._rules.idle_s, self._rules.clock
        while self._entries:
            await asyncio.sleep(idle_s / IDLE_LOOKS)
            for name in idle_too_long(self._residents(), clock() - idle_s):
                async with self._room:
                    # Again: a request may have come while this waited for other unloads.
                    if name in idle_too_long(self._residents(), clock() - idle_s):
                        await self._evict(name, "idle")


async def _out(stream: DormantModel) -> None:
    """Wait until a model is out of memory, or a request has wanted it back meanwhile."""
    while not (stream.is_out or stream.is_admitted):
        await stream.changed()


_LAST_USE: Final = attrgetter("usage.last")


def _nothing() -> None:
    pass


class TrackedServable(Servable):
    """A servable that notes its uses, for models that are loaded on demand.

    Requests count a servable's holders inline (`models/version/handle.py`). Here that count is a
    property, so that models which are always loaded pay nothing for it.

    Args of the constructor:
        usage: counts of its model.
        clock: seconds that only grow; the others are those of `Servable`.
    """

    __slots__ = ("_clock", "_holders", "_usage")

    def __init__(
        self,
        usage: Usage,
        clock: Callable[[], float],
        name: str,
        version: int,
        compiled: CompiledModel,
        signatures: Mapping[str, Signature],
    ) -> None:
        self._usage = usage
        self._clock = clock
        self._holders = 0
        super().__init__(name, version, compiled, signatures)

    @property
    def holders(self) -> int:
        """How many requests use it now."""
        return self._holders

    @holders.setter
    def holders(self, holders: int) -> None:
        if holders > self._holders:
            self._usage.count += 1
            self._usage.last = self._clock()
        self._holders = holders

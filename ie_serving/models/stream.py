"""The stream of one model: all its versions over time, driven by the listings of its storage.

Each poll gets the listed versions from the source and the wanted ones from the version policy.
`_advance` then carries out, one at a time, the steps that the transition policy names, and is
called again when the work of a step ends. The `VersionControl` of a version carries out the step.
All state lives on the event loop; only listing, fetching, compiling and freeing run in threads.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial

from ie_serving.core.runtime.waits import Tasks
from ie_serving.core.values.errors import Missing, StorageError
from ie_serving.core.values.tensors import Signature
from ie_serving.core.values.versions import NOT_LOADED, State, VersionStatus, remarked
from ie_serving.models.listing.notices import WatchedDirectory
from ie_serving.models.listing.polled_model import List, ListingDue
from ie_serving.models.listing.schedule import Polls
from ie_serving.models.repository.relisting import Comparisons, ListingTrouble
from ie_serving.models.repository.source import Candidate, Listing, VersionSource
from ie_serving.models.repository.version_policy import VersionPolicy
from ie_serving.models.repository.wanted_versions import WantedVersions
from ie_serving.models.stream_rules import (
    LOCAL,
    LOOK_ANEW_S,
    POLLS_FOR_REST,
    POLLS_UNTIL_GONE,
    StreamRules,
)
from ie_serving.models.traffic.labels import assigned
from ie_serving.models.traffic.policy import TrafficRule
from ie_serving.models.traffic.split import SplitTraffic
from ie_serving.models.version.control import VersionControl, VersionWork
from ie_serving.models.version.handle import Servable
from ie_serving.models.version.loader import Loader
from ie_serving.models.version.renewals import Renewals
from ie_serving.models.version.transition_policy import (
    Action,
    Load,
    Snapshot,
    preserve_availability,
)
from ie_serving.models.version.versions import Versions
from ie_serving.telemetry.log import logs

log = logging.getLogger(__name__)


class ModelStream:
    """The versions of one model.

    Args of the constructor, beside those that are attributes:
        polls: the schedule of listings.
        rules: rules of following it; of them the poll interval alone may change.

    Attributes:
        name: model name.
        store: name of the store that this lies in, for the schedule.
        loader: returns what loads its versions, and makes it when it is first called.
        labels: version labels that requests may use.
        available: AVAILABLE versions by number.
        default: the highest of them; None when there is none.
        unsplit_default: answers requests that name no version: `default`, unless their traffic is
            split.
        split: divides these requests; None where they are not divided.
        rollbacks: number of times that a version has lost its share of requests, by version.
        answered: number and signatures of `default` when the model was last unloaded; None before.
        has_served: whether any version has been AVAILABLE.
        is_admitted: whether its wanted versions are to be in memory; see `models/residency`.
        is_retired: whether the model is not configured any more.
    """

    def __init__(
        self,
        name: str,
        source: VersionSource,
        loader: Callable[[], Loader],
        polls: Polls,
        *,
        policy: VersionPolicy,
        labels: Mapping[str, int],
        rules: StreamRules,
        store: str,
        traffic: TrafficRule | None = None,
    ) -> None:
        self.name = name
        self.store = store
        self._source = source
        self._rules = rules
        self._wanted = WantedVersions(policy, labels, self._held_versions)
        self.rollbacks: Counter[int] = Counter()
        self.split = self._split(traffic)
        self.labels: Mapping[str, int] = {}
        self.available: Mapping[int, Servable] = {}
        self.default: Servable | None = None
        self.answered: tuple[int, Mapping[str, Signature]] | None = None
        self.unsplit_default: Servable | None = None
        self.has_served = False
        self.is_admitted = rules.on_demand is None
        self.loader = cache(loader)
        self._schedule = polls
        self._trouble = ListingTrouble(name, source.url, chance=rules.chance, clock=rules.clock)
        self._version_rules = rules.of_versions(name, source.url, self._advance)
        self._renewals = Renewals(lambda version: self._control(version.candidate))
        self._versions = Versions()
        self.is_retired = False
        self._nothing_to_do = False
        self._prepare_to_list()
        self._polls = 0
        self._comparisons = Comparisons()
        self._listed = self._may_be_stale = False
        self._missed = 0
        self._said_missing: Collection[int] = ()
        self._changed = asyncio.Event()
        self._tasks = Tasks()
        self._assign_labels()

    # -- queries -----------------------------------------------------------------------------

    @property
    def trouble(self) -> StorageError | None:
        """Why the last listing failed; None when it did not."""
        return self._trouble.error

    @property
    def lacking(self) -> str:
        """Why there is no version to load; empty where there is one, or nothing is listed yet."""
        return str(self._trouble.error or self._wanted.listing.fault)

    @property
    def why_none(self) -> str:
        """Why no version serves; empty where one is on its way."""
        if failures := self.failures():
            return f"version {max(failures)}: {failures[max(failures)]}"
        return self.lacking

    @property
    def unfit_traffic(self) -> str:
        """Which versions and labels split traffic names that are not there; empty for none."""
        if self.split is None:
            return ""
        unassigned = self.split.traffic.of_unassigned(self._wanted.labels)
        return self.split.unfit(self._missing_shares(), unassigned)

    @property
    def serves_aspired(self) -> bool:
        """True if an aspired version serves; for a dormant model, if it has one.

        Stand-ins do not count.
        """
        if not self.is_admitted:
            return bool(self._wanted.aspired)
        return not self._wanted.aspired.isdisjoint(self.available)

    @property
    def reachable_versions(self) -> Collection[int]:
        """The versions that answer requests: those in memory, and those that a request loads."""
        if self.loads_for(None):
            return self._wanted.kept | self.available.keys()
        return self.available.keys()

    def loads_for(self, version: int | None) -> bool:
        """Tell whether a request for `version`, None for any, has to await a load on demand."""
        if self._rules.on_demand is None or (self.is_admitted and self.is_settled):
            return False
        kept, is_moving = self._wanted.kept, self._wanted.listing.moving
        return bool(kept) or is_moving if version is None else version in kept

    async def load(self) -> None:
        """Bring a model that is loaded on demand into memory, see `errors.NotLoaded`."""
        assert self._rules.on_demand is not None  # nothing else offers a load to requests
        await self._rules.on_demand(self)

    def admit(self) -> None:
        """Load the wanted versions; of a model that is loaded on demand."""
        self.is_admitted = self._may_be_stale = True
        if self._wanted.listing.moving and not self._wanted.kept:
            self._polls = 0
        self.aspire()

    async def look_anew(self) -> None:
        """List before a load: while no version is in memory, no poll compares its files.

        A local file that has changed fails its load, and is listed then.
        """
        if self.store == LOCAL or self.trouble or not self._rules.poll_wait_s:
            return
        self._comparisons.ask()
        with suppress(StorageError, asyncio.TimeoutError):
            await asyncio.wait_for(self.poll(), LOOK_ANEW_S)

    def dismiss(self) -> None:
        """Unload every version; a later `admit` loads again."""
        if self.default:
            self.answered = (self.default.version, self.default.signatures)
        self.is_admitted = False
        self.aspire()

    @property
    def is_renewing(self) -> bool:
        """Whether other files of a version that serves are loaded to take its place."""
        return not self._renewals.is_over

    @property
    def is_on_demand(self) -> bool:
        """Whether a request brings it into memory."""
        return self._rules.on_demand is not None

    @property
    def is_out(self) -> bool:
        """Whether none of its versions is in memory or on its way."""
        return self._versions.are_out

    @property
    def stored_bytes(self) -> int:
        """The bytes of the files of the wanted versions."""
        candidates = self._wanted.listing.candidates
        kept = self._wanted.kept & candidates.keys()
        return sum(entry.size for number in kept for entry in candidates[number].entries)

    @property
    def expected_default(self) -> int | None:
        """The version that answers requests, or will be the first to; None where there is none."""
        if self._wanted.recalled is not None:
            return self._wanted.recalled
        return self.default.version if self.default else None

    @property
    def has_come_back(self) -> bool:
        """Whether the expected version serves, and those below it serve or have failed to load.

        Requests may name the lower ones, by number or label. A version below the expected one, as
        the default, would be a step back.
        """
        number = self.default.version if self.default else None
        if number is None or number != self.expected_default:
            return False
        return all(self._versions.is_tried(n) for n in self._wanted.kept if n <= number)

    @property
    def unnamed_version(self) -> int | None:
        """The version for requests that name none; of split traffic that with the largest share."""
        if self.split:
            return self.split.ranges.main if self.split.ranges else None
        return self.default.version if self.default else None

    def recall(self, version: int | None) -> None:
        """Load that version first: it answered until the worker died that this one replaces."""
        self._wanted.recalled = version

    async def start(self) -> None:
        """List once and begin to load and to poll.

        Raises:
            StorageError: the base path cannot be listed. Polling has begun all the same, so a
                caller may choose to wait.
        """
        # Polling begins also when the first listing failed: with --allow_unavailable_models the
        # server starts without this model, and takes it up when the store answers.
        try:
            await self.poll()
        finally:
            if not self.is_retired:
                self._schedule.follow(self)

    async def first_load(self) -> None:
        """Wait until every wanted version is loaded or has failed once."""
        while not self.is_settled:
            await self.changed()

    async def settled(self) -> None:
        """As `first_load`; wait also for changed files that are to replace those that serve."""
        while not (self.is_settled and self._renewals.are_settled):
            await self.changed()

    async def changed(self) -> None:
        """Wait for the next change of any version."""
        # Changes before this call do not count: the caller has just looked at the state, and
        # nothing moves between that look and this line.
        self._changed.clear()
        await self._changed.wait()

    def adopt(
        self, policy: VersionPolicy, labels: Mapping[str, int], traffic: TrafficRule | None = None
    ) -> None:
        """Take another version policy, other labels and other traffic, at once."""
        before = (self._wanted.policy, self._wanted.labels, self.split and self.split.traffic)
        if (policy, labels, traffic) == before:
            return  # a thousand models come here when one directory of a model has changed
        if traffic != before[-1]:
            self.split = self._split(traffic)
        self._wanted.policy, self._wanted.labels = policy, labels
        # Labels are assigned before the policy acts: a label that moves to a version which the
        # policy drops in the same step is assigned all the same.
        self._assign_labels()
        self.aspire()

    def poll_every(self, seconds: float) -> None:
        """Poll at this interval from now on; 0 polls only on request."""
        self._rules = replace(self._rules, poll_wait_s=seconds)
        self._schedule.reschedule(self)

    def retry_now(self) -> None:
        """Retry failed versions at the next poll, without waiting for their back-off."""
        for version in (*self._versions.values(), *self._renewals.under_way):
            version.retry_now()

    def poll_now(self) -> None:
        """Poll now instead of at the next interval, and compare the files of serving versions."""
        self._comparisons.ask()
        self._schedule.now(self)

    def statuses(self) -> list[VersionStatus]:
        """Status of every known version for clients, highest first."""
        anywhere = self._rules.on_demand is not None
        return self._rules.others.statuses(self.name, self.own_statuses(), anywhere=anywhere)

    def own_statuses(self) -> list[VersionStatus]:
        """Status of every version of this worker alone."""
        errors = self._renewals.failures
        found = [remarked(s, errors.get(s.version, "")) for s in self._versions.statuses()]
        found = [remarked(each, self._rules.remark(each.version)) for each in found]
        if self.split:
            found = [remarked(each, self.split.remark(each.version)) for each in found]
        if self.is_admitted:
            return found
        dormant = State.START
        return [replace(s, remark=NOT_LOADED) if s.state is dormant else s for s in found]

    def others_changed(self) -> None:
        """Take note that other workers have other versions AVAILABLE."""
        self._advance()

    def failures(self) -> dict[int, str]:
        """Wanted versions that failed to load, with the cause."""
        return self._versions.failures()

    def all_failures(self) -> dict[int, str]:
        """As `failures`, with versions that serve whose changed files failed to load."""
        return {**self._renewals.failures, **self.failures()}

    async def retire(self) -> None:
        """Want no version any more, and wait until all are gone."""
        # A listing may be under way in its thread; its result must not bring versions back.
        self.is_retired = True
        self._schedule.leave(self)
        self._wanted.listing = Listing({}, moving=False)
        self.aspire()
        while not (self._renewals.is_over and self._versions.are_gone):
            await self.changed()

    def leave(self) -> tuple[Sequence[VersionControl], Collection["asyncio.Task[None]"]]:
        """Stop, as the process ends; give the versions, to be left, and work that is ending."""
        self.is_retired = True
        self._schedule.leave(self)
        versions, works = tuple(self._versions.values()), tuple(self._tasks)
        for version in versions:
            version.give_up()
        # A load that has just fetched its files would otherwise use threads that are gone.
        for task in works:
            task.cancel()
        return versions, works

    # -- listing -----------------------------------------------------------------------------

    def next_poll_s(self) -> float | None:
        """Seconds until the next poll without `poll_now`; None: only `poll_now` polls."""
        return self._rules.pause_s(
            self._trouble, self._versions.retries_at(), is_moving=self._wanted.listing.moving
        )

    async def poll(self, *, compares: bool = False) -> None:
        """List once and act on it.

        Args:
            compares: list the files of the versions that serve as well.

        Raises:
            StorageError: nothing has changed.
        """
        if compares:
            self._comparisons.ask()
        await self._schedule.once(self)

    def to_list(self) -> List:
        """See `PolledModel`. Now and then the files of the versions that serve are listed again."""
        self._source.expect()
        if not self._comparisons.is_next:
            self._comparisons.polls_left -= 1
            return self._to_list
        self._comparisons.begin_anew()
        return self._to_compare

    @property
    def is_quiet(self) -> bool:
        """See `PolledModel`."""
        no_trouble = self._trouble.error is None and not self._comparisons.is_asked
        return no_trouble and self._nothing_to_do

    def watched(self) -> Collection[WatchedDirectory]:
        """See `PolledModel`."""
        is_local = self.store == LOCAL and self._source.is_whole
        return (WatchedDirectory(self._source.url.removeprefix("file://")),) if is_local else ()

    def announce(self, after_s: float) -> bool:
        """See `PolledModel`."""
        self._comparisons.skip(int(after_s / (self._rules.poll_wait_s or after_s)) - 1)
        return self._source.expect(is_idle=True)

    def look(self) -> Listing | None:
        """See `PolledModel`."""
        # Few calls, since a thousand models come here at each poll.
        if not self._nothing_to_do:
            raise ListingDue
        is_comparison = self._comparisons.counted() and self.is_admitted
        listing = (self._to_compare if is_comparison else self._to_list)()
        return None if listing is self._wanted.listing else listing

    def _prepare_to_list(self) -> None:
        # Files of known versions are not listed again, except of those that failed: they may have
        # been mended, and a fingerprint that changed is tried at once.
        choice, failed = self._wanted.choice(self._versions.failed()), {*self.failures()}
        self._to_list = partial(self._source.poll, choice, again=failed)
        compared = self.available if self.is_admitted else self._wanted.kept
        self._to_compare: List = partial(self._to_list, again={*failed, *compared})

    def listed(self, listing: Listing) -> None:
        """See `PolledModel`."""
        self._polls += 1
        if self.is_retired:
            return
        is_news = listing is not self._wanted.listing or not self._nothing_to_do
        if listing.fault and listing.fault != self._wanted.listing.fault:
            facts = {"model": self.name, "base_path": self._source.url}
            log.warning(logs.Event("model has no version", **facts, cause=listing.fault))
        self._wanted.listing = listing
        self._listed = True
        self._missed = 0
        self._note_recovery()
        if is_news:
            self.aspire()

    def not_listed(self, error: StorageError) -> None:
        """See `PolledModel`: nothing changes."""
        if isinstance(error, Missing):
            self._comparisons.ask()  # where it is back, it may be another one
            # A directory that is gone most likely takes its model with it, as its repository finds
            # out in the same round, or in the next: only then it is trouble.
            if self._rules.is_found and self._missed < POLLS_UNTIL_GONE:
                self._missed += 1
                return
        self._polls += 1
        self._trouble.failed(error, self._rules.store_backoff(), is_new=not self._listed)
        self._rules.on_trouble()
        self._changed.set()

    def _note_recovery(self) -> None:
        if not self._trouble.ended():
            return
        self._changed.set()
        # Loads that failed while the store was away most likely failed of that.
        self.retry_now()

    def aspire(self) -> None:
        """Choose the wanted versions again, as after a change of the held versions."""
        for candidate in self._wanted.choose(self.available):
            self._versions.notice(candidate, self._control)
        self._advance()

    def _control(self, candidate: Candidate) -> VersionControl:
        return VersionControl(candidate, self.loader, self._version_rules)

    # -- planning ----------------------------------------------------------------------------

    def _advance(self) -> None:
        if self._listed and self._wanted.ends_recall(self._versions.is_tried):
            self.aspire()
            return
        # Each command moves its version at once, so the next snapshot shows it and the loop ends;
        # the slow work goes on in tasks.
        while action := preserve_availability(self._snapshots()):
            work = self._carry_out(action)
            if work:
                self._spawn(work)
        if self._rules.reload_changed:
            for work in self._renewals.advance(self._versions, self._wanted.kept):
                self._spawn(work)
        self._publish()
        self._versions.forget_ended()
        self._prepare_to_list()
        is_unlisted = bool(self._wanted.unlisted(self._versions.failed()))
        self._nothing_to_do = not is_unlisted and self._needs_no_poll()
        if is_unlisted:
            self._schedule.now(self)
        self._changed.set()

    def _snapshots(self) -> list[Snapshot]:
        own = self._versions.snapshots(self._to_serve())
        if not self.is_admitted:
            # Versions that wait for an admission are shown, and are no work.
            kept = self._wanted.kept
            own = [each for each in own if not (each.state is State.START and each.version in kept)]
        return self._rules.others.snapshots(self.name, own)

    def _to_serve(self) -> frozenset[int]:
        """Give the versions that are wanted, or stand in while no aspired one can serve."""
        if not self.is_admitted:
            return frozenset()
        candidates = self._wanted.listing.candidates
        stand_ins = self._wanted.stand_ins(self._versions.failed())
        for number in stand_ins & candidates.keys():
            self._versions.notice(candidates[number], self._control)
        return self._wanted.kept | stand_ins

    def _carry_out(self, action: Action) -> VersionWork | None:
        number = action.version
        if isinstance(action, Load):
            return self._versions[number].load()
        facts = {"base_path": self._source.url, "cause": self._why_given_up(number)}
        log.info(logs.Event("version given up", model=self.name, version=number, **facts))
        return self._versions[number].drop()

    def _why_given_up(self, number: int) -> str:
        if self.is_retired:
            return "its model was removed or replaced"
        if not self.is_admitted:
            return "its model is unloaded until it is asked for"
        return self._wanted.why_not(number, self._versions.serving())

    def _spawn(self, work: VersionWork) -> None:
        task = self._tasks.begin(self._follow(work))
        task.add_done_callback(lambda _: work.close())  # it may end before it has begun

    async def _follow(self, work: VersionWork) -> None:
        await work
        # A version that an admission or a dismissal has ended begins a new life.
        self.aspire() if self._rules.on_demand else self._advance()
        # Its files were not compared while it was out of memory, and the request waits still.
        if self._may_be_stale and self.failures():
            self._may_be_stale, self._polls = False, 0
            self._schedule.now(self)
        # The next poll may be a retry, whose time is known only now.
        if not (self._rules.poll_wait_s and self._nothing_to_do):
            self._schedule.reschedule(self)

    def _publish(self) -> None:
        """Show requests the serving versions: no await lies between a change of stage and this."""
        # Rebuilt rather than updated: it runs only when a version moves, and cannot differ from the
        # stages.
        self.available = serving = self._versions.serving()
        # Each worker answers with its own versions if no version serves on every worker.
        shared = self._rules.others.shared(self.name, serving.keys())
        self.default = serving[max(shared or serving)] if serving else None
        self.has_served = self.has_served or bool(serving)
        self._rules.on_served(serving.values())
        self._assign_labels()
        self.unsplit_default = None if self.split else self.default
        if self.split:
            self.split.resolve(self.labels, serving.keys())
            self._say_missing()
        self._rules.others.changed()

    def _say_missing(self) -> None:
        missing = self._missing_shares()
        if not self._wanted.listing.moving and missing.keys() != self._said_missing:
            self._said_missing = missing.keys()
            if missing:
                facts = {"versions": ",".join(map(str, missing)), "base_path": self._source.url}
                log.warning(
                    logs.Event(
                        "traffic names versions that are not there", model=self.name, **facts
                    )
                )

    def _missing_shares(self) -> Mapping[int, int]:
        if self.split is None or not self._listed or self._wanted.listing.moving:
            return {}  # a version whose files still move is on its way
        return self.split.traffic.of_missing(self._wanted.labels, self._wanted.listing.offered)

    def _split(self, traffic: TrafficRule | None) -> SplitTraffic | None:
        if traffic is None:
            return None
        return SplitTraffic(self.name, traffic, self.rollbacks, self._rules.clock)

    def _held_versions(self) -> Collection[int]:
        held = self._rules.held()
        return {*held, *self.split.traffic.numbered} if self.split else held

    def _assign_labels(self) -> None:
        before = self.labels
        wait = self._rules.labels_wait and self._rules.on_demand is None
        self.labels = assigned(self._wanted.labels, before, self.available, wait=wait)
        for label, version in self.labels.items():
            if before.get(label) != version:
                facts = {"label": label, "version": version, "base_path": self._source.url}
                log.info(logs.Event("label assigned", model=self.name, **facts))

    def _needs_no_poll(self) -> bool:
        """Tell whether the same listing, found again, cannot cause a step."""
        if not self.is_admitted:
            return not self._wanted.listing.moving and self._versions.are_out
        # A version that loads needs no poll: of a thousand models most wait for a thread.
        if self._wanted.listing.moving or not self._renewals.is_over:
            return False
        return self._versions.are_at_rest(self._wanted.kept)

    @property
    def is_settled(self) -> bool:
        """Tell whether the first load is over: nothing on its way, nothing still being written."""
        if self.is_retired:  # nothing is wanted any more; it may never have been listed
            return True
        if not self._listed or not self._polls:
            return False
        if self._wanted.listing.moving and self._polls < POLLS_FOR_REST:
            return False
        if self._wanted.unlisted(self._versions.failed()) and self.trouble is None:
            return False
        return not self.is_admitted or self._versions.are_settled

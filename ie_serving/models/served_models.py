"""The models that are served, and successors that load in order to replace them.

Requests get a model's handle, status or labelled version here. The entries change in one step on
the event loop (`ModelManager`), so a request sees the configuration before a change or the one
after it. Texts of errors are those of TensorFlow Serving, which its clients compare.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ie_serving.core.runtime.waits import Tasks
from ie_serving.core.values.access import Principal
from ie_serving.core.values.errors import NotFound, NotLoaded, advised
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.versions import NOT_APPLIED, State, VersionStatus, remarked
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.stream import ModelStream
from ie_serving.models.traffic.labels import version_of
from ie_serving.models.traffic.split import VersionNotChosen
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.log.logs import mask

MOST_GONE = 1000
"""Removed models that GetModelStatus knows; beyond it those that were removed first go."""
NAMES_SHOWN = 20
"""Names that an error lists. A typo shows among them; beyond it a text gets too long to log."""


@dataclass(frozen=True)
class ServedModel:
    """One model: its configuration, and its stream of versions.

    Attributes:
        not_applied: reason why newer settings cannot be used; empty where there are none.
    """

    config: ModelConfig
    stream: ModelStream
    not_applied: str = ""

    @property
    def unapplied(self) -> str:
        """Which settings are not in force, and why: newer ones, or shares of traffic."""
        return "; ".join(filter(None, (self.not_applied, self.stream.unfit_traffic)))

    def statuses(self) -> list[VersionStatus]:
        """Give the status of every version for clients, highest first."""
        why = f"{NOT_APPLIED}{mask(self.not_applied)}"
        remark = why if self.not_applied else ""
        return [remarked(each, remark) for each in self.stream.statuses()]


class ServedModels:
    """The models of this process by name. Lives on one event loop.

    Attributes:
        entries: one for each configured model. Replaced as a whole, by the manager alone.
        gone: the statuses of each removed model, as TensorFlow Serving keeps them.
    """

    def __init__(self) -> None:
        self.entries: Mapping[str, ServedModel] = {}
        self.gone: dict[str, Callable[[], list[VersionStatus]]] = {}

    def handle(self, spec: ModelSpec) -> Servable:
        """Find the servable that `spec` means; enter it to hold it for one request.

        Raises:
            NotFound: no such model, or that version is not AVAILABLE.
            UnknownLabel: the label is not assigned.
            VersionNotChosen: it means no version, and the model's traffic is split; see `main`.
        """
        served = self.entries.get(spec.name)
        if spec.label is not None:
            version: int | None = version_of(served.stream.labels if served else {}, spec.label)
        else:
            version = spec.version
        if served is None:
            raise self._no_such_model(spec.name, version)
        stream = served.stream
        if version == 0:  # tested here, not in `_meant`: a call less for every other request
            version = _meant(stream, version)
        found = stream.unsplit_default if version is None else stream.available.get(version)
        if found is None:
            if version is None and stream.split and stream.split.ranges:
                raise VersionNotChosen(stream.split)
            if stream.loads_for(version):
                raise NotLoaded(
                    f"model {stream.name} is not loaded: a request for an inference loads it",
                    stream.load,
                )
            raise _no_such_version(stream, version)
        return found

    def main(self, spec: ModelSpec) -> Servable:
        """As `handle`; of split traffic the version with the largest share."""
        try:
            return self.handle(spec)
        except VersionNotChosen as not_chosen:
            return self.handle(ModelSpec(spec.name, not_chosen.main))

    def statuses(self, name: str, version: int | None = None) -> list[VersionStatus]:
        """Status of one version, or of all, highest first.

        Raises:
            NotFound: the model, or the version, was never seen.
        """
        served = self.entries.get(name)
        known = served.statuses() if served else self.gone.get(name, list)()
        # A client finds the status of the version that would answer it.
        version = _meant(served.stream, version) if served else version
        if version is not None:
            known = [status for status in known if status.version == version]
            if not known:
                raise NotFound(f"Could not find version {version} of model {name}")
        if not known:
            raise NotFound(advised(_no_versions(name), self._why_none(served)))
        return known

    def remember(self, name: str, statuses: Callable[[], list[VersionStatus]]) -> None:
        """Keep the statuses of a removed model."""
        self.gone[name] = statuses
        if len(self.gone) > MOST_GONE:
            del self.gone[next(iter(self.gone))]

    def all_statuses(self) -> dict[str, list[VersionStatus]]:
        """Status of all versions of every model, by its name; none of one that has none yet."""
        return {name: self.entries[name].stream.statuses() for name in self.names()}

    def own_statuses(self) -> dict[str, list[VersionStatus]]:
        """Statuses of the versions of this worker alone, by model name."""
        return {name: served.stream.own_statuses() for name, served in self.entries.items()}

    def is_ready(self, spec: ModelSpec) -> bool:
        """Tell whether a version is AVAILABLE, or loaded on demand, for `spec`.

        Raises:
            NotFound: no such model is configured.
            UnknownLabel: the label is not assigned.
        """
        stream = self.entry(spec.name).stream
        version = spec.version if spec.label is None else version_of(stream.labels, spec.label)
        found = stream.reachable_versions
        return bool(found) if version is None else version in found

    def entry(self, name: str) -> ServedModel:
        """Give a model's entry.

        Raises:
            NotFound: no such model is configured.
        """
        served = self.entries.get(name)
        if served is None:
            raise NotFound(advised(_no_versions(name), self._unknown()))
        return served

    def resolve_label(self, name: str, label: str) -> int:
        """Give the version that `label` of model `name` means.

        Raises:
            UnknownLabel: the label is not assigned.
        """
        served = self.entries.get(name)
        return version_of(served.stream.labels if served else {}, label)

    def states(self) -> Iterator[tuple[str, int, str]]:
        """Yield model name, number and state of every version that is not at its end.

        Models may come and go between two of them.
        """
        for name, served in list(self.entries.items()):
            for status in served.stream.statuses():
                if status.state is not State.END:
                    yield name, status.version, status.state.name

    def traffic(self) -> list[tuple[str, Mapping[int, float], Mapping[int, int]]]:
        """Give name, shares from 0 to 1 and rollbacks by version of each model that splits it."""
        return [
            (name, served.stream.split.shares, dict(served.stream.rollbacks))
            for name, served in self.entries.items()
            if served.stream.split
        ]

    def available(self) -> list[Servable]:
        """Give every AVAILABLE version."""
        return [
            servable
            for served in self.entries.values()
            for servable in served.stream.available.values()
        ]

    def unbind(self) -> None:
        """Drop the objects that front ends have bound to AVAILABLE versions; they bind again."""
        for servable in self.available():
            servable.bound.clear()

    def precisions(self) -> list[tuple[str, str]]:
        """Give model name and precision of every signature that an AVAILABLE version computes."""
        return [
            (servable.name, signature.precision)
            for servable in self.available()
            for signature in servable.compiled.signatures.values()
            if signature.precision
        ]

    def compared(self) -> list[tuple[str, str]]:
        """Give model name and result of every verified signature, see `Evidence`."""
        return [
            (servable.name, signature.evidence.result)
            for servable in self.available()
            for signature in servable.compiled.signatures.values()
            if signature.evidence
        ]

    def names(self) -> list[str]:
        """Names of all configured models, sorted."""
        return sorted(self.entries)

    def _no_such_model(self, name: str, version: int | None) -> NotFound:
        return NotFound(advised(_not_found(name, version), self._unknown()))

    def _why_none(self, served: ServedModel | None) -> str:
        if served is None:
            return self._unknown()
        if served.stream.lacking:
            return f": {served.stream.lacking}"
        return f": no version directory under {served.config.base_path} is complete"

    def _unknown(self) -> str:
        names = self.names()
        more = len(names) - NAMES_SHOWN
        rest = f", and {more} more" if more > 0 else ""
        return f": no such model; served models: {', '.join(names[:NAMES_SHOWN]) or 'none'}{rest}"


class PreparedModels:
    """The models that graphs can use: those that serve, and those that a change is loading.

    A graph that one call of HandleReloadConfigRequest adds together with its models is compiled and
    tried before any of them has its name. Lives on one event loop.

    Args of the constructor:
        served: the models that requests can use.
        prepared: the models that an all-or-nothing change is loading, else empty.
    """

    def __init__(self, served: ServedModels, prepared: ServedModels) -> None:
        self._served = served
        self._prepared = prepared

    def handle(self, spec: ModelSpec) -> Servable:
        """See `ServedModels`; a serving model takes precedence over one still loading."""
        is_new = spec.name not in self._served.entries and spec.name in self._prepared.entries
        return (self._prepared if is_new else self._served).main(spec)

    def find(self, name: str) -> ServedModel | None:
        """Give the entry of a model, if there is one."""
        return self._served.entries.get(name) or self._prepared.entries.get(name)

    def names(self) -> list[str]:
        """Names of all models that graphs can use, sorted."""
        return sorted({*self._served.entries, *self._prepared.entries})


def _meant(stream: ModelStream, version: int | None) -> int | None:
    """Give the version that is meant: 0 is the default, unless there is a version 0.

    Clients of 2020 and `ovmsclient` always set the field, with 0 for the default.
    """
    if version == 0 and all(status.version for status in stream.statuses()):
        return None
    return version


def _not_found(name: str, version: int | None) -> str:
    wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
    return f"Servable not found for request: {wanted}"


def _no_versions(name: str) -> str:
    return f"Could not find any versions of model {name}"


def _no_such_version(stream: ModelStream, version: int | None) -> NotFound:
    if version is None:
        named = " that its traffic names" if stream.split else ""
        why = f": no version of it{named} is AVAILABLE; its status says why"
    else:
        available = ", ".join(map(str, sorted(stream.available))) or "none"
        why = f": this version is not AVAILABLE; available versions: {available}"
    return NotFound(advised(_not_found(stream.name, version), why))


class AllowedEntries(Mapping[str, ServedModel]):
    """The entries of the models open to a caller; looking up any other model raises Forbidden."""

    def __init__(self, every: ServedModels, caller: Principal) -> None:
        self._every = every
        self._caller = caller

    def __getitem__(self, name: str) -> ServedModel:
        self._caller.check_model(name)
        return self._every.entries[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._every.entries if self._caller.may_ask(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class AllowedModels(ServedModels):
    """Answers as `ServedModels`, and raises Forbidden for models the caller has no access to.

    Every kind of request, in every protocol, looks its model up here. The check is in the entries,
    so that no method of this class and no layer in front of it can go round the check.

    Args of the constructor:
        every: all served models.
        caller: has access to some of them.
    """

    def __init__(self, every: ServedModels, caller: Principal) -> None:
        self._allowed = AllowedEntries(every, caller)
        self.gone = every.gone

    @property
    def entries(self) -> Mapping[str, ServedModel]:  # type: ignore[override]
        """Give the entries of the present configuration, see `ServedModels`."""
        return self._allowed


class Successors:
    """Lives on one event loop.

    Args of the constructor:
        take_over: called with each successor in the step in which it serves.
        on_failed: called with a successor that cannot serve yet and the cause, at each change.
        tasks: tasks of the owner, who awaits them at its end.
    """

    def __init__(
        self,
        take_over: Callable[[ServedModel], None],
        on_failed: Callable[[ServedModel, str], None],
        tasks: Tasks,
    ) -> None:
        self._tasks = tasks
        self._take_over = take_over
        self._on_failed = on_failed
        self._waiting: dict[str, tuple[ServedModel, asyncio.Task[None]]] = {}

    @property
    def entries(self) -> Mapping[str, ServedModel]:
        """Those that do not serve yet, by name."""
        return {name: successor for name, (successor, _) in self._waiting.items()}

    def add(self, successor: ServedModel) -> None:
        """Let a model take over once it serves; none of its name may wait already."""
        task = self._tasks.begin(self._wait(successor))
        self._waiting[successor.config.name] = successor, task

    def give_up(self) -> Mapping[str, ServedModel]:
        """Let none of them take over any more, and give them by name."""
        given_up = self.entries
        for _, task in self._waiting.values():
            task.cancel()
        self._waiting = {}
        return given_up

    async def _wait(self, successor: ServedModel) -> None:
        while not successor.stream.reachable_versions:
            if cause := successor.stream.why_none:
                self._on_failed(successor, cause)
            await successor.stream.changed()
        # Both in one step, without an await: a request in between would find neither or both.
        del self._waiting[successor.config.name]
        self._take_over(successor)

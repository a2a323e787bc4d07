"""What holds over any history of several models and of the workers that serve them.

A history is a row of steps: uploads, stores that go away, configurations by file and by RPC, loads
that hang, and workers that die, also while they start. A worker's successor gets what
`FollowedConfig` hands over, as in a server.
"""

import asyncio
import gc
import json
import tempfile
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event as Flag
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from ie_serving.config.files import followed_config
from ie_serving.config.files.followed_config import FollowedConfig
from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.core.values.errors import ServingError
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.listing.schedule import Polls
from ie_serving.models.manager import ModelManager
from ie_serving.models.repository.source import VersionSource
from ie_serving.models.repository.version_policy import All, Latest, Specific, VersionPolicy
from ie_serving.models.stream import ModelStream
from ie_serving.models.stream_rules import StreamRules
from ie_serving.models.version.handle import Servable
from ie_serving.models.version.loader import Loader
from ie_serving.storage.base import Entry
from tests.stand_in_engine import StandInEngine, StandInModel
from tests.unit.models.stand_ins import NEVER, AtOnce, Clock, Shelf, settle

NAMES = ("a", "b")
PLACES = ("a", "b", "c")
GOOD, BROKEN, HANGS = "good", "broken", "hangs"
VERSIONS, HANGING = (1, 2, 3), (4, 5)
"""What is uploaded as one of the latter is never loaded to its end, and never was."""

POLL_S = 3600.0
"""Longer than any history: repositories are polled when a step says so."""

Desired = Mapping[str, tuple[str, VersionPolicy, Mapping[str, int]]]
"""Place, policy and labels of each model by its name."""


class Place:
    """Where a worker leaves how far it had come."""

    def __init__(self) -> None:
        self._data = b""

    def write(self, data: bytes, /) -> None:
        self._data = data

    def read(self) -> bytes:
        return self._data


class Places:
    """Both of them, as one worker reaches them: not after its death."""

    def __init__(self, before: "Places | None" = None) -> None:
        self.configuration, self.answering = Place(), Place()
        if before:
            self.configuration.write(before.configuration.read())
            self.answering.write(before.answering.read())


class Repository(Shelf):
    """A shelf whose broken versions do not compile."""

    @contextmanager
    def copy(
        self, directory: str, entries: tuple[Entry, ...], given_up: Flag = NEVER
    ) -> Iterator[Path]:
        broken = self.versions.get(int(directory)) == BROKEN
        with super().copy(directory, entries, given_up) as path:
            yield path / directory if broken else path

    def forget(self) -> None:
        """The worker that held copies is dead."""
        self.copies = []


class Server:
    """Workers that follow each other, and the repositories that outlive them."""

    def __init__(self, directory: Path) -> None:
        asyncio.get_running_loop().set_default_executor(AtOnce(1))
        self.clock = Clock()
        self.stores = {place: Repository(directory) for place in PLACES}
        self.file = directory / "models.json"
        self.compiled: list[weakref.ref[StandInModel]] = []
        self._end = asyncio.Event()
        self._own = asyncio.all_tasks()
        self._places = Places()
        for name in NAMES:
            self.stores[name].versions[1] = GOOD
        self.file.write_text(written({name: (name, Latest(), {}) for name in NAMES}))

    def _make_worker(self) -> None:
        self._places = Places(self._places)
        self.engine = StandInEngine()
        self.compiled.clear()
        self.hanging = 0
        for store in self.stores.values():
            store.forget()
        self._polls = Polls(lambda store: AtOnce(1))
        self.manager = ModelManager(
            self._open_stream,
            labels_for_unavailable=False,
            allow_unavailable_models=True,
            require_available=False,
            on_applied=self._leave,
        )
        server = ServerSettings(config_poll_wait_s=0)
        settings = Settings(server=server, models=(), config_path=self.file)
        self._config = FollowedConfig(settings, self.manager, self._places)
        self._seen = self.file.read_text()

    def _leave(self) -> None:
        self._config.leave()

    async def begin(self) -> None:
        """Start a worker; the one before, if any, has died without a word."""
        self._make_worker()
        starting = asyncio.create_task(self._config.start())
        await self._rest()
        if not starting.done():  # it waits while nothing at all serves
            self.hanging = 0
            self._end.set()
            await starting
            await self._rest()

    async def begin_and_die(self, turns: int) -> None:
        """Start a worker that dies after so many turns of the event loop."""
        self._make_worker()
        start = self._config.start()
        starting = asyncio.create_task(start)
        for _ in range(turns):
            await asyncio.sleep(0)
        await self._die()
        assert starting.done()

    async def _die(self) -> None:
        """End everything that the worker does, which leaves nothing from here on."""
        self._places = Places(self._places)
        for task in asyncio.all_tasks() - self._own:
            task.cancel()
        await settle()

    def _open_stream(self, config: ModelConfig) -> ModelStream:
        store = self.stores[place_of(config)]
        threads, warm_up = AtOnce(1), partial(self._warm_up, store)
        loader = Loader(config.name, store, self.engine, config.engine, warm_up, threads, threads)
        return ModelStream(
            config.name,
            VersionSource(store, self.engine, rest_s=1.0, clock=self.clock),
            lambda: loader,
            self._polls,
            store="file",
            policy=config.version_policy,
            labels=config.version_labels,
            rules=StreamRules(
                labels_wait=True,
                poll_wait_s=POLL_S,
                drain_timeout_s=POLL_S,
                on_load=lambda version, succeeded: self._config.note_load(),
                clock=self.clock,
                chance=lambda: 1.0,
            ),
        )

    async def _warm_up(self, store: Repository, servable: Servable, directory: Path) -> None:
        if servable.version in HANGING and not self._end.is_set():
            self.hanging += 1
            await self._end.wait()

    # -- what can happen ---------------------------------------------------------------------

    async def uploaded(self, place: str, upload: tuple[int, str]) -> None:
        version, content = upload
        await self._happens_to(place, lambda store: store.versions.update({version: content}))

    async def removed(self, place: str, version: int) -> None:
        await self._happens_to(place, lambda store: store.versions.pop(version, None))

    async def goes_away(self, place: str) -> None:
        await self._happens_to(place, lambda store: setattr(store, "away", True))

    async def comes_back(self, place: str) -> None:
        await self._happens_to(place, lambda store: setattr(store, "away", False))

    async def configured(self, desired: Desired) -> None:
        """By RPC; a client whose answer takes too long goes away."""
        configs = [
            ModelConfig(
                name=name,
                base_path=str(self.file.parent / place),
                version_policy=policy,
                version_labels=labels,
            )
            for name, (place, policy, labels) in desired.items()
        ]
        before = self.manager.serving(), self.manager.answering(), self.desired()
        applying = asyncio.create_task(self.manager.apply(configs, all_or_nothing=True))
        await self._settle()  # what is prepared serves where no client sees it
        applying.cancel()
        (refusal,) = await asyncio.gather(applying, return_exceptions=True)
        await self._rest()
        if refusal is not None:
            assert isinstance(refusal, ServingError | asyncio.CancelledError)
            assert (self.manager.serving(), self.manager.answering(), self.desired()) == before, (
                "half applied"
            )
        else:
            assert self.desired() == desired

    async def edited(self, desired: Desired | None) -> None:
        """By the file; None breaks it."""
        serving = {config.name: place_of(config) for config in self.manager.serving()}
        answered = {name for name, servable in self.answers().items() if servable}
        before = self.desired()
        self.file.write_text(written(desired))
        try:
            is_new = await self._config.reload_if_changed()
        except ServingError:
            assert self.desired() == before
            return
        await self._rest()
        assert self.desired() == (desired if is_new else before)
        self._seen = self.file.read_text()
        for name, (place, _, _) in self.desired().items():
            if name in answered and serving[name] != place:
                assert self.answers()[name], "a predecessor was not kept until its successor serves"

    async def time_passes(self) -> None:
        self.clock.now += 60.0
        for name in list(self.manager.served.entries):
            await self._polled(name)

    async def worker_dies(self, starts: list[int], edit: Desired | None = None) -> None:
        """What was AVAILABLE and is still wanted is AVAILABLE again.

        Args:
            starts: turns of the event loop after which each of the next workers dies as well.
            edit: what the file is changed to meanwhile; None leaves it.
        """
        entries = self.manager.served.entries
        before = self.manager.answering()
        served, wanted = {name: entries[name].config for name in before}, self.desired()
        if edit is not None:
            self.file.write_text(written(edit))
            wanted = edit if self.file.read_text() != self._seen else wanted
        elif self.file.read_text() not in (self._seen, written(None)):
            wanted = {}  # an edit that was refused, and is tried anew
        await self._die()
        for turns in starts:
            await self.begin_and_die(turns)
        await self.begin()
        assert not wanted or self.desired() == wanted, "the configuration is another one"
        for name in before.keys() & self.desired().keys():
            self._check_is_back(name, before[name], served[name])

    def _check_is_back(self, name: str, version: int, served: ModelConfig) -> None:
        place, policy, _ = self.desired()[name]
        store = self.stores[place_of(served)]
        policy = policy if place == place_of(served) else served.version_policy
        is_there = store.versions.get(version) == GOOD and not store.away
        if is_there and policy.aspired(store.versions):
            after = self.answers()[name]
            assert after, f"{name} served version {version}, and now nothing"
            is_moved = place_of(self.manager.served.entries[name].config) != place_of(served)
            may_be_lower = isinstance(policy, Specific) or is_moved
            assert may_be_lower or after.version >= version

    # -- what holds --------------------------------------------------------------------------

    def desired(self) -> Desired:
        """Give what was applied last."""
        return {
            config.name: (place_of(config), config.version_policy, dict(config.version_labels))
            for config in self.manager.desired
        }

    def answers(self) -> dict[str, Servable | None]:
        """Give what answers for each model that is configured."""
        entries = self.manager.served.entries
        return {name: served.stream.default for name, served in entries.items()}

    async def _happens_to(self, place: str, change: Callable[[Repository], object]) -> None:
        """Change one repository, and look at it; no other model may notice."""
        others = {
            name: self.manager.served.entries[name].stream
            for name in self.manager.served.entries
            if not self._reads(name, place)
        }
        before = {name: (s.statuses(), dict(s.available)) for name, s in others.items()}
        change(self.stores[place])
        for name in list(self.manager.served.entries):
            if self._reads(name, place):
                await self._polled(name)
        after = {name: (s.statuses(), dict(s.available)) for name, s in others.items()}
        assert after == before, "a model changed for the sake of another one's repository"

    def _reads(self, name: str, place: str) -> bool:
        """Tell whether a model is served from `place`, or is to move there."""
        desired = [place_of(each) for each in self.manager.desired if each.name == name]
        return place in (place_of(self.manager.served.entries[name].config), *desired)

    async def _polled(self, name: str) -> None:
        with suppress(ServingError):
            await self.manager.poll(name)
        await self._rest()

    async def _settle(self) -> None:
        for _ in range(4):
            await settle()

    async def _rest(self) -> None:
        await self._settle()
        self.compiled += map(weakref.ref, self.engine.models)
        self.engine.models.clear()
        self._check_memory()

    def _check_memory(self) -> None:
        """What is in memory serves, or is being loaded."""
        serving = sum(len(stream.available) for _, stream in self.manager.streams())
        held = sum(ref() is not None for ref in self.compiled)
        assert held == serving + self.hanging, "memory that nobody serves from"

    async def end(self) -> None:
        self._end.set()
        self.hanging = 0
        await self.manager.apply([], all_or_nothing=False)
        await self._rest()
        assert [ref() for ref in self.compiled if ref()] == [], "memory that nobody serves from"
        assert [store.copies for store in self.stores.values() if store.copies] == []


def place_of(config: ModelConfig) -> str:
    return Path(config.base_path).name


def written(desired: Desired | None) -> str:
    """Give the content of a file; None: of a broken one."""
    entries = [
        {
            "name": name,
            "base_path": place,
            "model_version_policy": policy_written(policy),
            "version_labels": labels,
        }
        for name, (place, policy, labels) in (desired or {}).items()
    ]
    every = {"model_config_list": [{"config": entry} for entry in entries]}
    return json.dumps(every) if desired is not None else "{"


def policy_written(policy: VersionPolicy) -> dict[str, object]:
    if isinstance(policy, Latest):
        return {"latest": {"num_versions": policy.num_versions}}
    if isinstance(policy, Specific):
        return {"specific": {"versions": sorted(policy.versions)}}
    return {"all": {}}


Step = Callable[[Server], Awaitable[None]]


def step(
    happens: Callable[..., Awaitable[None]], **arguments: st.SearchStrategy[object]
) -> st.SearchStrategy[Step]:
    return st.builds(partial, st.just(happens), **arguments)


def configurations() -> st.SearchStrategy[Desired]:
    latest = st.builds(Latest, st.integers(1, 2))
    some = st.frozensets(st.sampled_from(VERSIONS + HANGING), min_size=1, max_size=2)
    policies = st.one_of(latest, latest, st.just(All()), st.builds(Specific, some))
    labels = st.dictionaries(st.just("stable"), st.sampled_from(VERSIONS), max_size=1)
    model = st.tuples(st.sampled_from(PLACES), policies, labels)
    return st.fixed_dictionaries({"a": model}, optional={"b": model})


def histories() -> st.SearchStrategy[list[Step]]:
    places, versions = st.sampled_from(PLACES), st.sampled_from(VERSIONS + HANGING)
    deaths = st.lists(st.integers(0, 60), max_size=2)
    upload = st.one_of(
        st.tuples(st.sampled_from(VERSIONS), st.sampled_from([GOOD, BROKEN])),
        st.tuples(st.sampled_from(HANGING), st.just(HANGS)),
    )
    one = st.one_of(
        step(Server.uploaded, place=places, upload=upload),
        step(Server.configured, desired=configurations()),
        step(Server.edited, desired=st.none() | configurations()),
        step(Server.removed, place=places, version=versions),
        step(Server.goes_away, place=places),
        step(Server.comes_back, place=places),
        step(Server.time_passes),
        step(Server.worker_dies, starts=deaths),
        step(Server.worker_dies, starts=deaths, edit=st.none() | configurations()),
    )
    return st.lists(one, max_size=20)


@mock.patch.object(followed_config, "PAUSE_S", 0.0)
@given(histories())
def test_a_served_model_serves_neighbours_are_left_alone_and_memory_returns(
    history: list[Step],
) -> None:
    async def played(directory: Path) -> None:
        server = Server(directory)
        await server.begin()
        for step in history:
            await step(server)
        await server.end()

    gc.disable()
    try:
        with tempfile.TemporaryDirectory() as directory:
            asyncio.run(asyncio.wait_for(played(Path(directory)), 60))
    finally:
        gc.enable()

"""What holds over any history of several models and of the workers that serve them.

A history is a row of steps: uploads, stores that go away, configurations by file and by RPC, and
workers that die. A worker's successor gets what `FollowedConfig` hands over, as in a server.
"""

import asyncio
import gc
import tempfile
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event as Flag

from hypothesis import given, settings
from hypothesis import strategies as st

from ie_serving.config.files.followed import FollowedConfig
from ie_serving.config.settings import ModelConfig, ServerSettings, Settings
from ie_serving.core.errors import ServingError
from ie_serving.engines.testing import StandInEngine, StandInModel
from ie_serving.models.manager import ModelManager
from ie_serving.models.polls import Polls
from ie_serving.models.repository.source import Source
from ie_serving.models.repository.version_policy import All, Latest, Specific, VersionPolicy
from ie_serving.models.rules import StreamRules
from ie_serving.models.stream import ModelStream
from ie_serving.models.version.handle import Servable
from ie_serving.models.version.loader import Loader
from ie_serving.storage.base import Entry
from tests.unit.models.stand_ins import NEVER, AtOnce, Clock, Shelf, settle

NAMES = ("a", "b")
PLACES = ("a", "b", "c")
GOOD, BROKEN = "good", "broken"
POLL_S = 3600.0
"""Longer than any history: repositories are polled when a step says so."""

Desired = Mapping[str, tuple[str, VersionPolicy, Mapping[str, int]]]
"""Place, policy and labels of each model by its name."""


class Place:
    """Where a worker leaves how far it had come."""

    def __init__(self) -> None:
        self._data = b""

    def write(self, data: bytes) -> None:
        self._data = data

    def read(self) -> bytes:
        return self._data


class Places:
    """Both of them."""

    def __init__(self) -> None:
        self.configuration, self.answering = Place(), Place()


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
        self.compiled: list[weakref.ref[StandInModel]] = []
        self._places = Places()

    async def begin(self) -> None:
        """Start a worker; the one before, if any, has died without a word."""
        self.engine = StandInEngine()
        self.compiled.clear()
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
        unchanging = Settings(server=ServerSettings(), models=())
        self._config = FollowedConfig(unchanging, self.manager, self._places)
        await self._config.start()
        await self._rest()

    def _leave(self) -> None:
        self._config.leave()

    def _open_stream(self, config: ModelConfig) -> ModelStream:
        store = self.stores[config.base_path]
        threads = AtOnce(1)
        loader = Loader(
            config.name, store, self.engine, config.engine, _no_warm_up, threads, threads
        )
        return ModelStream(
            config.name,
            Source(store, self.engine, rest_s=1.0, clock=self.clock),
            loader,
            self._polls,
            store="file",
            policy=config.version_policy,
            labels=config.version_labels,
            rules=StreamRules(
                labels_wait=True,
                poll_wait_s=POLL_S,
                drain_timeout_s=POLL_S,
                clock=self.clock,
                chance=lambda: 1.0,
            ),
        )

    # -- what can happen ---------------------------------------------------------------------

    async def uploaded(self, place: str, version: int, content: str) -> None:
        await self._happens_to(place, lambda store: store.versions.update({version: content}))

    async def removed(self, place: str, version: int) -> None:
        await self._happens_to(place, lambda store: store.versions.pop(version, None))

    async def goes_away(self, place: str) -> None:
        await self._happens_to(place, lambda store: setattr(store, "away", True))

    async def comes_back(self, place: str) -> None:
        await self._happens_to(place, lambda store: setattr(store, "away", False))

    async def configured(self, desired: Desired, all_or_nothing: bool) -> None:
        configs = [
            ModelConfig(name=name, base_path=place, version_policy=policy, version_labels=labels)
            for name, (place, policy, labels) in desired.items()
        ]
        serving, answers = self.manager.serving(), self.answers()
        try:
            await self.manager.apply(configs, all_or_nothing=all_or_nothing)
        except ServingError:
            assert (self.manager.serving(), self.answers()) == (serving, answers), "half applied"
        await self._rest()
        places = {config.name: config.base_path for config in serving}
        for name, (place, _, _) in desired.items():
            if answers.get(name) and places[name] != place:
                assert self.answers()[name], "a predecessor was not kept until its successor serves"

    async def time_passes(self) -> None:
        self.clock.now += 60.0
        for name in list(self.manager.served.entries):
            await self._polled(name)

    async def worker_dies(self) -> None:
        """What was AVAILABLE and is still wanted is AVAILABLE again."""
        before = {
            config.name: (config, servable.version)
            for config in self.manager.serving()
            if (servable := self.manager.served.entries[config.name].stream.default)
        }
        await self.begin()
        after = self.answers()
        for name, (config, version) in before.items():
            store, policy = self.stores[config.base_path], config.version_policy
            is_there = store.versions.get(version) == GOOD and not store.away
            is_wanted = isinstance(policy, Latest) or version in policy.aspired(store.versions)
            if is_there and is_wanted and name in after:
                assert after[name] is not None, f"{name} served version {version}, and now nothing"
                assert after[name].version >= version

    # -- what holds --------------------------------------------------------------------------

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
        desired = [config.base_path for config in self.manager.desired if config.name == name]
        return place in (self.manager.served.entries[name].config.base_path, *desired)

    async def _polled(self, name: str) -> None:
        with suppress(ServingError):
            await self.manager.poll(name)
        await self._rest()

    async def _rest(self) -> None:
        for _ in range(4):
            await settle()
        self._config.leave_answering()  # as the application does after each load
        self.compiled += map(weakref.ref, self.engine.models)
        self.engine.models.clear()

    async def end(self) -> None:
        await self.manager.apply([], all_or_nothing=False)
        await self._rest()
        assert [ref() for ref in self.compiled if ref()] == [], "memory that nobody serves from"
        assert [store.copies for store in self.stores.values() if store.copies] == []


async def _no_warm_up(servable: Servable, directory: Path) -> None:
    """Nothing to replay."""


Step = Callable[[Server], Awaitable[None]]


def step(
    happens: Callable[..., Awaitable[None]], **arguments: st.SearchStrategy[object]
) -> st.SearchStrategy[Step]:
    return st.builds(partial, st.just(happens), **arguments)


def histories() -> st.SearchStrategy[list[Step]]:
    places, versions = st.sampled_from(PLACES), st.integers(1, 3)
    latest = st.builds(Latest, st.integers(1, 2))
    policies = st.one_of(
        latest,
        latest,
        st.just(All()),
        st.builds(Specific, st.frozensets(versions, min_size=1, max_size=2)),
    )
    labels = st.dictionaries(st.just("stable"), versions, max_size=1)
    model = st.tuples(places, policies, labels)
    one = st.one_of(
        step(
            Server.uploaded, place=places, version=versions, content=st.sampled_from([GOOD, BROKEN])
        ),
        step(
            Server.configured,
            desired=st.fixed_dictionaries({"a": model}, optional={"b": model}),
            all_or_nothing=st.booleans(),
        ),
        step(Server.removed, place=places, version=versions),
        step(Server.goes_away, place=places),
        step(Server.comes_back, place=places),
        step(Server.time_passes),
        step(Server.worker_dies),
        step(Server.worker_dies),
    )
    return st.lists(one, max_size=20)


BEGINNING: list[Step] = [
    partial(Server.uploaded, place="a", version=1, content=GOOD),
    partial(Server.uploaded, place="b", version=1, content=GOOD),
    partial(
        Server.configured,
        desired={name: (name, Latest(), {}) for name in NAMES},
        all_or_nothing=True,
    ),
]
"""Something that serves, which most of what may happen is about."""


@settings(max_examples=100)
@given(histories())
def test_what_served_serves_neighbours_are_left_alone_and_memory_returns(
    history: list[Step],
) -> None:
    async def played(directory: Path) -> None:
        server = Server(directory)
        await server.begin()
        for step in [*BEGINNING, *history]:
            await step(server)
        await server.end()

    gc.disable()
    try:
        with tempfile.TemporaryDirectory() as directory:
            asyncio.run(asyncio.wait_for(played(Path(directory)), 60))
    finally:
        gc.enable()

"""What holds over any history of a model, with the stream and the controls that ship.

A history is a row of steps; each is one thing that can happen to a server. The invariants are those
of docs/design/versions.md.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.versions import State
from ie_serving.models.repository.version_policy import All, Latest, Specific, VersionPolicy
from ie_serving.models.version.handle import Servable
from tests.stand_in_engine import StandInModel
from tests.unit.models.stand_ins import BROKEN, Stand, settle


class Model:
    """One stream under a history, with its invariants checked after every step."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        self.stream = stand.stream()
        self.policy: VersionPolicy = Latest()
        self.held: list[tuple[Servable, ExitStack]] = []

    # -- what can happen ---------------------------------------------------------------------

    async def listed(self, versions: dict[int, str]) -> None:
        self.stand.store.away = False
        self.stand.store.versions = versions
        assert await self.stand.poll(self.stream)

    async def store_goes_away(self) -> None:
        before = self.stream.statuses(), dict(self.stream.available)
        self.stand.store.away = True
        assert not await self.stand.poll(self.stream)
        assert (self.stream.statuses(), dict(self.stream.available)) == before

    async def policy_changes(self, policy: VersionPolicy) -> None:
        self.policy = policy
        self.stream.adopt(policy, {})
        await settle()

    async def load_ends(self, succeeds: bool) -> None:
        if self.stand.loads.waiting:
            await self.stand.end_load(None if succeeds else BROKEN)

    async def loads_end(self) -> None:
        while self.stand.loads.waiting:
            await self.stand.end_load()

    async def time_passes(self, seconds: float) -> None:
        self.stand.clock.now += seconds
        await self.stand.poll(self.stream)

    async def request_begins(self) -> None:
        if self.stream.default:
            holding = ExitStack()
            self.held.append((holding.enter_context(self.stream.default), holding))

    async def request_ends(self) -> None:
        if self.held:
            self.held.pop(0)[1].close()
        await settle()

    # -- what holds --------------------------------------------------------------------------

    async def play(self, step: "Step") -> None:
        served = bool(self.stream.available)
        await step(self)
        if served and self.wanted():
            assert self.stream.available, "a model that serves gave up its last version"
        self.check_publication()
        for servable, _ in self.held:
            assert isinstance(servable.compiled, StandInModel)
            assert not servable.compiled.closed, "freed under a request"

    def wanted(self) -> frozenset[int]:
        """Of what the last listing named; one that failed changes nothing."""
        return self.policy.aspired(self.stand.store.versions)

    def check_publication(self) -> None:
        """What requests see is what the status says."""
        states = {status.version: status.state for status in self.stream.statuses()}
        serving = {version for version, state in states.items() if state is State.AVAILABLE}
        assert set(self.stream.available) == serving
        default = self.stream.default
        assert (default.version if default else None) == max(serving, default=None)
        errors = [s for s in self.stream.statuses() if s.error]
        assert all(status.state is State.LOADING for status in errors)

    async def comes_to_rest(self) -> None:
        """No more trouble: loads succeed, requests end."""
        await settle()
        while self.held:
            await self.request_ends()
        await self.loads_end()


Step = Callable[[Model], Awaitable[None]]


def step(
    happens: Callable[..., Awaitable[None]], **arguments: st.SearchStrategy[object]
) -> st.SearchStrategy[Step]:
    return st.builds(partial, st.just(happens), **arguments)


def histories() -> st.SearchStrategy[list[Step]]:
    contents = st.dictionaries(st.integers(1, 5), st.sampled_from("ab"), max_size=4)
    policies = st.one_of(
        st.builds(Latest, st.integers(1, 3)),
        st.just(All()),
        st.builds(Specific, st.frozensets(st.integers(1, 5), max_size=3)),
    )
    one = st.one_of(
        step(Model.listed, versions=contents),
        step(Model.policy_changes, policy=policies),
        step(Model.load_ends, succeeds=st.booleans()),
        step(Model.time_passes, seconds=st.floats(0.1, 100.0)),
        step(Model.loads_end),
        step(Model.store_goes_away),
        step(Model.request_begins),
        step(Model.request_ends),
    )
    return st.lists(one, max_size=40)


def run_history(history: list[Step], ending: Callable[[Model], Awaitable[None]]) -> None:
    async def played(directory: str) -> None:
        model = Model(Stand(Path(directory)))
        for step in history:
            await model.play(step)
        await ending(model)

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(played(directory))


@given(histories())
def test_whatever_happens_a_model_that_serves_goes_on_and_no_request_is_cut(
    history: list[Step],
) -> None:
    async def retires(model: Model) -> None:
        gone = asyncio.create_task(model.stream.retire())
        await model.comes_to_rest()
        assert gone.done()
        assert {status.state for status in model.stream.statuses()} <= {State.END}
        assert all(compiled.closed for compiled in model.stand.engine.models)
        assert model.stand.store.copies == []

    run_history(history, retires)


@given(histories())
def test_once_storage_rests_and_loads_succeed_exactly_the_wanted_versions_serve(
    history: list[Step],
) -> None:
    async def rests(model: Model) -> None:
        await model.policy_changes(Latest(1))
        await model.listed({2: "a", 4: "a"})
        for _ in range(10):
            await model.comes_to_rest()
            await model.time_passes(60.0)
        assert set(model.stream.available) == {4}
        others = {s.state for s in model.stream.statuses() if s.version != 4}
        assert others <= {State.END}

    run_history(history, rests)

"""The next step for one model, and what holds over any history of such steps."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ie_serving.models.transition_policy import (
    Action,
    Load,
    Snapshot,
    Unload,
    preserve_availability,
)
from ie_serving.models.version_policy import All, Latest, Specific, VersionPolicy
from ie_serving.models.versions import Event, State, VersionLife


def snapshots(text: str) -> list[Snapshot]:
    """Read `1:AVAILABLE 2:LOADING!*`: `*` is aspired, `!` is due for a load."""
    found = re.findall(r"(\d+):([A-Z]+)(!?)(\*?)", text)
    return [Snapshot(int(v), State[state], bool(star), bool(due)) for v, state, due, star in found]


@pytest.mark.parametrize(
    ("stream", "action"),
    [
        pytest.param("", None, id="nothing to do"),
        pytest.param("1:START!*", Load(1), id="the first version"),
        pytest.param("1:START!* 2:START!*", Load(2), id="the highest first"),
        pytest.param("1:START* 2:START!*", Load(2), id="only those that are due"),
        pytest.param(
            "1:AVAILABLE 2:LOADING*",
            None,
            id="the old one stays until the new is ready",
        ),
        pytest.param("1:AVAILABLE 2:AVAILABLE*", Unload(1), id="replaced"),
        pytest.param("1:AVAILABLE 2:LOADING!*", Load(2), id="a failed successor is tried again"),
        pytest.param("1:AVAILABLE 2:AVAILABLE 3:LOADING*", None, id="two unwanted ones both stay"),
        pytest.param("1:AVAILABLE 2:AVAILABLE", Unload(1), id="none is wanted, lowest first"),
        pytest.param("1:LOADING 2:AVAILABLE*", Unload(1), id="a load that nobody wants ends"),
        pytest.param("1:LOADING 2:START!*", Unload(1), id="memory is given up before it is taken"),
        pytest.param("1:START 2:START!*", Unload(1), id="an unwanted version that never began"),
        pytest.param("1:UNLOADING 2:AVAILABLE* 3:END", None, id="what is going needs no step"),
        pytest.param(
            "1:UNLOADING*",
            None,
            id="wanted again while unloading: wait until it is gone",
        ),
    ],
)
def test_preserve_availability(stream: str, action: Action | None) -> None:
    assert preserve_availability(snapshots(stream)) == action


class Simulation:
    """One model under the pure parts alone, with storage and loads decided by the test."""

    def __init__(self) -> None:
        self.lives: dict[int, VersionLife] = {}
        self.busy: set[int] = set()
        self.aspired: frozenset[int] = frozenset()

    def listed(self, found: set[int], policy: VersionPolicy) -> None:
        self.aspired = policy.aspired(found)
        for version in self.aspired:
            if version not in self.lives or self.lives[version].state is State.END:
                self.lives[version] = VersionLife(version)
        self.advance()

    def advance(self) -> None:
        for _ in range(1000):
            action = preserve_availability(self.stream())
            if action is None:
                return
            self.carry_out(action)
        raise AssertionError("the policy never comes to rest")

    def stream(self) -> list[Snapshot]:
        return [
            Snapshot(v, life.state, v in self.aspired, self.due(v, life))
            for v, life in self.lives.items()
        ]

    def due(self, version: int, life: VersionLife) -> bool:
        return version not in self.busy and (life.state is State.START or bool(life.error))

    def carry_out(self, action: Action) -> None:
        life = self.lives[action.version]
        before = self.serving()
        if isinstance(action, Load):
            life.apply(Event.LOAD)
            self.busy.add(action.version)
            return
        if life.state is State.AVAILABLE and self.aspired:
            assert before & self.aspired, "gave up a serving version for none that serves"
        life.apply(Event.DROP)
        if life.state is State.UNLOADING:
            self.busy.add(action.version)

    def finish(self, succeeds: bool) -> None:
        """End the work on the lowest busy version."""
        version = min(self.busy)
        self.busy.discard(version)
        life = self.lives[version]
        if life.state is State.UNLOADING:
            life.apply(Event.FREED)
        elif succeeds:
            life.apply(Event.READY)
        else:
            life.apply(Event.FAIL, "broken")
            return  # back-off: not retried within this step
        self.advance()

    def serving(self) -> set[int]:
        return {v for v, life in self.lives.items() if life.state is State.AVAILABLE}


policies = st.one_of(
    st.builds(Latest, st.integers(1, 3)),
    st.just(All()),
    st.builds(Specific, st.frozensets(st.integers(1, 5), max_size=3)),
)
listings = st.tuples(st.sets(st.integers(1, 5)), policies)
steps = st.lists(st.one_of(listings, st.booleans()), max_size=40)


@settings(max_examples=400)
@given(steps)
def test_any_history_of_listings_failures_and_policies(
    history: list[tuple[set[int], VersionPolicy] | bool],
) -> None:
    """A model that serves goes on to serve as long as any of its versions is wanted."""
    model = Simulation()
    for step in history:
        served = bool(model.serving())
        if isinstance(step, tuple):
            model.listed(*step)
        elif model.busy:
            model.finish(step)
        if served and model.aspired:
            assert model.serving()


@settings(max_examples=200)
@given(steps)
def test_once_storage_rests_and_loads_succeed_exactly_the_wanted_versions_serve(
    history: list[tuple[set[int], VersionPolicy] | bool],
) -> None:
    model = Simulation()
    for step in history:
        if isinstance(step, tuple):
            model.listed(*step)
        elif model.busy:
            model.finish(step)
    found = {2, 4}
    for _ in range(30):
        model.listed(found, Latest(1))
        while model.busy:
            model.finish(True)
    assert model.serving() == {4}
    assert {life.state for v, life in model.lives.items() if v != 4} <= {State.END}

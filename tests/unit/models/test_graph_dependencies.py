"""A graph is compiled when the models that it uses serve, and not before."""

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ie_serving.core.values.errors import LoadFailed, Unreachable
from ie_serving.models.graph_dependencies import GraphDependencies
from ie_serving.models.served_models import PreparedModels, ServedModels
from tests.unit.models.stand_ins import settle

PATIENCE_S = 20


class Stream:
    """A stream that changes when the test says so."""

    def __init__(self) -> None:
        self.default: object = None
        self.available: dict[int, object] = {}
        self.aspired = 0
        self.is_settled = False
        self.trouble: Exception | None = None
        self.failed: dict[int, str] = {}
        self.retried = 0
        self._changed = asyncio.Event()

    def loads_for(self, version: int | None) -> bool:
        """Load nothing on demand."""
        return False

    @property
    def why_none(self) -> str:
        failed = [f"version {number}: {cause}" for number, cause in self.failed.items()]
        return failed[-1] if failed else str(self.trouble or "")

    def failures(self) -> dict[int, str]:
        return self.failed

    def aspire(self) -> None:
        self.aspired += 1

    def retry_now(self) -> None:
        self.retried += 1

    def poll_now(self) -> None:
        """Find nothing."""

    async def changed(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def change(self, **fields: object) -> None:
        vars(self).update(fields)
        self._changed.set()


class World:
    """Models `a` and `b`, and graphs by what they use."""

    def __init__(self, **uses: Collection[str]) -> None:
        self.streams = {name: Stream() for name in ("a", "b", *uses)}
        self.served = ServedModels()
        entries: Any = {n: SimpleNamespace(stream=s, config=None) for n, s in self.streams.items()}
        self.served.entries = entries
        self.uses = uses
        self.prepared = ServedModels()
        models = PreparedModels(self.served, self.prepared)
        self.used = GraphDependencies(models, self.uses_of)

    def uses_of(self, path: Path) -> dict[str, frozenset[int]] | None:
        found = self.uses.get(path.name)
        if found is None or isinstance(found, dict):
            return found
        return dict.fromkeys(found, frozenset())

    def load(self, name: str) -> "asyncio.Task[Callable[[], None]]":
        awaited = self.used.before(name, Path(name))
        assert awaited is not None
        return asyncio.create_task(_done(awaited()))


async def _done(awaited: Any) -> Callable[[], None]:
    release: Callable[[], None] = await awaited
    return release


async def test_it_waits_for_every_model() -> None:
    world = World(g=("a", "b"))
    load = world.load("g")
    await settle()
    world.streams["a"].change(default=object())
    await settle()
    assert not load.done()
    world.streams["b"].change(default=object())
    await asyncio.wait_for(load, PATIENCE_S)


async def test_a_model_waits_for_nothing() -> None:
    assert World().used.before("a", Path("a")) is None


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"is_settled": True}, 'it uses model "a", which does not serve$'),
        ({"is_settled": True, "failed": {3: "broken"}}, "does not serve: version 3: broken$"),
        ({"trouble": Unreachable("away")}, "does not serve: away$"),
    ],
)
async def test_it_says_why_a_model_does_not_serve(fields: dict[str, Any], text: str) -> None:
    world = World(g=("a",))
    load = world.load("g")
    await settle()
    world.streams["a"].change(**fields)
    with pytest.raises(LoadFailed, match=text):
        await asyncio.wait_for(load, PATIENCE_S)


async def test_a_model_that_is_removed_meanwhile_fails_the_graph() -> None:
    world = World(g=("a",))
    load = world.load("g")
    await settle()
    world.served.entries = {name: e for name, e in world.served.entries.items() if name != "a"}
    world.streams["a"].change()
    with pytest.raises(LoadFailed, match='model "a", which is not configured; there is b, g'):
        await asyncio.wait_for(load, PATIENCE_S)


async def test_a_graph_that_is_removed_is_forgotten() -> None:
    """Else another graph of its name, which uses that one, would seem to use itself."""
    world = World(g=("h",), h=("a",))
    load = world.load("g")
    await settle()
    load.cancel()
    world.used.keep(["a", "h"])
    world.uses["h"] = ("g",)
    world.streams["g"].change(default=object())
    await asyncio.wait_for(world.load("h"), PATIENCE_S)


async def test_graphs_within_graphs_have_an_end() -> None:
    chain = {f"g{at}": (f"g{at + 1}",) for at in range(18)}
    world = World(**chain, g18=("a",))
    for stream in world.streams.values():
        stream.change(default=object())
    for at in range(18, 2, -1):  # 16 graphs
        await asyncio.wait_for(world.load(f"g{at}"), PATIENCE_S)
    with pytest.raises(LoadFailed, match="graphs within graphs: at most 16 levels"):
        await asyncio.wait_for(world.load("g2"), PATIENCE_S)


async def test_it_waits_for_a_model_that_the_same_change_adds() -> None:
    world = World(g=("a", "new"))
    new = Stream()
    added: Any = {"new": SimpleNamespace(stream=new, config=None)}
    world.prepared.entries = added
    world.streams["a"].change(default=object())
    load = world.load("g")
    await settle()
    assert not load.done()
    new.change(default=object())
    await asyncio.wait_for(load, PATIENCE_S)


async def test_graphs_that_wait_for_each_other_are_refused() -> None:
    world = World(g=("h",), h=("a", "g"))
    first = world.load("g")
    await settle()
    with pytest.raises(LoadFailed, match="graphs use each other: h -> g -> h"):
        await asyncio.wait_for(world.load("h"), PATIENCE_S)
    first.cancel()


async def test_a_model_that_serves_calls_for_the_graphs_that_failed() -> None:
    world = World(g=("a",), h=("b",))
    for name in ("g", "h"):
        world.streams[name].failed = {1: "waits"}
        load = world.load(name)
        await settle()
        load.cancel()
    world.used.note_load("a", succeeded=False)
    await settle()
    assert world.streams["g"].retried == 0
    world.used.note_load("a", succeeded=True)
    await settle()
    assert (world.streams["g"].retried, world.streams["h"].retried) == (1, 0)


async def test_a_version_that_a_graph_names_is_held_until_the_graph_has_gone() -> None:
    world = World(g={"a": frozenset({1})})
    stream = world.streams["a"]
    stream.change(default=object(), available={2: object()})
    load = world.load("g")
    await settle()
    assert (world.used.held("a"), world.used.held("b"), stream.aspired) == ({1}, set(), 1)
    assert not load.done()
    stream.change(available={1: object(), 2: object()})
    release = await asyncio.wait_for(load, PATIENCE_S)
    assert world.used.held("a") == {1}
    release()
    await settle()
    assert (world.used.held("a"), stream.aspired) == (set(), 2)


async def test_a_version_that_a_graph_names_and_no_model_has_fails_the_graph() -> None:
    world = World(g={"a": frozenset({1, 2})})
    world.streams["a"].change(default=object(), available={2: object()}, is_settled=True)
    with pytest.raises(LoadFailed, match=r'it uses version 1 of model "a", which does not serve$'):
        await asyncio.wait_for(world.load("g"), PATIENCE_S)
    assert world.used.held("a") == set()

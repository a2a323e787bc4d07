"""A worker that replaces one which died begins with what that one served."""

import asyncio
import threading
from pathlib import Path

import pytest

from ie_serving.core.values.errors import NotFound, NotLoaded
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.versions import State
from ie_serving.models import first_loads
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.repository.version_policy import Specific
from tests.unit.models.conftest import LIMIT_S, World, managed, serves
from tests.unit.models.streams import states

M = ModelSpec("m")


class Held:
    """Loads of some versions that hang until the test lets them go on."""

    def __init__(self, world: World, *names: str) -> None:
        self.begun: list[str] = []
        self.go_on = threading.Event()
        self._names = names
        world.engine.before_compile = self._hold

    def _hold(self, directory: Path) -> None:
        name = f"{directory.parent.name}/{directory.name}"
        self.begun.append(name)
        if name in self._names:
            assert self.go_on.wait(LIMIT_S)


async def test_the_version_that_served_comes_back_before_a_newer_one_is_tried(world: World) -> None:
    """That may take long to load, or be what the other worker has died of."""
    world.write(1)
    world.write(2)
    held = Held(world, "m/2")
    manager = world.manager()
    await manager.resume([world.config()], {"m": 1})
    assert manager.served.handle(M).version == 1
    assert held.begun[0] == "m/1"
    assert manager.answering() == {"m": 1}
    held.go_on.set()
    await serves(world, manager, M, 2)


async def test_a_served_model_is_left_to_the_next_worker_until_it_serves_again(
    world: World,
) -> None:
    world.write(1)
    world.write(2)
    held = Held(world, "m/1", "m/2")
    manager = world.manager()
    resuming = asyncio.create_task(manager.resume([world.config()], {"m": 1}))
    while not held.begun:
        await asyncio.sleep(0)
    assert manager.answering() == {"m": 1}
    held.go_on.set()
    await resuming


async def test_a_model_on_demand_is_known_while_it_gets_other_settings(world: World) -> None:
    """The versions that the settings load are not known before the first listing."""
    world.write(1)
    world.on_demand = lambda stream: asyncio.sleep(0)
    manager = await managed(world, world.config())
    await manager.apply([world.config(load="on_demand")], all_or_nothing=False)
    for _ in range(2):
        with pytest.raises(NotLoaded):
            manager.served.handle(M)
        while manager.serving()[0].load != "on_demand":
            await asyncio.sleep(0.001)


async def test_a_model_on_demand_is_known_when_its_worker_is_replaced(world: World) -> None:
    """Otherwise its first requests would be told that there is no such version."""
    world.write(1)
    world.on_demand = lambda stream: asyncio.sleep(0)
    manager = world.manager()
    nowhere = world.config("nowhere", load="on_demand")  # has no directory
    await manager.resume([world.config(load="on_demand"), nowhere], {})
    with pytest.raises(NotLoaded):
        manager.served.handle(M)


async def test_a_model_that_is_loaded_on_demand_is_not_left_to_the_next_worker(
    world: World,
) -> None:
    """No earlier version answers while it loads, and to note thousands takes milliseconds."""
    world.write(1)
    world.on_demand = lambda stream: asyncio.sleep(0)
    manager = world.manager()
    await manager.start([world.config()])
    (stream,) = [stream for _, stream in manager.streams()]
    await stream.first_load()
    stream.admit()
    await stream.first_load()
    assert stream.default is not None
    assert manager.answering() == {}


@pytest.mark.parametrize("content", [None, {"fail": "no operation Foo"}], ids=["gone", "broken"])
async def test_a_version_that_is_gone_or_broken_meanwhile_holds_nothing_up(
    world: World, content: dict[str, str] | None
) -> None:
    if content:
        world.write(1, **content)
    world.write(2)
    manager = world.manager()
    await manager.resume([world.config()], {"m": 1})
    await serves(world, manager, M, 2)


async def test_a_policy_that_wants_none_unloads_what_served(world: World) -> None:
    world.write(1)
    manager = world.manager()
    none = world.config(version_policy=Specific(frozenset({7})))
    await manager.resume([none], {"m": 1})
    assert manager.answering() == {}
    with pytest.raises(NotFound):
        manager.served.handle(M)


async def test_versions_below_the_one_that_answered_are_waited_for(world: World) -> None:
    """Requests that name them, by number or label, were refused until they had loaded."""
    world.write(1)
    world.write(2)
    world.write(3, fail="no operation Foo")
    world.write(4)
    held = Held(world, "m/1", "m/2")
    manager = world.manager()
    policy = Specific(frozenset({1, 2, 3, 4}))
    wanted = world.config(version_policy=policy, version_labels={"old": 1})
    resuming = asyncio.create_task(manager.resume([wanted], {"m": 4}))
    await serves(world, manager, M, 4)
    await asyncio.sleep(0.01)
    assert not resuming.done()
    held.go_on.set()
    await resuming
    assert manager.served.handle(ModelSpec("m", 2)).version == 2
    assert manager.served.handle(ModelSpec("m", label="old")).version == 1


async def test_a_model_that_had_not_served_yet_is_not_waited_for(world: World) -> None:
    world.write(1)
    world.write(1, model="new")
    held = Held(world, "new/1")
    manager = world.manager()
    await manager.resume([world.config(), world.config("new")], {"m": 1})
    assert manager.served.handle(M).version == 1
    assert states(manager.served.entries["new"].stream) == {1: State.LOADING}
    held.go_on.set()
    await serves(world, manager, ModelSpec("new"), 1)


async def test_a_load_that_hangs_now_keeps_the_others_back_for_a_while_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(first_loads, "LONGEST_WAIT_S", 0.05)
    world.write(1)
    world.write(1, model="hangs")
    held = Held(world, "hangs/1")
    manager = world.manager()
    configs = [world.config(), world.config("hangs")]
    await manager.resume(configs, {"m": 1, "hangs": 1})
    assert manager.served.handle(M).version == 1
    assert "ports open without models that served models=hangs" in caplog.text
    held.go_on.set()
    await serves(world, manager, ModelSpec("hangs"), 1)


async def test_a_successor_that_loads_goes_on_when_another_model_changes(world: World) -> None:
    """Edits that come more often than it takes to load must not keep it from ever serving."""
    world.write(1)
    world.write(5, model="elsewhere")
    world.write(1, model="other")
    manager = await managed(world)
    held = Held(world, "elsewhere/5")
    moved = ModelConfig(name="m", base_path=str(world.base / "elsewhere"))
    for others in ([], [world.config("other")], []):
        await manager.apply([moved, *others], all_or_nothing=False)
        while "elsewhere/5" not in held.begun:
            await asyncio.sleep(0)
    held.go_on.set()
    await serves(world, manager, M, 5)
    assert held.begun.count("elsewhere/5") == 1


async def test_an_rpc_while_a_successor_loads_serves_what_it_says(world: World) -> None:
    """Also where that is what still serves, and the successor takes over meanwhile."""
    world.write(1)
    world.write(5, model="elsewhere")
    manager = await managed(world)
    held = Held(world, "elsewhere/5")
    moved = ModelConfig(name="m", base_path=str(world.base / "elsewhere"))
    await manager.apply([moved], all_or_nothing=False)
    before = asyncio.create_task(manager.apply([world.config()], all_or_nothing=True))
    held.go_on.set()
    await before
    assert manager.served.handle(M).version == 1

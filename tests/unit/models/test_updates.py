"""Parameters that models take while they serve, and what happens to other models meanwhile."""

import asyncio
import threading
from dataclasses import replace

import pytest

from ie_serving.core.values.requests import ModelSpec
from ie_serving.engines.base import EngineOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.version import loader
from tests.stand_in_engine import StandInModel
from tests.unit.models.conftest import LIMIT_S, World, managed, serves


def with_params(config: ModelConfig, **params: object) -> ModelConfig:
    return replace(config, engine=EngineOptions(params=params))


async def test_a_version_that_takes_over_during_an_update_of_another_model_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_asked, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def update(model: StandInModel, params: object) -> None:
        loop.call_soon_threadsafe(is_asked.set)
        go_on.wait(LIMIT_S)

    monkeypatch.setattr(StandInModel, "update", update, raising=False)
    world.write(1)
    world.write(1, model="moves")
    world.write(5, model="elsewhere", fail="not yet")
    manager = await managed(world, world.config(), world.config("moves"))
    moved = ModelConfig(name="moves", base_path=str(world.base / "elsewhere"))
    await manager.apply([world.config(), moved], all_or_nothing=False)
    configs = [with_params(world.config(), a=1), moved]
    changing = asyncio.create_task(manager.apply(configs, all_or_nothing=False))
    await is_asked.wait()
    world.write(5, model="elsewhere")
    await serves(world, manager, ModelSpec("moves"), 5)
    go_on.set()
    await changing
    assert manager.served.handle(ModelSpec("moves")).version == 5
    assert manager.served.entries["m"].config.engine.params == {"a": 1}
    assert [name for name, _ in manager.streams()] == ["m", "moves"]


async def test_an_update_that_hangs_holds_no_change_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is loaded anew instead."""
    go_on = threading.Event()
    monkeypatch.setattr(loader, "LONGEST_UPDATE_S", 0.01)
    hang = lambda model, params: go_on.wait(LIMIT_S)  # noqa: E731
    monkeypatch.setattr(StandInModel, "update", hang, raising=False)
    world.write(1)
    manager = await managed(world)
    before = manager.served.entries["m"].stream
    await manager.apply([with_params(world.config(), a=1)], all_or_nothing=False)
    while manager.served.entries["m"].stream is before:
        world.applied.clear()
        await world.applied.wait()
    assert manager.served.handle(ModelSpec("m")).version == 1
    go_on.set()

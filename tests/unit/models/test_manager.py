"""All models: handles, status, and changes of configuration that leave no half behind."""

import asyncio

import pytest

from ie_serving.errors import (
    InvalidRequest,
    LoadFailed,
    NotFound,
    PreconditionFailed,
    StorageError,
    UnknownLabel,
)
from ie_serving.models.manager import ModelManager
from ie_serving.models.version_policy import All, Specific
from ie_serving.models.versions import State
from ie_serving.requests import ModelSpec
from ie_serving.settings import ModelConfig
from tests.unit.models.conftest import World, run


async def started(world: World, *configs: ModelConfig, **options: bool) -> ModelManager:
    manager = world.manager(**options)
    await manager.start(configs or [world.config()])
    return manager


async def serves(manager: ModelManager, spec: ModelSpec, version: int) -> None:
    """Wait until `spec` is answered by `version`."""
    while True:
        try:
            if manager.handle(spec).version == version:
                return
        except NotFound:
            pass
        await asyncio.sleep(0.001)


def test_the_default_is_the_highest_available_version(world: World) -> None:
    async def test() -> None:
        world.write(1)
        world.write(2)
        world.write(3, fail="broken")
        manager = await started(world, world.config(version_policy=All()))
        assert manager.handle(ModelSpec("m")).version == 2
        assert manager.handle(ModelSpec("m", version=1)).version == 1
        await manager.close()

    run(test())


def test_version_0_means_the_default_unless_there_is_a_version_0(world: World) -> None:
    async def test() -> None:
        world.write(2)
        manager = await started(world, world.config(version_policy=All()))
        assert manager.handle(ModelSpec("m", version=0)).version == 2
        assert [status.version for status in manager.statuses("m", 0)] == [2]
        world.write(0)
        manager.look()
        await serves(manager, ModelSpec("m", version=0), 0)
        assert [status.version for status in manager.statuses("m", 0)] == [0]
        await manager.close()

    run(test())


@pytest.mark.parametrize(
    ("spec", "kind", "text"),
    [
        (
            ModelSpec("n"),
            NotFound,
            r"Servable not found for request: Latest\(n\): .*served models: m",
        ),
        (ModelSpec("m", version=9), NotFound, r"Specific\(m, 9\): .*available versions: 1"),
        (ModelSpec("m", label="x"), UnknownLabel, "Unrecognized servable version label: x"),
        (ModelSpec("n", label="x"), UnknownLabel, "Unrecognized servable version label: x"),
        (ModelSpec("m", label="gone"), NotFound, r"Specific\(m, 7\)"),
    ],
)
def test_what_is_not_there_is_refused_by_name(
    world: World, spec: ModelSpec, kind: type[Exception], text: str
) -> None:
    async def test() -> None:
        world.write(1)
        config = world.config(version_labels={"gone": 7})
        manager = await started(world, config, labels_for_unavailable=True)
        with pytest.raises(kind, match=text):
            manager.handle(spec)
        await manager.close()

    run(test())


def test_status_lists_highest_first_and_names_what_was_never_seen(world: World) -> None:
    async def test() -> None:
        world.write(1)
        world.write(2, fail="no operation Foo")
        manager = await started(world, world.config(version_policy=All()))
        status = manager.statuses("m")
        assert [(s.version, s.state) for s in status] == [
            (2, State.LOADING),
            (1, State.AVAILABLE),
        ]
        assert "no operation Foo" in status[0].error
        assert manager.statuses("m", 1) == [status[1]]
        with pytest.raises(NotFound, match="Could not find version 5 of model m"):
            manager.statuses("m", 5)
        with pytest.raises(NotFound, match="Could not find any versions of model n"):
            manager.statuses("n")
        await manager.close()

    run(test())


def test_a_base_path_that_cannot_be_listed_fails_the_start(world: World) -> None:
    async def test() -> None:
        world.write(1)
        configs = [world.config(), world.config("missing")]
        with pytest.raises(StorageError, match="missing"):
            await started(world, *configs)
        manager = await started(world, *configs, allow_unavailable_models=True)
        assert manager.handle(ModelSpec("m")).version == 1
        with pytest.raises(NotFound, match=r"missing"):
            manager.statuses("missing")
        world.write(3, model="missing")
        await serves(manager, ModelSpec("missing"), 3)
        await manager.close()

    run(test())


def test_the_start_can_wait_for_every_model_and_end_with_a_broken_one(world: World) -> None:
    async def test() -> None:
        options = {"allow_unavailable_models": True, "require_available": True}
        waiting = asyncio.create_task(started(world, world.config("late"), **options))
        world.write(1, model="late")
        manager = await waiting
        assert manager.handle(ModelSpec("late")).version == 1
        await manager.close()
        world.write(1, fail="no operation Foo")
        with pytest.raises(LoadFailed, match=r"1 servable\(s\) did not become available: .*Foo"):
            await started(world, **options)

    run(test())


def test_models_are_added_changed_and_removed(world: World) -> None:
    async def test() -> None:
        for model in ("m", "n"):
            for version in (1, 2):
                world.write(version, model=model)
        manager = await started(world)
        changed = world.config(version_policy=Specific(frozenset({1})), version_labels={"s": 1})
        with pytest.raises(PreconditionFailed, match="assign label to version 1 of model m"):
            await manager.apply([changed], all_or_nothing=True)
        await manager.apply([world.config(version_policy=All())], all_or_nothing=True)
        await serves(manager, ModelSpec("m", version=1), 1)
        await manager.apply([changed, world.config("n")], all_or_nothing=True)
        assert manager.names() == ["m", "n"]
        assert manager.handle(ModelSpec("m", label="s")).version == 1
        assert manager.handle(ModelSpec("n")).version == 2
        await manager.apply([], all_or_nothing=True)
        assert manager.names() == []
        await manager.close()

    run(test())


def test_a_reload_that_fails_leaves_no_trace(world: World) -> None:
    async def test() -> None:
        world.write(1)
        world.write(1, model="good")
        world.write(1, model="bad", fail="no operation Foo")
        manager = await started(world)
        wanted = [world.config("good"), world.config("bad")]
        with pytest.raises(LoadFailed, match=r"1 model\(s\) did not become available.*Foo"):
            await manager.apply(wanted, all_or_nothing=True)
        assert manager.names() == ["m"]
        assert manager.handle(ModelSpec("m")).version == 1
        await manager.close()

    run(test())


def test_a_changed_model_serves_on_until_its_successor_is_ready(world: World) -> None:
    async def test() -> None:
        world.write(1)
        manager = await started(world)
        moved = ModelConfig(name="m", base_path=str(world.base / "elsewhere"))
        world.write(5, model="elsewhere", fail="not yet")
        await manager.apply([moved], all_or_nothing=False)
        assert manager.handle(ModelSpec("m")).version == 1
        world.write(5, model="elsewhere")
        await serves(manager, ModelSpec("m"), 5)
        await manager.close()

    run(test())


def test_a_successor_that_is_not_ready_yet_survives_a_change_of_another_model(
    world: World,
) -> None:
    async def test() -> None:
        world.write(1)
        world.write(1, model="other")
        world.write(5, model="elsewhere", fail="not yet")
        manager = await started(world)
        for others in ([], [world.config("other")]):
            moved = ModelConfig(name="m", base_path=str(world.base / "elsewhere"))
            await manager.apply([moved, *others], all_or_nothing=False)
        assert manager.handle(ModelSpec("m")).version == 1
        world.write(5, model="elsewhere")
        await serves(manager, ModelSpec("m"), 5)
        await manager.close()

    run(test())


def test_a_platform_never_changes(world: World) -> None:
    async def test() -> None:
        world.write(1)
        manager = await started(world, world.config(platform="tensorflow"))
        with pytest.raises(InvalidRequest, match="Illegal to change a model's platform"):
            await manager.apply([world.config(platform="openvino")], all_or_nothing=True)
        await manager.close()

    run(test())


def test_an_unchanged_model_is_not_loaded_again(world: World) -> None:
    async def test() -> None:
        world.write(1)
        manager = await started(world)
        await manager.apply([world.config()], all_or_nothing=True)
        assert len(world.engine.models) == 1
        await manager.close()

    run(test())


def test_a_label_moves_in_one_step_and_only_to_what_serves(world: World) -> None:
    async def test() -> None:
        world.write(1)
        world.write(2)
        both = world.config(version_policy=All())
        manager = await started(world, both)
        stable = ModelSpec("m", label="stable")
        for version in (1, 2):
            labelled = world.config(version_policy=All(), version_labels={"stable": version})
            await manager.apply([labelled], all_or_nothing=True)
            assert manager.handle(stable).version == version
        with pytest.raises(PreconditionFailed):
            await manager.apply(
                [world.config(version_policy=All(), version_labels={"stable": 3})],
                all_or_nothing=True,
            )
        assert manager.handle(stable).version == 2
        await manager.close()

    run(test())

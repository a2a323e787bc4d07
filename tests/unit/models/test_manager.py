"""All models: handles, status, and changes of configuration that leave no half behind."""

import asyncio
import threading
import weakref
from pathlib import Path

import pytest

from ie_serving.core.values.errors import (
    InvalidRequest,
    LoadFailed,
    NotAvailable,
    NotFound,
    PreconditionFailed,
    StorageError,
    UnknownLabel,
)
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.versions import State
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.repository.version_policy import All, Specific
from ie_serving.models.stream import ModelStream
from ie_serving.storage.backends.local import LocalStorage
from tests import process
from tests.unit.models.conftest import LIMIT_S, World, managed, serves, until
from tests.unit.models.stand_ins import TURNS


async def test_models_are_added_changed_and_removed(world: World) -> None:
    for model in ("m", "n"):
        for version in (1, 2):
            world.write(version, model=model)
    manager = await managed(world)
    changed = world.config(version_policy=Specific(frozenset({1})), version_labels={"s": 1})
    with pytest.raises(PreconditionFailed, match="assign label to version 1 of model m"):
        await manager.apply([changed], all_or_nothing=True)
    await manager.apply([world.config(version_policy=All())], all_or_nothing=True)
    await serves(world, manager, ModelSpec("m", version=1), 1)
    await manager.apply([changed, world.config("n")], all_or_nothing=True)
    assert manager.served.names() == ["m", "n"]
    assert manager.served.handle(ModelSpec("m", label="s")).version == 1
    assert manager.served.handle(ModelSpec("n")).version == 2
    await manager.apply([], all_or_nothing=True)
    assert manager.served.names() == []


async def test_a_removed_model_is_listed_with_end(world: World) -> None:
    """As in TensorFlow Serving, so that a client sees when its files are free."""
    world.write(1)
    manager = await managed(world)
    ((_, stream),) = manager.streams()
    with manager.served.handle(ModelSpec("m")):
        await manager.apply([], all_or_nothing=True)
        await until(stream, lambda: manager.served.statuses("m")[0].state is State.UNLOADING)
    await until(stream, lambda: manager.served.statuses("m")[0].state is State.END)
    with pytest.raises(NotFound, match="Could not find version 2 of model m"):
        manager.served.statuses("m", 2)
    assert manager.served.names() == []
    await manager.apply([world.config("m")], all_or_nothing=True)
    assert [each.state for each in manager.served.statuses("m")] == [State.AVAILABLE]


async def test_a_changed_model_serves_on_until_its_successor_is_ready_whatever_else_changes(
    world: World,
) -> None:
    world.write(1)
    world.write(1, model="other")
    world.write(5, model="elsewhere", fail="not yet")
    manager = await managed(world)
    for others in ([], [world.config("other")]):
        moved = ModelConfig(name="m", base_path=str(world.base / "elsewhere"))
        await manager.apply([moved, *others], all_or_nothing=False)
        assert manager.served.handle(ModelSpec("m")).version == 1
    world.write(5, model="elsewhere")
    await serves(world, manager, ModelSpec("m"), 5)


async def test_a_successor_that_is_no_longer_wanted_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[ModelStream] = []
    open_stream = world.open_stream

    def noted(config: ModelConfig) -> ModelStream:
        opened.append(open_stream(config))
        return opened[-1]

    monkeypatch.setattr(world, "open_stream", noted)
    world.write(1)
    manager = await managed(world)
    world.write(5, model="elsewhere", fail="not yet")
    moved = ModelConfig(name="m", base_path=str(world.base / "elsewhere"))
    await manager.apply([moved], all_or_nothing=False)
    successor = opened[-1]
    await until(successor, successor.failures)
    await manager.apply([world.config()], all_or_nothing=False)
    await until(successor, lambda: successor.statuses()[0].state is State.END)


async def test_a_manager_that_is_closed_leaves_no_task(world: World) -> None:
    """A removed model waits for a request that holds it; the process does not wait for either."""
    world.write(1)
    manager = await managed(world)
    before = asyncio.all_tasks()
    held = manager.served.handle(ModelSpec("m"))
    held.holders += 1
    await manager.apply([], all_or_nothing=True)
    assert asyncio.all_tasks() - before
    await manager.close()
    assert not asyncio.all_tasks() - before


async def test_a_change_that_leaves_the_reading_of_a_model_alone_loads_nothing_anew(
    world: World,
) -> None:
    """As an RPC that adds `model_platform` to models which came from a JSON file."""
    world.write(1)
    manager = await managed(world)
    place = f"file://{world.base}/m/"
    reread = ModelConfig(name="m", base_path=place, platform="tensorflow")
    for unchanged in (world.config(), reread):
        await manager.apply([unchanged], all_or_nothing=True)
        assert len(world.engine.models) == 1
    with pytest.raises(InvalidRequest, match="Illegal to change a model's platform"):
        await manager.apply([world.config(platform="openvino")], all_or_nothing=True)


async def test_another_poll_interval_counts_at_once_and_loads_nothing_anew(world: World) -> None:
    """A reload by RPC has no word for it: what the file said of 300 models would load them anew."""
    world.poll_s = 0.0
    world.write(1)
    manager = await managed(world)
    served = manager.served.entries["m"].stream
    world.write(2)
    await manager.apply([world.config(poll_wait_s=0.01)], all_or_nothing=True)
    assert manager.served.entries["m"].stream is served
    await until(served, lambda: 2 in served.available)


async def test_a_defect_in_one_models_preparation_leaves_none_of_the_others_behind(
    world: World,
) -> None:
    """Neither a load nor a poll goes on after the reload was refused."""
    world.write(1)
    world.write(1, model="slow")
    listing, go_on = threading.Event(), threading.Event()

    class Odd(LocalStorage):
        def directories(self) -> list[str]:
            listing.wait(LIMIT_S)
            raise RuntimeError("unforeseen")

    class Slow(LocalStorage):
        def directories(self) -> list[str]:
            listing.set()
            go_on.wait(LIMIT_S)
            return super().directories()

    manager = await managed(world)
    world.storages = {"odd": Odd, "slow": Slow}
    wanted = [world.config(), world.config("odd"), world.config("slow")]
    with pytest.raises(RuntimeError, match="unforeseen"):
        await manager.apply(wanted, all_or_nothing=True)
    assert manager.served.names() == ["m"]
    go_on.set()
    world.executor.shutdown()  # every listing and load has ended, and none can begin
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert [model.directory.parent.name for model in world.engine.models] == ["m"]
    assert {task.get_name() for task in asyncio.all_tasks()} & {
        "watch odd",
        "watch slow",
    } == set()


async def test_a_file_is_applied_at_once_and_each_model_serves_when_it_is_ready(
    world: World,
) -> None:
    """A load that hangs holds neither the change nor the next one."""
    world.write(1)
    world.write(1, model="quick")
    world.write(1, model="hangs")
    go_on = threading.Event()

    def hang(directory: Path) -> None:
        if directory.parent.name == "hangs":
            go_on.wait(LIMIT_S)

    world.engine.before_compile = hang
    manager = await managed(world)
    await manager.apply([world.config("hangs"), world.config()], all_or_nothing=False)
    await manager.apply([world.config("hangs"), world.config("quick")], all_or_nothing=False)
    await serves(world, manager, ModelSpec("quick"), 1)
    assert manager.served.names() == ["hangs", "quick"]
    with pytest.raises(NotFound):
        manager.served.handle(ModelSpec("hangs"))
    go_on.set()
    await serves(world, manager, ModelSpec("hangs"), 1)


async def test_a_label_that_a_file_moves_stays_until_its_new_version_serves(world: World) -> None:
    world.write(1)
    manager = await managed(world, world.config(version_policy=All(), version_labels={"s": 1}))
    moved = world.config(version_policy=All(), version_labels={"s": 2})
    await manager.apply([moved], all_or_nothing=False)
    assert manager.served.handle(ModelSpec("m", label="s")).version == 1
    world.write(2)
    await serves(world, manager, ModelSpec("m", label="s"), 2)


async def test_in_a_replacement_one_models_fault_stays_with_that_model(world: World) -> None:
    world.write(1)
    world.write(1, model="labelled")
    labelled = world.config("labelled", version_labels={"stable": 7})
    manager = world.manager(require_available=True)
    (world.base / "broken").write_text("")
    broken = world.config("broken")
    await manager.resume([world.config(), labelled, broken], {"m": 1, "labelled": 1})
    assert manager.served.handle(ModelSpec("m")).version == 1
    assert manager.served.handle(ModelSpec("labelled")).version == 1
    with pytest.raises(UnknownLabel):
        manager.served.handle(ModelSpec("labelled", label="stable"))
    with pytest.raises(NotFound, match="is a file"):
        manager.served.statuses("broken")


async def test_a_first_listing_that_a_stop_breaks_off_is_no_defect(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Stopped(LocalStorage):
        def directories(self) -> list[str]:
            loop.call_soon_threadsafe(stopped.set)
            raise NotAvailable("broken off, the server stops")

    world.write(1)
    manager = await managed(world)
    world.storages = {"cloud": Stopped}
    await manager.apply([world.config(), world.config("cloud")], all_or_nothing=False)
    await stopped.wait()
    await asyncio.gather(*manager.tasks)
    await manager.close()
    assert "poll failed" not in caplog.text


async def test_memory_of_a_removed_model_goes_without_the_garbage_collector(
    world: World, no_collection: None
) -> None:
    world.write(1)
    manager = await managed(world)
    servable = manager.served.handle(ModelSpec("m"))
    servable.bound["front end"] = servable
    kept = [weakref.ref(servable), weakref.ref(servable.compiled)]
    stream = manager.served.entries["m"].stream
    del servable
    world.engine.models.clear()
    await manager.apply([], all_or_nothing=True)
    await until(stream, lambda: stream.statuses()[0].state is State.END)
    # The thread that loaded or freed it may still be on its way out of the pool's own function.
    process.until(lambda: [ref() for ref in kept] == [None, None])


async def test_one_model_can_be_polled_now(world: World) -> None:
    """As a deployment's script asks, instead of waiting for an interval; also one that moves."""
    world.poll_s = 3600.0
    world.write(1)
    manager = await managed(world)
    world.write(2)
    await manager.poll("m")
    await serves(world, manager, ModelSpec("m"), 2)
    moved = ModelConfig(name="m", base_path=str(world.base / "elsewhere"))
    await manager.apply([moved], all_or_nothing=False)
    with pytest.raises(StorageError, match="no such directory"):
        await manager.poll("m")
    world.write(5, model="elsewhere")
    await manager.poll("m")
    await serves(world, manager, ModelSpec("m"), 5)
    with pytest.raises(NotFound, match="no such model; served models: m"):
        await manager.poll("other")


async def test_names_that_an_error_leaves_out_are_counted(world: World) -> None:
    manager = await managed(world)
    names = [f"m{number:02}" for number in range(22)]
    configs = [ModelConfig(name=name, base_path=str(world.base)) for name in names]
    await manager.apply(configs, all_or_nothing=False)
    with pytest.raises(NotFound, match=r"served models: m00, .*, m19, and 2 more$"):
        await manager.poll("other")


async def test_a_predecessor_keeps_its_policy_until_its_successor_serves(world: World) -> None:
    """The policy of the new place may name no version of the old one."""
    world.write(1)
    manager = await managed(world)
    moved = ModelConfig(
        name="m", base_path=str(world.base / "new"), version_policy=Specific(frozenset({5}))
    )
    await manager.apply([moved], all_or_nothing=False)
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert manager.served.handle(ModelSpec("m")).version == 1
    world.write(5, model="new")
    await serves(world, manager, ModelSpec("m"), 5)


async def test_a_load_that_hangs_holds_neither_the_start_nor_a_reload(world: World) -> None:
    """The next lower version stands in; what hangs serves if it ends well."""
    go_on = threading.Event()

    def hang(directory: Path) -> None:
        if directory.name == "2":
            go_on.wait(LIMIT_S)

    world.engine.before_compile = hang
    world.load_timeout_s = 0.05
    world.write(1)
    world.write(2)
    manager = await managed(world)
    await serves(world, manager, ModelSpec("m"), 1)
    with pytest.raises(LoadFailed, match=r"takes longer than 0\.05 s"):
        world.write(2, model="new")
        await manager.apply([world.config("new")], all_or_nothing=True)
    assert manager.served.names() == ["m"]
    go_on.set()
    await serves(world, manager, ModelSpec("m"), 2)

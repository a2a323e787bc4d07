"""The start of all models: what it waits for, and when the ports open and readiness comes."""

import asyncio
import threading

import pytest

from ie_serving.core.values.errors import LoadFailed, NotFound, StorageError, UnknownLabel
from ie_serving.core.values.requests import ModelSpec
from ie_serving.models.load_report import HINT_S, SUM_S, Report, due
from ie_serving.models.repository.version_policy import All
from tests.unit.models.conftest import LIMIT_S, World, managed, serves, until


async def test_a_base_path_that_cannot_be_listed_fails_the_start(world: World) -> None:
    world.write(1)
    (world.base / "file").write_text("")
    configs = [world.config(), world.config("file")]
    with pytest.raises(StorageError, match="is a file"):
        await managed(world, *configs)
    manager = await managed(world, *configs, allow_unavailable_models=True)
    assert manager.served.handle(ModelSpec("m")).version == 1
    with pytest.raises(NotFound, match="is a file"):
        manager.served.statuses("file")
    (world.base / "file").unlink()
    world.write(3, model="file")
    await serves(world, manager, ModelSpec("file"), 3)


async def test_a_directory_that_does_not_exist_yet_is_waited_for(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.write(1)
    manager = await managed(world, world.config(), world.config("late"))
    assert manager.served.handle(ModelSpec("m")).version == 1
    with pytest.raises(NotFound, match="late: no such directory"):
        manager.served.statuses("late")
    noted = [r for r in caplog.records if "late" in r.getMessage()]
    assert [r.levelname for r in noted] == ["WARNING"]
    assert "directory does not exist yet" in noted[0].getMessage()
    world.write(3, model="late")
    await serves(world, manager, ModelSpec("late"), 3)


async def test_a_label_of_the_first_configuration_waits_for_its_version(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ie_serving.models.stream")
    world.write(1)
    config = world.config(version_policy=All(), version_labels={"stable": 1, "canary": 2})
    manager = await managed(world, config)
    stable, canary = ModelSpec("m", label="stable"), ModelSpec("m", label="canary")
    assert manager.served.handle(stable).version == 1
    with pytest.raises(UnknownLabel, match="canary; assigned labels of this model: stable"):
        manager.served.handle(canary)
    assert "label waits for its version model=m label=canary version=2" in caplog.text
    # A change of something else keeps a label that waits, instead of refusing it.
    await manager.apply([config, world.config("late")], all_or_nothing=False)
    world.write(2)
    stream = manager.served.entries["m"].stream
    await until(stream, lambda: 2 in stream.available)
    assert manager.served.handle(canary).version == 2
    assert "label assigned model=m label=canary version=2" in caplog.text
    world.remove(2)
    await until(stream, lambda: 2 not in stream.available)
    with pytest.raises(NotFound, match=r"Specific\(m, 2\)"):
        manager.served.handle(canary)


async def test_the_start_can_wait_for_every_model_and_end_with_a_broken_one(world: World) -> None:
    options = {"allow_unavailable_models": True, "require_available": True}
    waiting = asyncio.create_task(managed(world, world.config("late"), **options))
    world.write(1, model="late")
    manager = await waiting
    assert manager.served.handle(ModelSpec("late")).version == 1
    await manager.close()
    world.write(1, fail="no operation Foo")
    with pytest.raises(LoadFailed, match=r"1 servable\(s\) did not become available: .*Foo"):
        await managed(world, **options)


async def test_the_ports_may_open_before_the_models_are_loaded(world: World) -> None:
    """What cannot be listed still ends the start."""
    go_on = threading.Event()
    world.engine.before_compile = lambda directory: go_on.wait(LIMIT_S)
    for model in ("m", "n"):
        world.write(1, model=model)
    configs = [world.config(), world.config("n")]
    manager = await managed(world, *configs, opens_early=True)
    with pytest.raises(NotFound):
        manager.served.handle(ModelSpec("m"))
    ready = asyncio.ensure_future(manager.ready())
    go_on.set()
    await ready
    for model in ("m", "n"):
        assert manager.served.handle(ModelSpec(model)).version == 1
    await manager.close()
    (world.base / "file").write_text("")
    with pytest.raises(StorageError, match="is a file"):
        await managed(world, world.config("file"), opens_early=True)


async def test_a_replacement_too_may_open_its_ports_early(world: World) -> None:
    go_on = threading.Event()
    world.engine.before_compile = lambda directory: go_on.wait(LIMIT_S)
    world.write(1)
    manager = world.manager(opens_early=True)
    await manager.resume([world.config()], {"m": 1})
    go_on.set()
    await serves(world, manager, ModelSpec("m"), 1)


async def test_readiness_waits_no_longer_than_it_may(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.write(1)
    world.write(1, model="broken", fail="no operation Foo")
    configs = [world.config(), world.config("broken")]
    for_ever = await managed(world, *configs)
    waiting = asyncio.ensure_future(for_ever.ready())
    limited = await managed(world, *configs, ready_after_s=0.01)
    await limited.ready()
    assert not waiting.done()
    waiting.cancel()
    for manager in (for_ever, limited):
        await manager.close()
    assert "ready without models that never served models=broken" in caplog.text


async def test_a_model_that_ends_the_start_ends_the_loads_of_the_others(world: World) -> None:
    """They had no owner then, and a task that nothing awaits may go on while all is closed."""
    go_on = threading.Event()
    world.engine.before_compile = lambda directory: go_on.wait(LIMIT_S)
    world.write(1)
    (world.base / "file").write_text("")
    before = asyncio.all_tasks()
    with pytest.raises(StorageError, match="is a file"):
        await managed(world, world.config(), world.config("file"))
    left = [str(task) for task in asyncio.all_tasks() - before]
    go_on.set()
    assert not [task for task in left if "_begin_strictly" in task]


HINT, SUMS = Report.HINT, Report.SUMS
LATE_S = max(HINT_S, SUM_S) + 0.1


@pytest.mark.parametrize(
    ("waited_s", "since_sums_s", "many", "hinted", "reports"),
    [
        pytest.param(0.2, 0.2, True, False, [], id="just begun"),
        pytest.param(HINT_S, SUM_S, True, False, [], id="at the limits"),
        pytest.param(SUM_S + 0.1, SUM_S + 0.1, True, False, [SUMS], id="sums before the hint"),
        pytest.param(LATE_S, 0.2, True, False, [HINT], id="hint after sums"),
        pytest.param(LATE_S, LATE_S, True, False, [HINT, SUMS], id="both"),
        pytest.param(LATE_S, LATE_S, True, True, [SUMS], id="hinted"),
        pytest.param(LATE_S, LATE_S, False, False, [HINT], id="few models"),
        pytest.param(LATE_S, LATE_S, False, True, [], id="few models, hinted"),
    ],
)
def test_the_log_gets_sums_of_many_models_and_one_hint_in_a_long_start(
    waited_s: float, since_sums_s: float, many: bool, hinted: bool, reports: list[Report]
) -> None:
    assert due(waited_s, since_sums_s, many=many, hinted=hinted) == reports

"""Files that change under one model: while a version loads, and while it serves."""

import asyncio
import os
from pathlib import Path

import pytest

from ie_serving.core.values.errors import Missing
from ie_serving.core.values.versions import State
from ie_serving.models.repository.relisting import COMPARED_EVERY
from ie_serving.models.repository.version_policy import All
from ie_serving.models.stream import ModelStream
from ie_serving.models.stream_rules import POLLS_FOR_REST, DormantModel
from ie_serving.models.version.control import LOAD_ERROR
from ie_serving.storage.backends.local import DEEPEST
from tests.stand_in_engine import FILE
from tests.unit.models.conftest import World, until
from tests.unit.models.stand_ins import BROKEN, Stand, settle
from tests.unit.models.streams import started, states


async def test_a_version_replaced_while_it_loads_never_serves_a_mix(world: World) -> None:
    """Its files are compared once more before it serves; then the new ones are loaded."""
    # Listed by hand: a poll between the change and the comparison would begin the next load at
    # once, and the failure of the first one would not show.
    world.poll_s = 3600.0
    world.write(1, value=1)
    replacing = [True]

    def replace(directory: Path) -> None:
        if replacing:
            replacing.clear()
            # By its file alone, in one step: a listing between two would find no version.
            beside = world.base / "beside"
            beside.write_text('{"value": 2}')
            beside.rename(directory / FILE)

    world.engine.before_compile = replace
    stream = await started(world)
    assert stream.default is None
    assert "listed anew" in stream.failures()[1]
    for _ in range(2):  # at rest when two listings agree
        await stream.poll()
    await until(stream, lambda: stream.default)
    assert [model.closed for model in world.engine.models] == [True, False]


async def test_a_version_that_cannot_be_listed_fails_alone_with_the_reason(world: World) -> None:
    world.write(1)
    (world.base / "m" / "2").symlink_to("2")
    deep = world.base / "m" / "3"
    deep.joinpath(*("d" * 600)).mkdir(parents=True)
    stream = await started(world, version_policy=All())
    assert states(stream) == {1: State.AVAILABLE, 2: State.LOADING, 3: State.LOADING}
    assert "symbolic links" in stream.failures()[2]
    assert f"more than {DEEPEST} deep" in stream.failures()[3]
    (world.base / "m" / "2").unlink()
    world.write(2)
    await until(stream, lambda: 2 in stream.available)


# Files that change while their version serves.


async def serving_changed(stand: Stand, stream: ModelStream) -> None:
    """Let version 1 serve, then be replaced, and be compared."""
    stand.store.versions = {1: "a"}
    await stand.poll(stream)
    await stand.end_load()
    stand.store.versions = {1: "b"}
    for _ in range(COMPARED_EVERY):
        await stand.poll(stream)


def changes_noted(caplog: pytest.LogCaptureFixture) -> int:
    return caplog.text.count("files of a served version have changed")


async def test_a_change_is_said_once_and_what_serves_goes_on(
    stand: Stand, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []
    stream = stand.stream(on_changed=lambda: told.append("changed"))
    await serving_changed(stand, stream)
    before = stream.available[1]
    for _ in range(3 * COMPARED_EVERY):
        await stand.poll(stream)
    assert stream.available[1] is before
    assert (changes_noted(caplog), told) == (1, ["changed"])
    assert stand.store.listed.count(1) == 5, "compared at every thirtieth poll"
    stand.store.versions = {1: "c"}
    stream.poll_now()
    await stand.poll(stream)
    assert changes_noted(caplog) == 2, "a look compares at once"


async def test_a_change_is_loaded_beside_what_serves_and_takes_its_place(stand: Stand) -> None:
    stream = stand.stream(reload_changed=True)
    await serving_changed(stand, stream)
    before = stream.available[1]
    assert states(stream) == {1: State.AVAILABLE}
    with before:
        await stand.end_load()
        after = stream.available[1]
        assert after is not before
        assert [model.closed for model in stand.engine.models] == [False, False]
    await settle()
    assert [model.closed for model in stand.engine.models] == [True, False]
    for _ in range(2 * COMPARED_EVERY):
        await stand.poll(stream)
    assert stream.available[1] is after
    assert not stand.loads.waiting


async def test_a_change_that_does_not_load_is_tried_again_and_ends_with_its_version(
    stand: Stand,
) -> None:
    stream = stand.stream(reload_changed=True)
    await serving_changed(stand, stream)
    before = stream.available[1]
    await stand.end_load(BROKEN)
    assert (stream.available[1], stream.failures()) == (before, {})
    assert LOAD_ERROR in stream.statuses()[0].remark
    stand.clock.now += 60.0
    await stand.poll(stream)
    assert stand.loads.waiting
    gone = asyncio.create_task(stream.retire())
    await settle()
    assert not gone.done(), "a load cannot be interrupted"
    await stand.end_load()
    assert gone.done()
    assert stand.store.copies == []


async def test_a_load_on_demand_does_not_wait_for_the_next_version_that_is_being_written(
    world: World,
) -> None:
    world.poll_s = 3600.0

    async def admitted(stream: DormantModel) -> None:
        stream.admit()

    world.on_demand = admitted
    world.write(1)
    stream = await started(world)
    for _ in range(POLLS_FOR_REST):
        await stream.poll()
    os.utime(world.write(2) / FILE)  # young: it is at rest when the next listing agrees
    await stream.poll()
    await stream.load()
    await stream.first_load()
    assert [*stream.available] == [1]


async def test_files_are_compared_once_a_directory_is_back_that_was_gone(world: World) -> None:
    world.poll_s = 3600.0
    world.write(1, value=1)
    stream = await started(world)
    (world.base / "m").rename(world.base / "old")
    with pytest.raises(Missing):
        await stream.poll()
    world.write(1, value=2)
    await stream.poll()
    assert "have changed" in stream.statuses()[0].remark

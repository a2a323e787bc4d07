"""One model over time: what storage lists, loads that fail, handles that are held."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from ie_serving.engines.testing import FILE
from ie_serving.errors import LoadFailed, Missing
from ie_serving.models.stream import ModelStream
from ie_serving.models.version_policy import All, Latest, Specific
from ie_serving.models.versions import State
from tests.unit.models.conftest import POLL_S, World, run, until


async def started(world: World, **fields: object) -> ModelStream:
    stream = world.open_stream(world.config(**fields))
    await stream.start()
    await stream.first_load()
    return stream


def states(stream: ModelStream) -> dict[int, State]:
    return {status.version: status.state for status in stream.statuses()}


def test_first_load_ends_with_every_wanted_version_loaded_or_failed(
    world: World,
) -> None:
    async def test() -> None:
        world.write(1)
        world.write(2, fail="bad graph")
        stream = await started(world, version_policy=All())
        assert states(stream) == {1: State.AVAILABLE, 2: State.LOADING}
        assert stream.default and stream.default.version == 1
        assert world.warmed == [1]
        await stream.retire()

    run(test())


def test_a_model_without_versions_starts_empty_and_is_polled(world: World) -> None:
    async def test() -> None:
        stream = await started(world)
        assert stream.statuses() == []
        world.write(1)
        await until(stream, lambda: stream.default)
        await stream.retire()

    run(test())


def test_a_version_just_written_is_not_waited_for_as_long_as_a_long_interval(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        monkeypatch.setattr("ie_serving.models.stream.SOON_S", POLL_S)
        world.poll_s = 3600.0
        os.utime(world.write(1) / FILE)
        stream = await started(world)
        assert states(stream) == {1: State.AVAILABLE}
        await stream.retire()

    run(test())


def test_a_base_that_cannot_be_listed_is_an_error_at_start(world: World) -> None:
    async def test() -> None:
        stream = world.open_stream(world.config("elsewhere"))
        with pytest.raises(Missing, match="elsewhere"):
            await stream.start()
        (world.base / "elsewhere").mkdir()
        world.write(4, model="elsewhere")
        await until(stream, lambda: stream.default)
        await stream.retire()

    run(test())


def test_the_old_version_serves_until_the_new_one_is_ready(world: World) -> None:
    async def test() -> None:
        world.write(1)
        stream = await started(world)
        go_on = threading.Event()
        world.engine.before_compile = lambda directory: go_on.wait(10)
        world.write(2)
        await until(stream, lambda: states(stream).get(2) is State.LOADING)
        assert stream.default and stream.default.version == 1
        go_on.set()
        await until(stream, lambda: states(stream) == {2: State.AVAILABLE, 1: State.END})
        assert stream.default.version == 2
        await stream.retire()

    run(test())


def test_a_broken_new_version_takes_nothing_down_and_is_retried_when_it_changes(
    world: World,
) -> None:
    async def test() -> None:
        world.write(1)
        stream = await started(world)
        world.write(2, fail="no operation Foo")
        await until(stream, stream.failures)
        assert "Error occurred while loading version: " in stream.failures()[2]
        assert "no operation Foo" in stream.failures()[2]
        assert stream.default and stream.default.version == 1
        world.write(2)
        await until(stream, lambda: stream.default and stream.default.version == 2)
        await stream.retire()

    run(test())


def test_an_unchanged_broken_version_is_retried_after_a_back_off(world: World) -> None:
    async def test() -> None:
        failures = ["first", "second"]

        def fail_twice(directory: Path) -> None:
            if failures:
                raise LoadFailed(failures.pop(0))

        world.engine.before_compile = fail_twice
        world.write(1)
        stream = await started(world)
        assert stream.failures()
        await until(stream, lambda: stream.default)
        assert not failures
        await stream.retire()

    run(test())


def test_a_failed_listing_changes_nothing(world: World) -> None:
    async def test() -> None:
        world.write(1)
        stream = await started(world)
        (world.base / "m").rename(world.base / "away")
        await until(stream, lambda: stream.trouble)
        assert stream.default and states(stream) == {1: State.AVAILABLE}
        (world.base / "away").rename(world.base / "m")
        await until(stream, lambda: not stream.trouble)
        assert states(stream) == {1: State.AVAILABLE}
        await stream.retire()

    run(test())


def test_unloading_waits_for_whoever_holds_a_handle(world: World) -> None:
    async def test() -> None:
        world.write(1)
        stream = await started(world)
        assert stream.default
        with stream.default as held:
            world.remove(1)
            await until(stream, lambda: states(stream) == {1: State.UNLOADING})
            assert stream.default is None
            assert not world.engine.models[0].closed
            assert held.holders == 1
        await until(stream, lambda: states(stream) == {1: State.END})
        assert world.engine.models[0].closed

    run(test())


def test_draining_is_bounded_and_what_is_still_held_is_not_freed_under_its_holder(
    world: World,
) -> None:
    async def test() -> None:
        world.drain_timeout_s = 0.01
        world.write(1)
        stream = await started(world)
        assert stream.default
        with stream.default:
            await stream.retire()
            assert states(stream) == {1: State.END}
            assert not world.engine.models[0].closed

    run(test())


def test_a_version_dropped_while_it_loads_ends_without_serving(world: World) -> None:
    async def test() -> None:
        begun, go_on = threading.Event(), threading.Event()

        def hold(directory: Path) -> None:
            begun.set()
            go_on.wait(10)

        world.engine.before_compile = hold
        world.write(1)
        stream = world.open_stream(world.config())
        await stream.start()
        await asyncio.to_thread(begun.wait, 10)
        stream.adopt(Specific(frozenset()), {})
        await until(stream, lambda: states(stream) == {1: State.UNLOADING})
        go_on.set()
        await until(stream, lambda: states(stream) == {1: State.END})
        assert stream.default is None
        assert world.engine.models[0].closed
        await stream.retire()

    run(test())


def test_a_policy_takes_effect_at_once(world: World) -> None:
    async def test() -> None:
        for version in (1, 2, 3):
            world.write(version)
        stream = await started(world, version_policy=Latest(2))
        assert set(stream.available) == {2, 3}
        stream.adopt(Specific(frozenset({1})), {})
        await until(stream, lambda: set(stream.available) == {1})
        await stream.retire()

    run(test())


def test_a_version_that_comes_back_begins_a_new_life(world: World) -> None:
    async def test() -> None:
        world.write(1)
        stream = await started(world)
        world.remove(1)
        await until(stream, lambda: states(stream) == {1: State.END})
        world.write(1)
        await until(stream, lambda: states(stream) == {1: State.AVAILABLE})
        await stream.retire()

    run(test())


def test_a_load_that_fails_in_an_unforeseen_way_fails_that_version_alone(
    world: World,
) -> None:
    async def test() -> None:
        def crash(directory: Path) -> None:
            if directory.name == "2":
                raise RuntimeError("unforeseen")

        world.engine.before_compile = crash
        world.write(1)
        world.write(2)
        stream = await started(world, version_policy=All())
        assert states(stream) == {1: State.AVAILABLE, 2: State.LOADING}
        await stream.retire()

    run(test())

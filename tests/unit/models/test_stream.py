"""One model over time: what storage lists, loads that fail, handles that are held."""

import asyncio
import threading
from pathlib import Path

import pytest

from ie_serving.core.values.errors import LoadFailed, Missing
from ie_serving.core.values.versions import State
from ie_serving.models import stream_rules as rules
from ie_serving.models.repository.version_policy import All, Latest, Specific
from ie_serving.models.stream_rules import FIRST_BACK_OFF_S, LONGEST_PAUSE_S, POLLS_FOR_REST, SOON_S
from tests.unit.models.conftest import LIMIT_S, POLL_S, World, until
from tests.unit.models.stand_ins import BROKEN, Stand
from tests.unit.models.streams import started, states


async def test_first_load_ends_with_every_wanted_version_loaded_or_failed(
    world: World,
) -> None:
    world.write(1)
    world.write(2, fail="bad graph")
    stream = await started(world, version_policy=All())
    assert states(stream) == {1: State.AVAILABLE, 2: State.LOADING}
    assert stream.default and stream.default.version == 1
    assert world.warmed == [1]


async def test_a_wait_for_the_first_load_of_a_model_that_is_removed_ends(
    world: World,
) -> None:
    """As a reload that a client asks for: it may never have been listed."""
    stream = world.open_stream(world.config("elsewhere"))
    with pytest.raises(Missing):
        await stream.start()
    waiting = asyncio.create_task(stream.first_load())
    await asyncio.sleep(0)
    assert not waiting.done()
    await stream.retire()
    await asyncio.wait_for(waiting, LIMIT_S)


async def test_a_model_without_versions_starts_empty_and_is_polled(world: World) -> None:
    stream = await started(world)
    assert stream.statuses() == []
    world.write(1)
    await until(stream, lambda: stream.default)


async def test_a_base_that_cannot_be_listed_is_an_error_at_start(world: World) -> None:
    stream = world.open_stream(world.config("elsewhere"))
    with pytest.raises(Missing, match="elsewhere"):
        await stream.start()
    (world.base / "elsewhere").mkdir()
    world.write(4, model="elsewhere")
    await until(stream, lambda: stream.default)


async def test_the_old_version_serves_until_the_new_one_is_ready(world: World) -> None:
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


@pytest.mark.parametrize("failure", [{}, {"fail": "bad graph"}])
async def test_a_model_that_loads_for_the_first_time_costs_the_event_loop_no_polls(
    world: World, failure: dict[str, str]
) -> None:
    """Of a thousand models that start, nearly all wait for a thread."""
    go_on = threading.Event()
    world.engine.before_compile = lambda directory: go_on.wait(10)
    world.write(1, **failure)
    stream = world.open_stream(world.config())
    await stream.start()
    assert states(stream) == {1: State.LOADING}
    assert stream.is_quiet
    go_on.set()
    await asyncio.wait_for(stream.first_load(), LIMIT_S)
    assert stream.is_quiet is not bool(failure), "a retry begins with a poll"


async def test_a_broken_new_version_takes_nothing_down_and_is_retried_when_it_changes(
    world: World,
) -> None:
    world.write(1)
    stream = await started(world)
    world.write(2, fail="no operation Foo")
    await until(stream, stream.failures)
    assert "Error occurred while loading version: " in stream.failures()[2]
    assert "no operation Foo" in stream.failures()[2]
    assert stream.default and stream.default.version == 1
    world.write(2)
    await until(stream, lambda: stream.default and stream.default.version == 2)


@pytest.mark.parametrize("poll_s", [POLL_S, 0.0], ids=["with an interval", "without one"])
async def test_an_unchanged_broken_version_is_retried_after_a_back_off(
    world: World, monkeypatch: pytest.MonkeyPatch, poll_s: float
) -> None:
    monkeypatch.setattr(rules, "FIRST_BACK_OFF_S", POLL_S)
    world.poll_s = poll_s
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


async def test_a_failed_listing_changes_nothing(world: World) -> None:
    world.write(1)
    stream = await started(world)
    (world.base / "m").rename(world.base / "away")
    await until(stream, lambda: stream.trouble)
    assert stream.default and states(stream) == {1: State.AVAILABLE}
    (world.base / "away").rename(world.base / "m")
    await until(stream, lambda: not stream.trouble)
    assert states(stream) == {1: State.AVAILABLE}


async def test_unloading_waits_for_the_holders_of_handles(world: World) -> None:
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


async def test_draining_is_bounded_and_what_is_still_held_is_not_freed_under_its_holder(
    world: World,
) -> None:
    world.drain_timeout_s = 0.01
    world.write(1)
    stream = await started(world)
    assert stream.default
    with stream.default:
        await stream.retire()
        assert states(stream) == {1: State.END}
        assert not world.engine.models[0].closed


async def test_a_version_dropped_while_it_loads_ends_without_serving(world: World) -> None:
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


async def test_a_policy_takes_effect_at_once(world: World) -> None:
    for version in (1, 2, 3):
        world.write(version)
    stream = await started(world, version_policy=Latest(2))
    assert set(stream.available) == {2, 3}
    stream.adopt(Specific(frozenset({1})), {})
    await until(stream, lambda: set(stream.available) == {1})


async def test_a_version_that_comes_back_begins_a_new_life(world: World) -> None:
    world.write(1)
    stream = await started(world)
    world.remove(1)
    await until(stream, lambda: states(stream) == {1: State.END})
    world.write(1)
    await until(stream, lambda: states(stream) == {1: State.AVAILABLE})


async def test_a_load_that_fails_in_an_unforeseen_way_fails_that_version_alone(
    world: World,
) -> None:
    def crash(directory: Path) -> None:
        if directory.name == "2":
            raise RuntimeError("unforeseen")

    world.engine.before_compile = crash
    world.write(1)
    world.write(2)
    stream = await started(world, version_policy=All())
    assert states(stream) == {1: State.AVAILABLE, 2: State.LOADING}


# When the next poll is due. A version of the shelf was written 999 s before the clock's beginning.


async def test_the_next_poll_is_due_after_the_interval(stand: Stand) -> None:
    stand.store.versions = {1: "a"}
    stream = stand.stream(poll_wait_s=30.0)
    await stand.poll(stream)
    assert stream.next_poll_s() == 30.0


async def test_a_version_just_written_is_not_waited_for_as_long_as_a_long_interval(
    stand: Stand,
) -> None:
    stand.store.versions = {1: "a"}
    stream = stand.stream(poll_wait_s=3600.0)
    await stand.poll(stream)
    assert (stream.statuses(), stream.next_poll_s()) == ([], SOON_S)
    await stand.poll(stream)
    assert (states(stream), stream.next_poll_s()) == ({1: State.LOADING}, 3600.0)


async def test_the_first_load_does_not_wait_for_ever_for_a_version_that_is_being_written(
    stand: Stand,
) -> None:
    stream = stand.stream(poll_wait_s=3600.0)
    first_load = asyncio.create_task(stream.first_load())
    for poll in range(POLLS_FOR_REST):
        assert not first_load.done()
        stand.store.versions = {1: f"part {poll}"}
        await stand.poll(stream)
    assert first_load.done()
    assert stream.statuses() == []


async def test_without_an_interval_a_failed_version_alone_is_a_reason_to_poll(
    stand: Stand,
) -> None:
    stand.store.versions = {1: "a"}
    stream = stand.stream(poll_wait_s=0.0)
    await stand.poll(stream)
    assert stream.next_poll_s() is None
    await stand.end_load(BROKEN)
    assert stream.next_poll_s() == FIRST_BACK_OFF_S
    stand.clock.now += FIRST_BACK_OFF_S
    assert stream.next_poll_s() == 0.0
    # A store that is away then neither ends the retries nor is asked without a pause.
    stand.store.away = True
    assert not await stand.poll(stream)
    assert stream.next_poll_s() == FIRST_BACK_OFF_S


# A broken newest version at the start: what a running server would still serve is served.


async def test_while_no_wanted_version_serves_the_next_lower_one_that_loads_stands_in(
    stand: Stand,
) -> None:
    stand.store.versions = {1: "a", 2: "b", 3: "c", 4: "d"}
    stream = stand.stream()
    first_load = asyncio.create_task(stream.first_load())
    await stand.poll(stream)
    for _ in range(2):
        await stand.end_load(BROKEN)
        assert not first_load.done()
        await stand.poll(stream)
    await stand.end_load()
    assert first_load.done()
    assert 1 not in stand.store.listed
    assert set(stream.available) == {2}
    assert stream.failures().keys() == {3, 4}
    stand.clock.now += 60.0
    await stand.poll(stream)
    await stand.end_load()
    assert states(stream)[4] is State.AVAILABLE
    assert set(stream.available) == {4}


async def test_a_running_server_takes_the_stand_in_that_it_would_start_with(
    stand: Stand,
) -> None:
    """While the newest version is broken: one that arrives below it, and one that is mended."""
    stand.store.versions = {1: "a", 4: "d"}
    stream = stand.stream()
    await stand.poll(stream)
    await stand.end_load(BROKEN)
    await stand.poll(stream)
    await stand.end_load()
    assert set(stream.available) == {1}
    stand.store.versions = {1: "a", 2: "b", 3: "broken", 4: "d"}
    await stand.poll(stream)
    await stand.end_load(BROKEN)
    assert set(stream.available) == {1}
    await stand.poll(stream)
    await stand.end_load()
    assert set(stream.available) == {2}
    stand.store.versions = {**stand.store.versions, 3: "mended"}
    await stand.poll(stream)
    await stand.end_load()
    assert set(stream.available) == {3}
    assert stream.failures().keys() == {4}


async def test_a_policy_that_wants_a_version_not_listed_yet_gives_nothing_up_before_it_is(
    stand: Stand,
) -> None:
    stand.store.versions = {1: "a", 2: "b"}
    stream = stand.stream()
    await stand.poll(stream)
    await stand.end_load()
    stream.adopt(Specific(frozenset({1})), {})
    assert set(stream.available) == {2}
    await stand.poll(stream)
    await stand.end_load()
    assert set(stream.available) == {1}


# What goes wrong with listings.


async def test_an_empty_listing_after_a_full_one_changes_nothing(
    stand: Stand, caplog: pytest.LogCaptureFixture
) -> None:
    """A volume that is not mounted looks so; what serves goes on until there is another version."""
    stand.unload_when_empty = False
    stand.store.versions = {1: "a"}
    stream = stand.stream()
    await stand.poll(stream)
    await stand.end_load()
    stand.store.versions = {}
    for _ in range(3):
        assert not await stand.poll(stream)
    assert set(stream.available) == {1}
    errors = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert len(errors) == 1
    assert "no version is left of 1" in errors[0]
    stand.store.versions = {2: "b"}
    await stand.poll(stream)
    await stand.end_load()
    assert set(stream.available) == {2}


@pytest.mark.parametrize(
    ("poll_wait_s", "expected"),
    [
        pytest.param(1.0, [1.0, 2.0, 4.0, 8.0, 10.0, 10.0], id="up to ten seconds"),
        pytest.param(60.0, [60.0] * 3, id="up to the poll interval, where that is longer"),
        pytest.param(0.0, [None] * 3, id="nothing is polled for without an interval"),
    ],
)
async def test_failed_listings_back_off_and_are_counted(
    stand: Stand, poll_wait_s: float, expected: list[float | None]
) -> None:
    failed: list[None] = []
    stream = stand.stream(poll_wait_s=poll_wait_s, on_trouble=lambda: failed.append(None))
    stand.store.away = True
    waits = []
    for _ in expected:
        assert not await stand.poll(stream)
        waits.append(stream.next_poll_s())
    assert waits == expected
    assert len(failed) == len(expected)
    stand.store.away = False
    await stand.poll(stream)
    assert stream.next_poll_s() == (poll_wait_s or None)


async def test_models_that_failed_together_are_listed_apart(tmp_path: Path) -> None:
    """Also where the poll interval is longer than every back-off."""
    for poll_wait_s in (1.0, 60.0):
        stand = Stand(tmp_path)
        stand.store.away = True
        waits = []
        for chance in (0.0, 0.5, 1.0):
            stream = stand.stream(poll_wait_s=poll_wait_s, chance=lambda chance=chance: chance)
            assert not await stand.poll(stream)
            waits.append(stream.next_poll_s())
        assert waits == [0.5 * poll_wait_s, 0.75 * poll_wait_s, poll_wait_s]


async def test_a_poll_interval_that_becomes_shorter_in_an_outage_counts_at_once(
    stand: Stand,
) -> None:
    stream = stand.stream(poll_wait_s=3600.0)
    stand.store.away = True
    assert not await stand.poll(stream)
    stream.poll_every(1.0)
    assert stream.next_poll_s() == LONGEST_PAUSE_S


async def test_why_a_version_is_given_up_is_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ie_serving")
    for version in (1, 2, 3):
        world.write(version)
    stream = await started(world, version_policy=All())
    world.remove(3)
    await until(stream, lambda: 3 not in stream.available)
    stream.adopt(Specific(frozenset({1})), {})
    await until(stream, lambda: 2 not in stream.available)
    await stream.retire()
    given_up = [r.getMessage() for r in caplog.records if "given up" in r.getMessage()]
    assert [line.partition("cause=")[2] for line in given_up] == [
        '"it vanished from the repository"',
        '"the policy does not want it"',
        '"its model was removed or replaced"',
    ]

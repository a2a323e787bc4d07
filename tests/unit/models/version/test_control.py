"""One version: its load, the wait before the next try, its drain and its end."""

import asyncio
import re
import weakref
from typing import Any

import pytest

from ie_serving.core.runtime.states import IllegalMove
from ie_serving.core.values.errors import LoadFailed, Unreachable
from ie_serving.core.values.versions import State, VersionStatus
from ie_serving.models.version.control import LOAD_ERROR, VersionControl, VersionWork
from tests.unit.models.stand_ins import BROKEN, Stand, candidate, settle


async def begun(work: VersionWork | None) -> asyncio.Task[None]:
    """Begin the work that follows a command."""
    assert work is not None
    task = asyncio.create_task(work)
    await settle()
    return task


async def serving(stand: Stand, **options: Any) -> VersionControl:
    control = stand.control(**options)
    await begun(control.load())
    await stand.end_load()
    return control


async def failed(stand: Stand) -> VersionControl:
    control = stand.control()
    await begun(control.load())
    await stand.end_load(BROKEN)
    return control


async def test_a_load_goes_through_its_steps_and_ends_serving(
    stand: Stand, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ie_serving")
    control = stand.control()
    assert control.is_due
    task = await begun(control.load())
    assert (control.state, control.is_due, control.servable) == (State.LOADING, False, None)
    await stand.end_load()
    assert task.done()
    assert control.status == VersionStatus(7, State.AVAILABLE, "")
    assert control.servable is not None
    lines = [str(r.msg) for r in caplog.records if "state changed" in str(r.msg)]
    assert [line.split("state=")[1] for line in lines] == [
        "LOADING stage=fetching base_path=shelf",
        "LOADING stage=compiling base_path=shelf",
        "LOADING stage=warming base_path=shelf",
        "AVAILABLE stage=serving base_path=shelf",
    ]


@pytest.mark.parametrize("failure", [BROKEN, Unreachable("store away"), RuntimeError("unforeseen")])
async def test_a_failed_load_is_due_again_after_the_back_off(
    stand: Stand, failure: Exception
) -> None:
    control = stand.control()
    for wait_s in (1.0, 2.0, 4.0):
        await begun(control.load())
        await stand.end_load(failure)
        assert control.status == VersionStatus(7, State.LOADING, f"{LOAD_ERROR}: {failure}")
        assert control.retry_at == stand.clock.now + wait_s
        assert not control.is_due
        stand.clock.now += wait_s
        assert control.is_due
    await begun(control.load())
    assert control.error
    await stand.end_load()
    assert control.status == VersionStatus(7, State.AVAILABLE, "")
    assert control.retry_at is None


@pytest.mark.parametrize(
    ("failure", "longest_s"),
    [
        pytest.param(BROKEN, 60.0, id="a broken version"),
        pytest.param(Unreachable("store away"), 10.0, id="a store that may soon be back"),
    ],
)
async def test_the_back_off_is_longer_for_what_does_not_mend_itself(
    stand: Stand, failure: Exception, longest_s: float
) -> None:
    control = stand.control()
    for _ in range(8):
        await begun(control.load())
        await stand.end_load(failure)
    assert control.retry_at == stand.clock.now + longest_s


async def test_a_warm_up_that_refuses_the_version_fails_the_load_and_frees_the_model(
    stand: Stand,
) -> None:
    stand.refusal = LoadFailed("golden request differs")
    control = stand.control()
    await begun(control.load())
    await stand.end_load()
    assert "golden request differs" in control.error
    assert stand.engine.models[0].closed
    assert stand.store.copies == []


async def test_new_content_is_tried_at_once_and_its_failures_are_counted_anew(stand: Stand) -> None:
    control = await failed(stand)
    control.found(candidate(content="a"))
    assert not control.is_due
    control.found(candidate(content="b"))
    assert control.is_due
    await begun(control.load())
    await stand.end_load(BROKEN)
    assert control.retry_at == stand.clock.now + 1.0


async def test_new_content_that_comes_during_a_retry_is_tried_when_that_has_failed(
    stand: Stand, caplog: pytest.LogCaptureFixture
) -> None:
    control = await failed(stand)
    retry = await begun(control.load())
    control.found(candidate(content="b"))
    await stand.end_load(BROKEN)
    await retry
    assert (control.is_due, control.has_failed) == (True, False)
    await begun(control.load())
    await stand.end_load(BROKEN)
    assert control.retry_at == stand.clock.now + 1.0
    lines = [r.getMessage() for r in caplog.records if "failed to load" in r.getMessage()]
    tries = [re.search(r"attempt=(\d+) next_try_s=(\S+)", line) for line in lines]
    assert [each and each.groups() for each in tries] == [("1", "1"), ("2", "0"), ("1", "1")]


async def test_a_version_that_is_being_written_is_not_due(stand: Stand) -> None:
    control = stand.control()
    control.found(candidate(at_rest=False))
    assert not control.is_due


async def test_a_store_that_answers_again_cuts_the_back_off_short(stand: Stand) -> None:
    control = await failed(stand)
    control.retry_now()
    assert control.is_due


async def test_a_version_that_never_was_in_memory_ends_at_once_when_it_is_dropped(
    stand: Stand,
) -> None:
    for control in (stand.control(), await failed(stand)):
        assert control.drop() is None
        assert control.status == VersionStatus(7, State.END, "")


@pytest.mark.parametrize("failure", [None, BROKEN])
async def test_a_version_dropped_while_it_loads_is_gone_when_the_load_has_ended(
    stand: Stand, failure: Exception | None
) -> None:
    control = stand.control()
    task = await begun(control.load())
    assert control.drop() is None
    assert (control.state, control.is_settled) == (State.UNLOADING, False)
    await stand.end_load(failure)
    assert task.done()
    assert control.status == VersionStatus(7, State.END, "")
    assert all(model.closed for model in stand.engine.models)
    assert stand.store.copies == []


async def test_a_version_is_freed_after_its_last_holder(stand: Stand) -> None:
    control = await serving(stand)
    assert control.servable is not None
    with control.servable:
        task = await begun(control.drop())
        assert (control.state, control.servable) == (State.UNLOADING, None)
        assert not stand.engine.models[0].closed
    await settle()
    assert task.done()
    assert control.state is State.END
    assert stand.engine.models[0].closed
    assert stand.store.copies == []


async def test_after_the_drain_timeout_the_memory_is_left_to_its_holders(stand: Stand) -> None:
    control = await serving(stand, drain_timeout_s=0.0)
    assert control.servable is not None
    with control.servable:
        await begun(control.drop())
        assert control.state is State.END
        assert not stand.engine.models[0].closed


async def test_a_model_that_cannot_be_closed_ends_all_the_same(stand: Stand) -> None:
    control = await serving(stand)
    stand.engine.models[0].close()  # a second one raises
    await begun(control.drop())
    assert control.state is State.END


async def test_a_command_at_the_wrong_time_is_refused_and_changes_nothing(stand: Stand) -> None:
    control = await serving(stand)
    with pytest.raises(IllegalMove):
        control.load()
    assert control.state is State.AVAILABLE


@pytest.mark.parametrize("drain_timeout_s", [3600.0, 0.0])
async def test_memory_goes_with_the_version_without_the_garbage_collector(
    stand: Stand, no_collection: None, drain_timeout_s: float
) -> None:
    """What front ends bind to a servable refers back to it, and must not keep it.

    With a drain timeout that is over at once, the memory goes with the last request.
    """
    control = await serving(stand, drain_timeout_s=drain_timeout_s)
    assert control.servable is not None
    control.servable.bound["front end"] = control.servable
    kept = [weakref.ref(control.servable), weakref.ref(stand.engine.models[0])]
    stand.engine.models.clear()
    with control.servable:
        work = await begun(control.drop())
    await work
    assert control.state is State.END
    assert [ref() for ref in kept] == [None, None]


@pytest.mark.parametrize(
    ("failure", "state"), [(None, State.AVAILABLE), (BROKEN, State.LOADING)], ids=["well", "badly"]
)
async def test_a_load_that_takes_too_long_counts_as_failed_until_it_ends(
    stand: Stand, caplog: pytest.LogCaptureFixture, failure: Exception | None, state: State
) -> None:
    told = asyncio.Event()
    control = stand.control(load_timeout_s=0.01, on_overdue=told.set)
    loading = await begun(control.load())
    await told.wait()
    assert (control.state, control.is_settled, control.has_failed) == (
        State.LOADING,
        True,
        True,
    )
    assert "it takes longer than 0.01 s; it goes on" in control.error
    assert not control.is_due, "a load is never begun twice at a time"
    await stand.end_load(failure)
    assert loading.done()
    assert control.state is state
    assert control.error == ("" if failure is None else f"{LOAD_ERROR}: {failure}")
    assert "load takes too long model=m version=7 base_path=shelf stage=" in caplog.text


async def test_a_version_that_is_dropped_while_its_load_takes_too_long_is_freed_at_its_end(
    stand: Stand,
) -> None:
    told = asyncio.Event()
    control = stand.control(load_timeout_s=0.01, on_overdue=told.set)
    await begun(control.load())
    await told.wait()
    assert control.drop() is None
    await stand.end_load()
    assert control.state is State.END
    assert stand.store.copies == []


async def test_a_version_that_cannot_be_left_cleanly_raises_nothing(
    stand: Stand, caplog: pytest.LogCaptureFixture
) -> None:
    """Others are left behind it, and the process ends with exit code 0 all the same."""
    control = await serving(stand)
    stand.store.copies.clear()  # what is to be given back is gone
    control.leave()
    assert "version not freed cleanly model=m" in caplog.text

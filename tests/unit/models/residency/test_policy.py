"""Whatever is in memory, the policy makes room in the right order, or says that it cannot."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ie_serving.models.residency.policy import (
    HEAD_OF_LINE_S,
    LONGEST_S,
    BusyAction,
    Evict,
    Refuse,
    Resident,
    Trim,
    idle_too_long,
    make_room,
    measured_size,
)

SIZES = st.integers(0, 1000)


@st.composite
def some_residents(draw: st.DrawFn) -> list[Resident]:
    rows = st.tuples(SIZES, st.integers(0, 20), st.booleans(), st.booleans())
    drawn = sorted(draw(st.lists(rows, max_size=12)), key=lambda row: row[1])
    return [
        Resident(f"m{at}", size, float(used), in_use, pinned)
        for at, (size, used, in_use, pinned) in enumerate(drawn)
    ]


@given(some_residents(), st.integers(-2000, 2000), SIZES, st.integers(-500, 12_000))
@example([], -1, 0, 0)
def test_steps_end_with_room_or_with_a_reason(
    residents: list[Resident], free: int, needed: int, limit: int
) -> None:
    left, now = {each.name: each for each in residents}, free
    while isinstance(step := make_room(left.values(), now, needed, limit), Evict):
        assert needed <= limit
        gone = left.pop(step.name)
        assert not (gone.in_use or gone.pinned)
        others = [each for each in left.values() if not (each.in_use or each.pinned)]
        assert all(gone.last_use <= each.last_use for each in others)
        now += gone.size
    if step is None:
        assert needed <= now
    elif isinstance(step, Refuse):
        assert needed > step.most or needed == 0 > now
        assert needed > limit or all(each.pinned for each in left.values())
    else:
        assert step is BusyAction.WAIT
        assert all(each.in_use for each in left.values() if not each.pinned)
        assert not all(each.pinned for each in left.values())


@given(some_residents(), st.integers(-2000, 2000), SIZES, st.integers(-500, 12_000), SIZES)
def test_idle_models_go_for_what_is_spare_and_no_load_waits_or_is_refused(
    residents: list[Resident], free: int, needed: int, limit: int, spare: int
) -> None:
    step = make_room(residents, free, needed, limit, spare)
    if not isinstance(step, Evict):
        assert step == make_room(residents, free, needed, limit)
        is_idle = any(not (each.in_use or each.pinned) for each in residents)
        assert step or needed + spare <= free or not is_idle


@pytest.mark.parametrize(
    ("waited_s", "step"),
    [
        pytest.param(HEAD_OF_LINE_S, BusyAction.WAIT, id="the loads behind it wait as well"),
        pytest.param(HEAD_OF_LINE_S + 0.1, BusyAction.STEP_ASIDE, id="loads that fit go on"),
        pytest.param(LONGEST_S, BusyAction.STEP_ASIDE, id="still"),
        pytest.param(LONGEST_S + 0.1, BusyAction.GIVE_UP, id="it is refused"),
    ],
)
def test_a_load_waits_for_a_model_in_use(waited_s: float, step: BusyAction) -> None:
    busy = Resident("busy", 60, 0.0, in_use=True)
    assert make_room([busy], 40, 60, 100, waited_s=waited_s) is step
    idle = Resident("idle", 20, 1.0)
    assert make_room([busy, idle], 40, 60, 100, waited_s=waited_s) == Evict("idle")
    assert make_room([busy], 60, 60, 100, waited_s=waited_s) is None


@pytest.mark.parametrize(
    ("trimmed", "step"),
    [
        pytest.param(60, Trim(), id="trimmed heaps may make room"),
        pytest.param(59, Refuse(40), id="trimmed heaps cannot make room"),
        pytest.param(0, Refuse(40), id="the heaps are trimmed"),
    ],
)
def test_the_heaps_are_trimmed_before_a_load_is_refused(trimmed: int, step: Trim | Refuse) -> None:
    assert make_room([], 40, 60, 100, trimmed=trimmed) == step
    idle = Resident("idle", 20, 1.0)
    assert make_room([idle], 40, 60, 100, trimmed=trimmed) == Evict("idle")


@given(some_residents(), st.integers(-2000, 0), SIZES)
def test_models_that_hold_more_than_is_believed_are_unloaded_all_the_same(
    residents: list[Resident], free: int, needed: int
) -> None:
    """However far the budget is exceeded, an idle model goes before a load is refused."""
    step = make_room(residents, free - 1, needed, 1 << 40)
    assert isinstance(step, Evict) is any(not (e.in_use or e.pinned) for e in residents)


@given(some_residents(), st.integers(-500, 2000), SIZES, SIZES)
def test_a_load_that_cannot_fit_unloads_nothing(
    residents: list[Resident], free: int, needed: int, limit: int
) -> None:
    if needed > max(free, limit):
        assert isinstance(make_room(residents, free, needed, limit), Refuse)


@given(SIZES, SIZES, SIZES)
def test_a_model_that_has_fitted_fits_again_when_all_else_is_unloaded(
    taken: int, stored: int, most: int
) -> None:
    size = measured_size(taken, stored, most)
    assert size >= stored
    assert make_room([], most, size, most) is None or stored > most
    assert measured_size(taken, stored, None) == max(taken, stored)


@given(some_residents(), st.integers(0, 20))
def test_only_idle_models_are_unloaded_for_their_idleness(
    residents: list[Resident], before: int
) -> None:
    named = set(idle_too_long(residents, before))
    for each in residents:
        is_idle = not each.in_use and not each.pinned and each.last_use < before
        assert (each.name in named) is is_idle

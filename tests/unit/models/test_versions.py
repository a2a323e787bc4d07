"""The life of a version is the table, and an event that the table lacks changes nothing."""

import itertools

import pytest

from ie_serving.models.versions import (
    TRANSITIONS,
    Event,
    IllegalEvent,
    State,
    VersionLife,
)


def life_in(state: State) -> VersionLife:
    """A life that went by legal events to `state`."""
    path = {
        State.START: [],
        State.LOADING: [Event.LOAD],
        State.AVAILABLE: [Event.LOAD, Event.READY],
        State.UNLOADING: [Event.LOAD, Event.READY, Event.DROP],
        State.END: [Event.DROP],
    }[state]
    life = VersionLife(7)
    for event in path:
        life.apply(event)
    return life


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_every_pair_is_in_the_table_or_refused_without_a_trace(state: State, event: Event) -> None:
    life = life_in(state)
    if event in TRANSITIONS[state]:
        assert life.apply(event) is TRANSITIONS[state][event] is life.state
        return
    with pytest.raises(IllegalEvent, match=f"version 7: {event.value} in {state.name}"):
        life.apply(event)
    assert life.state is state


def test_numbers_are_those_of_the_protocol() -> None:
    assert [int(state) for state in State] == [10, 20, 30, 40, 50]


def test_a_failed_load_stays_loading_with_its_error_until_it_succeeds() -> None:
    life = life_in(State.LOADING)
    assert life.apply(Event.FAIL, "no such operation") is State.LOADING
    life.apply(Event.LOAD)
    assert life.error == "no such operation"
    life.apply(Event.READY)
    assert life.error == ""


def test_end_is_final() -> None:
    assert not TRANSITIONS[State.END]

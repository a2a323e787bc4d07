"""What may follow what in the life of a TensorFlow process."""

import pytest

from ie_serving.engines.process.states import TRANSITIONS, Event, Stage


@pytest.mark.parametrize("stage", Stage)
def test_every_stage_can_be_closed(stage: Stage) -> None:
    assert TRANSITIONS[stage][Event.CLOSE] is Stage.CLOSED


@pytest.mark.parametrize("event", Event)
def test_nothing_reopens_what_is_closed(event: Event) -> None:
    assert TRANSITIONS[Stage.CLOSED][event] is Stage.CLOSED


def test_what_has_died_is_started_again_after_a_pause() -> None:
    stage = Stage.SERVING
    for event in (Event.DIED, Event.DUE, Event.READY):
        stage = TRANSITIONS[stage][event]
    assert stage is Stage.SERVING


def test_a_pause_has_no_process_that_could_be_ready_or_die() -> None:
    assert set(TRANSITIONS[Stage.PAUSING]) == {Event.DUE, Event.CLOSE}

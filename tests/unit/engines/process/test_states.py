"""What may follow what in the life of a TensorFlow process."""

import pytest

from ie_serving.engines.process.states import TRANSITIONS, ProcessEvent, ProcessStage


@pytest.mark.parametrize("stage", ProcessStage)
def test_every_stage_can_be_closed(stage: ProcessStage) -> None:
    assert TRANSITIONS[stage][ProcessEvent.CLOSE] is ProcessStage.CLOSED


@pytest.mark.parametrize("event", ProcessEvent)
def test_nothing_reopens_what_is_closed(event: ProcessEvent) -> None:
    assert TRANSITIONS[ProcessStage.CLOSED][event] is ProcessStage.CLOSED


def test_what_has_died_is_started_again_after_a_pause() -> None:
    stage = ProcessStage.SERVING
    for event in (ProcessEvent.DIED, ProcessEvent.DUE, ProcessEvent.READY):
        stage = TRANSITIONS[stage][event]
    assert stage is ProcessStage.SERVING


def test_a_pause_has_no_process_that_could_be_ready_or_die() -> None:
    assert set(TRANSITIONS[ProcessStage.PAUSING]) == {ProcessEvent.DUE, ProcessEvent.CLOSE}

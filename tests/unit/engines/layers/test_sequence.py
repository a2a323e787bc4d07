"""The life of one sequence: every event in every stage, and turns in order."""

import asyncio
from itertools import product

import pytest

from ie_serving.core.runtime.states import IllegalMove
from ie_serving.core.values.errors import QueueFull
from ie_serving.engines.layers import sequence as module
from ie_serving.engines.layers.sequence import (
    ADMITTING,
    TRANSITIONS,
    Sequence,
    SequenceEvent,
    SequenceStage,
    SequenceTurns,
)
from tests.state_drawings import moves
from tests.unit.moves import check_moves, parsed

# After GONE only the END still fails that had waited for a START which failed.
MOVES = """
          STARTED  START_FAILED  END     ENDED  END_FAILED  IDLE
STARTING  OPEN     GONE          BRIEF   .      .           .
BRIEF     ENDING   GONE          .       .      STARTING    .
OPEN      .        .             ENDING  .      .           GONE
ENDING    .        .             .       GONE   OPEN        .
GONE      .        .             .       .      GONE        .
"""


def in_stage(stage: SequenceStage) -> Sequence:
    made = Sequence(7, "serving_default")
    made.stage = stage
    return made


@pytest.mark.parametrize(("stage", "event"), list(product(SequenceStage, SequenceEvent)))
def test_an_event_moves_as_written_here_or_is_refused_and_changes_nothing(
    stage: SequenceStage, event: SequenceEvent
) -> None:
    sequence = in_stage(stage)
    following = parsed(MOVES)[stage.name, event.name]
    if following == ".":
        with pytest.raises(IllegalMove, match=f"sequence 7: {event.value} while {stage.value}"):
            sequence.apply(event)
        assert sequence.stage is stage
    else:
        assert sequence.apply(event) is SequenceStage[following] is sequence.stage


def test_every_event_in_every_stage_leads_as_written_here() -> None:
    check_moves(TRANSITIONS, SequenceStage, SequenceEvent, MOVES)


def test_the_docstring_has_every_move() -> None:
    assert moves(TRANSITIONS) in str(module.__doc__)


def test_each_stage_is_left_but_the_last_and_only_those_before_the_end_admit() -> None:
    assert [stage for stage in SequenceStage if not set(TRANSITIONS[stage].values()) - {stage}] == [
        SequenceStage.GONE
    ]
    assert {SequenceStage.BRIEF, SequenceStage.ENDING, SequenceStage.GONE}.isdisjoint(ADMITTING)


def test_a_sequence_that_has_ended_keeps_no_state() -> None:
    sequence = in_stage(SequenceStage.ENDING)
    sequence.state = {"state:total": None}  # type: ignore[dict-item]
    sequence.apply(SequenceEvent.ENDED)
    assert sequence.state == {}


async def tidy(*tasks: "asyncio.Task[None]") -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


class Line:
    """Users of one `SequenceTurns`, who note when they are let in and leave when they are told."""

    def __init__(self) -> None:
        self.turns = SequenceTurns()
        self.entered: list[int] = []
        self.leave = asyncio.Event()

    def join(self, number: int) -> "asyncio.Task[None]":
        return asyncio.create_task(self._use(number))

    async def _use(self, number: int) -> None:
        async with self.turns:
            self.entered.append(number)
            await self.leave.wait()


async def turn_of_the_loop() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_turns_come_in_the_order_of_arrival() -> None:
    line = Line()
    tasks = [line.join(i) for i in range(10)]
    await turn_of_the_loop()
    assert line.entered == [0]
    assert line.turns.taken
    line.leave.set()
    await asyncio.wait_for(asyncio.gather(*tasks), 10)
    assert line.entered == list(range(10))
    assert not line.turns.taken


@pytest.mark.parametrize("handed_over", [False, True])
async def test_a_cancelled_turn_goes_to_the_next(handed_over: bool) -> None:
    line = Line()
    first, second, third = (line.join(i) for i in range(3))
    await turn_of_the_loop()
    if handed_over:
        line.turns.release()  # the second is let in, and cancelled before it runs
    second.cancel()
    first.cancel()
    await turn_of_the_loop()
    line.leave.set()
    await asyncio.wait_for(tidy(first, second, third), 10)
    assert line.entered == [0, 2]
    assert not line.turns.taken


async def test_too_many_are_refused_and_take_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SEQUENCE_WAITERS", 2)
    line = Line()
    tasks = [line.join(i) for i in range(3)]
    await turn_of_the_loop()
    with pytest.raises(QueueFull, match="2 requests wait in this sequence already"):
        await line.join(3)
    tasks[2].cancel()
    tasks.append(line.join(4))
    await turn_of_the_loop()
    line.leave.set()
    await asyncio.wait_for(tidy(*tasks), 10)
    assert line.entered == [0, 1, 4]

"""The life of a version is two tables, and an event that they lack changes nothing."""

import itertools
from pathlib import Path

import pytest

from ie_serving.core.runtime.states import IllegalMove
from ie_serving.core.values.versions import State
from ie_serving.models.version.states import (
    AWAITING_LOAD,
    SETTLED,
    STATE_OF,
    TRANSITIONS,
    VersionEvent,
    VersionLife,
    VersionStage,
)
from tests.unit.moves import check_moves, parsed

DESIGN = Path(__file__).resolve().parents[4] / "docs" / "design" / "versions.md"

TABLE = """\
stage       clients see   event       next stage
queued      START         load     -> fetching
                          drop     -> freed
fetching    LOADING       fetched  -> compiling
                          fail     -> failed
                          expire   -> overdue
                          drop     -> abandoned
compiling   LOADING       compiled -> warming
                          fail     -> failed
                          expire   -> overdue
                          drop     -> abandoned
warming     LOADING       ready    -> serving
                          fail     -> failed
                          expire   -> overdue
                          drop     -> abandoned
serving     AVAILABLE     drop     -> draining
failed      LOADING       load     -> fetching
                          drop     -> freed
overdue     LOADING       fetched  -> overdue
                          compiled -> overdue
                          ready    -> serving
                          fail     -> failed
                          drop     -> abandoned
abandoned   UNLOADING     fetched  -> abandoned
                          compiled -> abandoned
                          ready    -> draining
                          fail     -> freed
draining    UNLOADING     freed    -> freed
freed       END
"""
"""What the two tables say; docs/design/versions.md says the same."""

MOVES = """
           LOAD      FETCHED    COMPILED   READY     FAIL    EXPIRE   DROP       FREED
QUEUED     FETCHING  .          .          .         .       .        FREED      .
FETCHING   .         COMPILING  .          .         FAILED  OVERDUE  ABANDONED  .
COMPILING  .         .          WARMING    .         FAILED  OVERDUE  ABANDONED  .
WARMING    .         .          .          SERVING   FAILED  OVERDUE  ABANDONED  .
SERVING    .         .          .          .         .       .        DRAINING   .
FAILED     FETCHING  .          .          .         .       .        FREED      .
OVERDUE    .         OVERDUE    OVERDUE    SERVING   FAILED  .        ABANDONED  .
ABANDONED  .         ABANDONED  ABANDONED  DRAINING  FREED   .        .          .
DRAINING   .         .          .          .         .       .        .          FREED
FREED      .         .          .          .         .       .        .          .
"""


def life_in(stage: VersionStage) -> VersionLife:
    life = VersionLife(7)
    life.stage = stage
    return life


def printed() -> str:
    lines = ["stage       clients see   event       next stage"]
    for stage in VersionStage:
        head = f"{stage.value:12}{STATE_OF[stage].name:14}"
        moves = [f"{e.value:8} -> {after.value}" for e, after in TRANSITIONS[stage].items()]
        lines.append(head + (moves[0] if moves else ""))
        lines += [f"{'':26}{move}" for move in moves[1:]]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def test_the_tables_are_what_is_written_here_and_in_the_design() -> None:
    assert printed() == TABLE
    block = DESIGN.read_text().split("<!-- states: begin -->\n")[1].split("<!-- states: end -->")[0]
    assert block == f"```\n{TABLE}```\n"


def test_every_event_in_every_stage_leads_as_written_here() -> None:
    check_moves(TRANSITIONS, VersionStage, VersionEvent, MOVES)


@pytest.mark.parametrize(("stage", "event"), list(itertools.product(VersionStage, VersionEvent)))
def test_every_pair_moves_as_written_here_or_refused_without_a_trace(
    stage: VersionStage, event: VersionEvent
) -> None:
    life = life_in(stage)
    following = parsed(MOVES)[stage.name, event.name]
    if following != ".":
        assert life.apply(event) is VersionStage[following] is life.stage
        assert life.state is STATE_OF[life.stage]
        return
    with pytest.raises(IllegalMove, match=f"version 7: {event.value} while {stage.value}"):
        life.apply(event)
    assert life.stage is stage


def test_every_stage_has_a_public_state_and_numbers_are_those_of_the_protocol() -> None:
    assert set(STATE_OF) == set(TRANSITIONS) == set(VersionStage)
    assert [int(state) for state in State] == [10, 20, 30, 40, 50]


def test_clients_never_see_a_version_go_back_but_to_load_again() -> None:
    """The public numbers grow along every move; a further try goes from LOADING to LOADING."""
    for before, moves in TRANSITIONS.items():
        for after in moves.values():
            assert STATE_OF[after] >= STATE_OF[before]


def test_a_load_begins_exactly_where_the_table_has_one() -> None:
    assert {
        stage for stage in VersionStage if VersionEvent.LOAD in TRANSITIONS[stage]
    } == AWAITING_LOAD


def test_a_settled_stage_is_left_by_a_command_alone() -> None:
    """Only `load` and `drop` are commands. A load that is overdue goes on without a waiter."""
    commands = {VersionEvent.LOAD, VersionEvent.DROP}
    by_itself = {stage for stage in VersionStage if TRANSITIONS[stage].keys() - commands}
    assert by_itself | SETTLED | {VersionStage.QUEUED} == set(VersionStage)
    assert by_itself & SETTLED == {VersionStage.OVERDUE}


def test_an_error_is_shown_until_the_version_serves_or_is_dropped() -> None:
    life = life_in(VersionStage.FETCHING)
    life.apply(VersionEvent.FAIL, "no such operation")
    for event in (VersionEvent.LOAD, VersionEvent.FETCHED, VersionEvent.COMPILED):
        life.apply(event)
        assert (life.state, life.error) == (State.LOADING, "no such operation")
    life.apply(VersionEvent.READY)
    assert life.error == ""


def test_a_load_that_fails_after_the_version_was_dropped_leaves_no_error() -> None:
    life = life_in(VersionStage.ABANDONED)
    life.apply(VersionEvent.FAIL, "no such operation")
    assert (life.state, life.error) == (State.END, "")


def test_a_life_begins_queued_and_its_end_is_final() -> None:
    assert VersionLife(7).stage is VersionStage.QUEUED
    assert not TRANSITIONS[VersionStage.FREED]

"""Compares a table of states with one that a test writes out: every event in every state."""

import enum
from collections.abc import Mapping
from typing import Any

import pytest

from ie_serving.core.runtime.states import IllegalMove, after

Table = Mapping[Any, Mapping[Any, Any]]


def check_moves(
    table: Table, states: type[enum.Enum], events: type[enum.Enum], expected: str
) -> None:
    """Feed every event to every state.

    Args:
        table: of the machine.
        states: all of them.
        events: all of them.
        expected: a line for each state, a column for each event, by their names; a dot where the
            event is refused.
    """
    head, *lines = (line.split() for line in expected.strip().splitlines())
    assert head == [event.name for event in events]
    assert [line[0] for line in lines] == [state.name for state in states]
    for state, (_, *targets) in zip(states, lines, strict=True):
        for event, target in zip(events, targets, strict=True):
            if target == ".":
                with pytest.raises(IllegalMove, match=f"it: .*{_word(event)} while"):
                    after(table, state, event, "it")
            else:
                assert after(table, state, event) is states[target], (state, event)


def parsed(expected: str) -> dict[tuple[str, str], str]:
    """Read such a text: the next state's name, or a dot, by the names of state and event."""
    head, *lines = (line.split() for line in expected.strip().splitlines())
    return {
        (state, event): target
        for state, *targets in lines
        for event, target in zip(head, targets, strict=True)
    }


def _word(member: enum.Enum) -> str:
    return member.value if isinstance(member.value, str) else member.name

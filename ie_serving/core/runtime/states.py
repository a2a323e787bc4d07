"""The machine of all tables of states: which event leads from which state to which.

A table says every legal move. An event that a state's row does not name is a defect of the caller:
`after` raises and nothing changes, so the defect shows where it happens. The error names state and
event by their values where these are words, else by the names of the members.

Code that moves once for each frame indexes the table itself: an illegal event is a KeyError there.
"""

import enum
from collections.abc import Mapping
from typing import TypeVar

StateT = TypeVar("StateT", bound=enum.Enum)
EventT = TypeVar("EventT", bound=enum.Enum)


class IllegalMove(RuntimeError):
    """A defect of the caller: its event is not permitted in the present state."""

    def __init__(self, state: enum.Enum, event: enum.Enum, what: str = "") -> None:
        super().__init__(f"{what}{': ' if what else ''}{_word(event)} while {_word(state)}")


def after(
    table: Mapping[StateT, Mapping[EventT, StateT]], state: StateT, event: EventT, what: str = ""
) -> StateT:
    """Return the state after `event`.

    Args:
        table: table of the machine.
        state: the present one.
        event: event that happens.
        what: names the thing that has the state, for the error.

    Raises:
        IllegalMove: the table has no such move.
    """
    following = table[state].get(event)
    if following is None:
        raise IllegalMove(state, event, what)
    return following


def _word(member: enum.Enum) -> str:
    return member.value if isinstance(member.value, str) else member.name

"""Drawings of state tables, as they stand in the docstrings of their modules."""

import enum
from collections.abc import Mapping
from typing import Any


def moves(table: Mapping[Any, Mapping[Any, Any]]) -> str:
    """Print each move of a table that leads to another state: state, event, next state."""
    found = [
        (word(state), word(event), word(following))
        for state, row in table.items()
        for event, following in row.items()
        if following is not state
    ]
    wide, long = (max(len(move[column]) for move in found) for column in (0, 1))
    return "".join(
        f"    {state:{wide}}   {event:{long}} -> {following}\n" for state, event, following in found
    )


def word(member: enum.Enum) -> str:
    """The words of a state or an event."""
    return member.value if isinstance(member.value, str) else member.name

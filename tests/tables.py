"""Tables of cases whose rows name themselves: a test's id says which row failed."""

import enum
from collections.abc import Collection, Sequence
from typing import Any

import pytest

LONGEST_ID = 60
"""Characters of a value that stand in an id; a longer value is cut there."""


def named_by(columns: str, names: Sequence[str], rows: Collection[Any]) -> pytest.MarkDecorator:
    """Parametrize a test, as `pytest.mark.parametrize` does, with an id from each row's own words.

    Args:
        columns: the columns, separated by blanks, whose values together name a row.
        names: the parameters of the test, one for each column.
        rows: the cases; a row that is a `pytest.param` with an id keeps that.
    """
    at = [names.index(column) for column in columns.split()]
    return pytest.mark.parametrize(names, rows, ids=[_id(row, at) for row in rows])


def _id(row: Any, at: list[int]) -> str | None:
    values = getattr(row, "values", row)
    if row is not values and row.id is not None:
        return None
    return " ".join(_text(values[place]) for place in at)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        text = value[:LONGEST_ID].decode("ascii", "backslashreplace")
    elif isinstance(value, enum.Enum):
        text = value.name
    elif callable(value):
        text = value.__name__.replace("_", " ")
    elif isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        text = " ".join(value)
    else:
        text = str(value)
    return text[:LONGEST_ID] or "nothing"

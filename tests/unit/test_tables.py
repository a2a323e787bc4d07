"""`tests/tables.py`: the ids of rows that name themselves."""

import enum
from typing import Any

import pytest

from tests.tables import named_by


class Colour(enum.Enum):
    """Its members are named, whatever their values are."""

    RED = 1


def some_case() -> None: ...


@pytest.mark.parametrize(
    ("value", "id_"),
    [
        pytest.param("a text", "a text", id="a text"),
        pytest.param("", "nothing", id="an empty text"),
        pytest.param(b"a\xff", r"a\xff", id="bytes"),
        pytest.param(("--port", "1"), "--port 1", id="words"),
        pytest.param([], "nothing", id="an empty list"),
        pytest.param((1, 2), "(1, 2)", id="a shape"),
        pytest.param(Colour.RED, "RED", id="an enumeration"),
        pytest.param(some_case, "some case", id="a function"),
        pytest.param("x" * 100, "x" * 60, id="a long text"),
    ],
)
def test_a_row_is_named_by_its_value(value: Any, id_: str) -> None:
    assert named_by("x", ("x", "y"), [(value, 1)]).mark.kwargs["ids"] == [id_]


def test_a_row_is_named_by_several_columns_or_its_own_id() -> None:
    rows = [("GET", 200, "/"), pytest.param("GET", 404, "/x", id="a stranger's")]
    found = named_by("method path", ("method", "code", "path"), rows)
    assert found.mark.kwargs["ids"] == ["GET /", None]

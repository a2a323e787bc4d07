"""The tables of docs/ say what the declarations of the settings say: `make configuration`."""

from pathlib import Path

import pytest

from tests.unit.config.document import FILES, TABLES, written


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_tables_are_as_declared(file: Path) -> None:
    text = file.read_text()
    assert text == written(text)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_stands_in_one_place(name: str) -> None:
    together = "".join(file.read_text() for file in FILES)
    assert together.count(f"<!-- {name}: begin -->\n") == 1
    assert together.count(f"\n<!-- {name}: end -->") == 1

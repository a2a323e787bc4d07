"""The pages of the API say what the table says, and tell of every deviation."""

from pathlib import Path

import pytest

from tests.functional.conformance.cases import SECTIONS
from tests.functional.conformance.document import API, documents


@pytest.mark.parametrize("file", documents(), ids=lambda file: file.name)
def test_the_document_is_up_to_date(file: Path) -> None:
    assert file.read_text(encoding="utf-8") == documents()[file], "write it anew with `make api`"


def test_there_is_no_page_that_the_table_does_not_make() -> None:
    assert {*API.iterdir()} == {file for file in documents() if file.parent == API}


def test_every_deviation_stands_in_its_row() -> None:
    deviations = [case.deviation for section in SECTIONS for case in section.cases]
    assert "".join(documents().values()).count("**Deviation**: ") == sum(map(bool, deviations))

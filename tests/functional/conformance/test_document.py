"""docs/api.md is what the table says, and tells of every deviation."""

from tests.functional.conformance.cases import SECTIONS
from tests.functional.conformance.document import PATH, document


def test_the_document_is_up_to_date() -> None:
    assert PATH.read_text(encoding="utf-8") == document(), "write it anew with `make api`"


def test_every_deviation_stands_in_its_row() -> None:
    deviations = [case.deviation for section in SECTIONS for case in section.cases]
    assert document().count("**Deviation**: ") == sum(map(bool, deviations))

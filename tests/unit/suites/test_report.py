"""The table of results."""

from tests.suites import report
from tests.suites.judging import Kind, Outcome
from tests.suites.modes import MODES, places

FIRST, SECOND = MODES[:2]
PAGE = f"# Suites\n\n{report.BEGIN}{report.END}\n\nAfter.\n"


def test_a_row_counts_each_kind_over_predict_and_what_is_right_over_the_others() -> None:
    kinds = {"predict": Kind.WRONG, "rest": Kind.NOT_CARRIED, "raw": Kind.RIGHT}
    measured = {("a", place): Outcome(kinds[place.interface]) for place in places(FIRST)}
    row = "| fixed | f32 | openvino | 0 | 0 | 0 | 0 | 1 | 0 | 0 | 0 | 1 | here |\n"
    assert report.row(FIRST, measured, "here") == row


def test_a_run_replaces_its_own_rows_alone() -> None:
    first, second = (f"| {' | '.join(mode)} | 1 |\n" for mode in (FIRST, SECOND))
    page = report.with_rows(PAGE, {SECOND: second})
    page = report.with_rows(page, {FIRST: "old\n"})
    page = report.with_rows(page, {FIRST: first})
    rows = report.HEAD + first + second
    assert page == f"# Suites\n\n{report.BEGIN}{rows}{report.END}\n\nAfter.\n"

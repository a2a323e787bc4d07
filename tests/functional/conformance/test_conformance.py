"""Every row of the table, sent over the wire with the real clients."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.functional.conformance.calls import check_calls
from tests.functional.conformance.case import SHARED, Calls, Case, Reload, Rest, Rpc, Triton
from tests.functional.conformance.cases import SECTIONS
from tests.functional.conformance.cases.reload import BEFORE, WITHOUT_LABELS
from tests.functional.conformance.client import (
    RELOADS,
    call,
    check_reload,
    check_rest,
    check_rpc,
)
from tests.functional.conformance.conftest import placed
from tests.functional.conformance.regions import Region, check_triton
from tests.functional.conformance.texts import is_theirs
from tests.functional.servers import Server

OPEN_INFERENCE = "5"
"""Number of the chapter with requests that TensorFlow Serving does not know."""
ROWS = [
    pytest.param(
        case, section.title[0] != OPEN_INFERENCE, id=f"{section.title.split(' ')[0]} {case.id}"
    )
    for section in SECTIONS
    for case in section.cases
]


@pytest.mark.parametrize(("case", "known"), ROWS)
def test_a_row_is_answered_as_the_table_says(
    case: Case, known: bool, servers: Mapping[str, Server], repository: Path, region: Region
) -> None:
    server = servers[case.server]
    text = ""
    if case.server == SHARED:
        region.prepare(server)
    if isinstance(case, Triton):
        check_triton(server, case, region)
    elif isinstance(case, Calls):
        check_calls(server, case)
    elif isinstance(case, Rpc):
        text = check_rpc(server, case)
    elif isinstance(case, Rest):
        text = check_rest(server, case)
    elif isinstance(case, Reload):
        for before in (WITHOUT_LABELS, BEFORE):
            code, text, _ = call(server, RELOADS, placed(before, repository))
            assert code == "OK", text
        text = check_reload(server, replace(case, request=placed(case.request, repository)))
    region.check(case.written)
    # Clients compare whole texts.
    assert not text or not known or case.deviation or is_theirs(text), text
    assert "Traceback" not in server.log


def test_the_table_has_at_least_250_rows_and_no_name_twice() -> None:
    for section in SECTIONS:
        names = [case.id for case in section.cases]
        assert len(set(names)) == len(names), section.title
    assert sum(len(section.cases) for section in SECTIONS) >= 250

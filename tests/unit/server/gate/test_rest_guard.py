"""What the guard of REST remembers of the requests that it has passed on."""

from collections.abc import Mapping

import pytest

from ie_serving.core.values.access import ConcernedModels, Need, Right
from ie_serving.server.gate.gate import LONGEST_TARGET, RestGuard
from ie_serving.server.transport.http1.messages import Reply, Request, RequestHead
from tests.unit.server.gate.callers import access

NEEDS: Mapping[str, Need] = {"metrics": Need(Right.READ, ConcernedModels.ALL)}


@pytest.mark.parametrize(("query", "remembered"), [(b"", 1), (b"x" * LONGEST_TARGET, 0)])
async def test_only_short_targets_fill_the_memory(query: bytes, remembered: int) -> None:
    """A caller chooses the query of a page, which changes nothing of it."""

    async def app(request: Request) -> Reply:
        return Reply(200, (), b"")

    def refused(error: BaseException) -> None:
        raise AssertionError(error)

    gate = access()
    guard = RestGuard(
        app, gate, NEEDS, lambda _: ("metrics", ""), lambda _: Reply(500, (), b""), refused
    )
    fields = {b"x-api-key": b"carols-key"}
    head = RequestHead("GET", b"/metrics", query, "1.1", (), fields, 0, True, False)
    for _ in range(2):
        assert (await guard.answer(Request(head, b""))).status == 200
    assert len(gate.decisions) == remembered

"""The route `/predict` of kibernetika-serving: what it says of errors."""

from typing import Any

import pytest

from ie_serving.compat.kibernetika.predict_route import PredictRoute
from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.core.values.errors import NotFound
from ie_serving.server.fronts.other_servers import RestParts
from ie_serving.server.fronts.tfs.rest_interface import rest_interface
from ie_serving.server.transport.http1.messages import Reply, Request, RequestHead
from tests.unit.inference.stand_ins import Heart

NEVER: Any = None
BODY = b'{"inputs": {"x": {"dtype": 1, "data": [1]}}}'


class Failing:
    """The parts behind the route: the model fails, and a reply is given as it is."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def predict(self, *_: object) -> None:
        raise self._error

    async def finished(self, _: object, reply: Reply) -> Reply:
        return reply


async def answered(error: Exception) -> Any:
    failing: Any = Failing(error)
    failing.counting_refusals = (await Heart().plane()).counting_refusals
    settings = Settings(models=(), server=ServerSettings(answering_model="m"))
    interface = rest_interface(limit_s=1.0)
    route = PredictRoute(RestParts(settings, failing, failing, NEVER, interface, secure=False))
    fields = {b"content-type": b"application/json"}
    head = RequestHead("POST", b"/predict/m", b"", "1.1", (), fields, len(BODY), True, False)
    return await route.answer(Request(head, BODY), True)


async def test_a_defect_is_logged_with_the_place_where_it_happened(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reply = await answered(RuntimeError("of the route"))
    assert (reply.status, b"of the route" in reply.body) == (500, False)
    (line,) = caplog.records
    assert line.exc_info
    assert line.exc_info[2] is not None


async def test_an_error_of_the_request_is_plain_text_with_its_status() -> None:
    reply = await answered(NotFound("no such model"))
    assert (reply.status, reply.body) == (404, b"no such model\n")

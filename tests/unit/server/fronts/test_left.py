"""A request whose client leaves keeps nothing of what it held, on routes of other servers too."""

import asyncio
import weakref
from typing import Any

import pytest

from ie_serving.compat.edi.routes import EdiRoutes
from ie_serving.compat.kibernetika.predict_route import PredictRoute
from ie_serving.compat.konduit.routes import KonduitRoutes
from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.server.fronts.other_servers import RestParts
from ie_serving.server.fronts.tfs.rest_interface import rest_interface
from ie_serving.server.transport.http1.messages import Request, RequestHead
from tests.unit.inference.stand_ins import Heart

NEVER: Any = None


class Body:
    """What a request holds."""


class Waiting:
    """What runs a model, and does not end."""

    def __init__(self) -> None:
        self.held: weakref.ref[Body] | None = None
        self.begun = asyncio.Event()

    async def invoke(self, *_: object) -> None:
        body = Body()
        self.held = weakref.ref(body)
        self.begun.set()
        await asyncio.Event().wait()

    predict = invoke

    async def finished(self, _: object, reply: object) -> None:
        raise AssertionError(reply)


@pytest.mark.parametrize("front", ["edi", "konduit", "kibernetika"])
async def test_a_client_that_leaves_leaves_nothing_behind(front: str) -> None:
    waiting: Any = Waiting()
    waiting.counting_refusals = (await Heart().plane()).counting_refusals
    settings = Settings(models=(), server=ServerSettings(answering_model="m"))
    interface = rest_interface(limit_s=1.0)
    parts = RestParts(settings, waiting, waiting, NEVER, interface, secure=False)
    fronts: dict[str, tuple[str, Any, Any]] = {
        "edi": ("/dlim/v1/inference/m", EdiRoutes(parts), ("invoke", "m")),
        "konduit": ("/predict", KonduitRoutes(parts), "m"),
        "kibernetika": ("/predict/m", PredictRoute(parts), "m"),
    }
    path, answering, found = fronts[front]
    fields = {b"content-type": b"application/json"}
    body = b'{"inputs": {"x": {"dtype": 1, "data": [1]}}}'
    head = RequestHead("POST", path.encode(), b"", "1.1", (), fields, len(body), True, False)
    leaving = asyncio.ensure_future(answering.answer(Request(head, body), found))
    await asyncio.wait_for(waiting.begun.wait(), 5)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError) as kept:
        await leaving
    assert waiting.held is not None
    assert waiting.held() is None, kept  # although the error is still there

"""`POST /dlim/v1/inference/{model}` of IBM EDI: the kernel gets the body, and gives the reply.

Source: the REST API of Elastic Distributed Inference, `/dlim/v1`. Its other routes deploy packages
and manage services; here a repository does. Callers are known by `Authorization` alone.
"""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from ie_serving.core.requests import ModelSpec
from ie_serving.core.threads import let_go
from ie_serving.server.fronts.rest.pages import refusal
from ie_serving.server.fronts.tfs.rest import RestApi
from ie_serving.server.transport.http1.messages import (
    Answer,
    App,
    Headers,
    Request,
    RequestHead,
)

PREFIX: Final = b"/dlim/v1/inference/"
VERB: Final = "invoke"
"""What it needs, as a verb of `gate/rights.py`."""
JSON: Final[Headers] = ((b"content-type", b"application/json"),)
"""Kernels reply as their authors like, mostly by JSON; none can say what it is."""


def model_asked(head: RequestHead) -> str:
    """Name the model whose kernel a request asks; empty for any other request."""
    if head.method != "POST" or not head.path.startswith(PREFIX):
        return ""
    name = unquote_to_bytes(head.path[len(PREFIX) :]).decode("utf-8", "replace")
    return "" if "/" in name else name


class EdiRoutes:
    """Answers the route; every other request is for `otherwise`.

    Args of the constructor:
        api: the REST API: it runs the model, and ends each reply as its own.
        otherwise: what answers other requests.
    """

    def __init__(self, api: RestApi, otherwise: App) -> None:
        self._api = api
        self._otherwise = otherwise

    def asked(self, head: RequestHead) -> tuple[str, str] | None:
        """Tell verb and model. See `other_servers.Routes`."""
        model = model_asked(head)
        return (VERB, model) if model else None

    def answer(self, request: Request) -> Coroutine[Any, Any, Answer]:
        """Answer one request. See `http1.messages.App`."""
        model = model_asked(request.head)
        return self._run(request, model) if model else self._otherwise(request)

    async def _run(self, request: Request, model: str) -> Answer:
        try:
            reply = await self._api.invoke(request, ModelSpec(model), time.perf_counter())
            reply = reply._replace(headers=JSON)
        except Exception as error:
            reply = refusal(error)
        except asyncio.CancelledError as error:
            let_go(error)
            raise
        return await self._api.finished(request.head, reply)

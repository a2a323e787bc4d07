"""`POST /dlim/v1/inference/{model}` of IBM EDI: the kernel gets the body, and gives the reply.

Source: the REST API of Elastic Distributed Inference, `/dlim/v1`. Its other routes deploy packages
and manage services; here a repository does. Callers are known by `Authorization` alone.
"""

import asyncio
import time
from typing import Final
from urllib.parse import unquote_to_bytes

from ie_serving.core.runtime.threads import let_go
from ie_serving.core.values.requests import ModelSpec
from ie_serving.server.fronts.rest.pages import refusal
from ie_serving.server.fronts.tfs.rest import RestApi
from ie_serving.server.transport.http1.messages import (
    Answer,
    Headers,
    Request,
    RequestHead,
)

PREFIX: Final = b"/dlim/v1/inference/"
VERB: Final = "invoke"
"""What it needs, as a verb of `gate/rights.py`."""
JSON: Final[Headers] = ((b"content-type", b"application/json"),)
"""Kernels reply as their authors like, mostly by JSON; none can say what it is."""


def model_asked(head: RequestHead) -> str | None:
    """Name the model whose kernel a request asks; None for any other request."""
    if head.method != "POST" or not head.path.startswith(PREFIX):
        return None
    name = unquote_to_bytes(head.path[len(PREFIX) :]).decode("utf-8", "replace")
    return None if "/" in name else name or None


class EdiRoutes:
    """Answers the route.

    Args of the constructor:
        api: the REST API: it runs the model, and ends each reply as its own.
    """

    def __init__(self, api: RestApi) -> None:
        self._api = api

    async def answer(self, request: Request, model: str) -> Answer:
        """See `fronts.rest.routes.Front`."""
        try:
            reply = await self._api.invoke(request, ModelSpec(model), time.perf_counter())
            reply = reply._replace(headers=JSON)
        except Exception as error:
            reply = refusal(error)
        except asyncio.CancelledError as error:
            let_go(error)
            raise
        return await self._api.finished(request.head, reply)

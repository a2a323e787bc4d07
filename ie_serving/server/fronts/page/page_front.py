"""The page at `/`: serves its files, and the JSON that fills it.

The page runs models through TensorFlow Serving's routes, like any client, and takes rates and
latencies from the metrics.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.runtime.threads import in_thread, let_go
from ie_serving.server.fronts.page.configuration import configuration
from ie_serving.server.fronts.page.page_files import SECURITY, headers_of, read
from ie_serving.server.fronts.page.page_models import described
from ie_serving.server.fronts.page.parts import PageSources
from ie_serving.server.fronts.page.programs import programs
from ie_serving.server.fronts.page.routes import (
    CONFIGURATION,
    FILE,
    FILES,
    MODEL,
    PROGRAMS,
    STATE,
)
from ie_serving.server.fronts.page.state import State
from ie_serving.server.fronts.rest.body import read_body
from ie_serving.server.fronts.rest.pages import refusal
from ie_serving.server.fronts.rest.routes import Verb
from ie_serving.server.transport.http1.messages import Headers, Reply, Request

LARGEST_BODY: Final = 4 << 20
"""Largest body in bytes of a call to show as programs: a longer one is not readable text."""
_FRESH: Final[Headers] = ((b"cache-control", b"no-store"), *SECURITY)
_JSON: Final[Headers] = ((b"content-type", b"application/json"), *_FRESH)


class PageFront:
    """Answers the requests of the page.

    Args of the constructor:
        parts: the data that the page shows.
    """

    def __init__(self, parts: PageSources) -> None:
        self._parts = parts
        self._state = State(parts.settings.server, parts.served, parts.health, parts.errors)
        self._data: Mapping[str, Callable[[Request, str], Awaitable[Any]]] = {
            STATE: lambda *_: self._state.shown(),
            CONFIGURATION: self._configuration,
            MODEL: self._model,
            PROGRAMS: self._programs,
        }

    async def answer(self, request: Request, found: Verb) -> Reply:
        """Answer one request; `found` is the result of `routes.asked`."""
        verb, model = found
        if verb == FILE:
            name = FILES[request.head.path]
            return Reply(200, headers_of(name), read(name))
        try:
            shown = await self._data[verb](request, model)
            # In a thread: the state of a thousand models is a megabyte of JSON.
            body = await asyncio.to_thread(json.dumps, shown)
            return Reply(200, _JSON, body.encode())
        except Exception as error:
            reply = refusal(error)
            return reply._replace(headers=(*reply.headers, *_FRESH))
        except asyncio.CancelledError as error:
            let_go(error)
            raise

    async def _configuration(self, _: Request, __: str) -> object:
        return configuration(self._parts.settings.server, self._parts.storage)

    async def _model(self, _: Request, name: str) -> object:
        return described(self._parts.served.entry(name))

    async def _programs(self, request: Request, _: str) -> object:
        held = Lease(BUDGET)  # held until the programs are written
        body = await read_body(request, LARGEST_BODY, held)
        return await in_thread(lambda: programs(body))

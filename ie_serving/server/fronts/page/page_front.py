"""The page at `/`: serves its files, and the JSON that fills it.

The page runs models through TensorFlow Serving's routes, like any client, and takes rates and
latencies from the metrics.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.runtime.threads import in_thread, let_go
from ie_serving.server.fronts.page import CONFIGURATION, FILE, FILES, MODEL, PROGRAMS, STATE
from ie_serving.server.fronts.page.configuration import configuration
from ie_serving.server.fronts.page.programs import programs
from ie_serving.server.fronts.page.state import PageSources, PageState, described
from ie_serving.server.fronts.rest.body import read_body
from ie_serving.server.fronts.rest.replies import SAME_ORIGIN, refusal
from ie_serving.server.fronts.rest.routes import Verb
from ie_serving.server.transport.http1.messages import Headers, Reply, Request

MEDIA_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""Content types by the suffix of a file's name."""


def content_policy(images: str, *more: str) -> str:
    """Forbid inline code, resources from elsewhere, and frames around the page.

    Args:
        images: a source of images beside this origin.
        more: further directives.
    """
    own = (f"{kind}-src 'self'" for kind in ("script", "style", "connect"))
    none = (f"{what} 'none'" for what in ("base-uri", "form-action", "frame-ancestors"))
    return "; ".join(("default-src 'none'", *own, f"img-src 'self' {images}", *none, *more))


POLICY: Final = content_policy(
    "blob:",  # the picture that the user has chosen to send
    "require-trusted-types-for 'script'",  # the page's code cannot turn a string into HTML
    "trusted-types 'none'",
)


def security(policy: str) -> Headers:
    """Return the headers of every reply to a page, data included: no other site may frame it."""
    return (
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"no-referrer"),
        SAME_ORIGIN,
    )


SECURITY: Final = security(POLICY)


@cache
def read(name: str) -> bytes:
    """Return a file of the page."""
    return files(__package__).joinpath("static").joinpath(name).read_bytes()


def headers_of(name: str, policy: str = POLICY) -> Headers:
    """Return a file's headers: browsers revalidate it at each use, since releases change it."""
    media_type = MEDIA_TYPES[name.rpartition(".")[2]].encode()
    return (b"content-type", media_type), (b"cache-control", b"no-cache"), *security(policy)


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
        self._state = PageState(parts)
        self._data: Mapping[str, Callable[[Request, str], Awaitable[Any]]] = {
            STATE: lambda *_: self._state.shown(),
            CONFIGURATION: self._configuration,
            MODEL: self._model,
            PROGRAMS: self._programs,
        }

    async def answer(self, request: Request, found: Verb) -> Reply:
        """Answer one request; `found` is the result of `page.asked`."""
        verb, model = found
        if verb == FILE:
            name = FILES[request.head.path]
            return Reply(200, headers_of(name), read(name))
        try:
            shown = await self._data[verb](request, model)
            # The state is written in a thread: that of a thousand models is a megabyte of JSON.
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

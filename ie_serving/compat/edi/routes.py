"""Routes of IBM EDI: its inference, for which the kernel gets the body, and its tokens.

Source: the REST API of Elastic Distributed Inference, `/dlim/v1`, and its client `ibm-wmla`. Its
other routes deploy packages and manage services; here a repository does.
"""

import json
import time
from typing import Final
from urllib.parse import unquote_to_bytes

from ie_serving.core.values.requests import ModelSpec
from ie_serving.server.fronts.other_servers import OtherFront
from ie_serving.server.fronts.rest.replies import preflight
from ie_serving.server.fronts.rest.routes import Verb
from ie_serving.server.transport.http1.messages import Headers, Reply, Request, RequestHead

PREFIX: Final = b"/dlim/v1/inference/"
TOKENS: Final = (b"/dlim/v1/auth/token", b"/dlim/v1/auth/token/inference")
INVOKE, TOKEN, PREFLIGHT = "invoke", "server", "preflight"
"""The needed rights, as verbs of `gate/rights.py`."""
HEADERS: Final[Headers] = (
    (
        b"access-control-allow-headers",
        b"Content-Type, Authorization, X-Api-Key, X-Auth-Token, X-User-Token",
    ),
)
"""Headers that pages of other origins may send, if any may ask."""
SECRET: Final[Headers] = ((b"cache-control", b"no-store"),)
JSON: Final[Headers] = ((b"content-type", b"application/json"),)
"""Kernels reply as their authors like, mostly by JSON; none can say what it is."""


def asked(head: RequestHead) -> Verb | None:
    """Give the verb and the model of a request; None for one that is not EDI's."""
    if not head.path.startswith(b"/dlim/") or head.method not in ("POST", "OPTIONS"):
        return None
    name = unquote_to_bytes(head.path[len(PREFIX) :]).decode("utf-8", "replace")
    is_model = head.path.startswith(PREFIX) and name and "/" not in name
    if not is_model and head.path not in TOKENS:
        return None
    if head.method == "OPTIONS":
        return PREFLIGHT, ""
    return (INVOKE, name) if is_model else (TOKEN, "")


class EdiRoutes(OtherFront[Verb]):
    """Answers the routes."""

    async def _reply(self, request: Request, found: Verb) -> Reply:
        verb, model = found
        if verb == INVOKE:
            reply = await self._api.invoke(request, ModelSpec(model), time.perf_counter())
            return reply._replace(headers=JSON)
        return _preflight(request) if verb == PREFLIGHT else _token(request)


def _preflight(request: Request) -> Reply:
    status, _, body = preflight(request.head.fields.get(b"origin", b"").decode("latin-1"))
    return Reply(status, HEADERS, body)


def _token(request: Request) -> Reply:
    """Give the caller's credentials, which the gate has checked, as a token under each name.

    Nothing is kept: a client that sends them back in a header is known as by the original ones.
    """
    fields = request.head.fields
    given = (fields.get(name) for name in (b"authorization", b"x-api-key", b"x-auth-token"))
    token = next(filter(None, given), b"no-token-needed").decode("latin-1")
    names = ("user_token", "access_token", "service_token")
    return Reply(200, (*JSON, *SECRET), json.dumps(dict.fromkeys(names, token)).encode())

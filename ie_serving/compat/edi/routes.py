"""Routes of IBM EDI: its inference, for which the kernel gets the body, and its tokens.

Source: the REST API of Elastic Distributed Inference, `/dlim/v1`, and its client `ibm-wmla`. Its
other routes deploy packages and manage services; here a repository does.
"""

import asyncio
import json
import time
from typing import Final
from urllib.parse import unquote_to_bytes

from ie_serving.core.runtime.threads import let_go
from ie_serving.core.values.requests import ModelSpec
from ie_serving.server.fronts.rest.pages import preflight, refusal
from ie_serving.server.fronts.rest.routes import Verb
from ie_serving.server.fronts.tfs.rest import RestApi
from ie_serving.server.transport.http1.messages import (
    Answer,
    Headers,
    Reply,
    Request,
    RequestHead,
)

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


class EdiRoutes:
    """Answers the routes.

    Args of the constructor:
        api: the REST API: it runs the model, and ends each reply as its own.
    """

    def __init__(self, api: RestApi) -> None:
        self._api = api

    async def answer(self, request: Request, found: Verb) -> Answer:
        """See `fronts.rest.routes.Front`."""
        verb, model = found
        try:
            if verb == INVOKE:
                reply = await self._api.invoke(request, ModelSpec(model), time.perf_counter())
                reply = reply._replace(headers=JSON)
            else:
                reply = _preflight(request) if verb == PREFLIGHT else _token(request)
        except Exception as error:
            reply = refusal(error)
        except asyncio.CancelledError as error:
            let_go(error)
            raise
        return await self._api.finished(request.head, reply)


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

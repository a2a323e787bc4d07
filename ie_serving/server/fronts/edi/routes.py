"""`POST /dlim/v1/inference/{model}`, as IBM EDI has it: the body goes to the kernel, and so back.

Source: the REST API of Elastic Distributed Inference, `/dlim/v1`. Its other routes deploy packages
and manage services; here a repository does. Callers are known by `Authorization` alone.
"""

import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from ie_serving.core.requests import ModelSpec
from ie_serving.server.transport.http1.messages import (
    Answer,
    App,
    Headers,
    Reply,
    Request,
    RequestHead,
)

PREFIX: Final = b"/dlim/v1/inference/"
VERB: Final = "invoke"
"""What it needs, as a verb of `gate/rights.py`."""
JSON: Final[Headers] = ((b"content-type", b"application/json"),)
"""Kernels reply as their authors like, mostly by JSON; none can say what it is."""

Wanted = Callable[[RequestHead], tuple[str, str]]
"""Tells the verb of a request, and the model that it names, if any."""
Invoke = Callable[[Request, ModelSpec, float], Awaitable[Reply]]
"""Runs a model on the body of a request that arrived at that `time.perf_counter()`."""
Phrase = Callable[[Exception], Reply]
Finish = Callable[[RequestHead, Answer], Awaitable[Answer]]
"""Compresses a reply, and adds what the state of the server asks for."""


def model_asked(head: RequestHead) -> str:
    """Name the model whose kernel a request asks; empty for any other request."""
    if head.method != "POST" or not head.path.startswith(PREFIX):
        return ""
    name = unquote_to_bytes(head.path[len(PREFIX) :]).decode("utf-8", "replace")
    return "" if "/" in name else name


def wanting(otherwise: Wanted) -> Wanted:
    """Give what tells verb and model of a request, of this route or of `otherwise`."""

    def wanted(head: RequestHead) -> tuple[str, str]:
        model = model_asked(head)
        return (VERB, model) if model else otherwise(head)

    return wanted


class EdiRoutes:
    """Answers the route; every other request is for `otherwise`.

    Args of the constructor:
        otherwise: the REST API.
        invoke: runs a model on a body.
        phrase: makes a reply of an error.
        finish: see `Finish`.
    """

    def __init__(self, otherwise: App, invoke: Invoke, phrase: Phrase, finish: Finish) -> None:
        self._otherwise = otherwise
        self._invoke = invoke
        self._phrase = phrase
        self._finish = finish

    def answer(self, request: Request) -> Coroutine[Any, Any, Answer]:
        """Answer one request. See `http1.messages.App`."""
        model = model_asked(request.head)
        return self._run(request, model) if model else self._otherwise(request)

    async def _run(self, request: Request, model: str) -> Answer:
        try:
            reply = await self._invoke(request, ModelSpec(model), time.perf_counter())
            reply = reply._replace(headers=JSON)
        except Exception as error:
            reply = self._phrase(error)
        return await self._finish(request.head, reply)

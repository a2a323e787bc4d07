"""Answers `/openapi.json`, and `/docs`, where Swagger UI shows it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import cache, partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

from ie_serving import __version__
from ie_serving.core.runtime.threads import in_thread, let_go
from ie_serving.core.values.access import Principal
from ie_serving.core.values.errors import InvalidRequest, NotSupported, ServingError
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import Method, Signature
from ie_serving.inference.examples import example_signature
from ie_serving.models.served_models import AllowedModels, ServedModel, ServedModels
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.openapi import DOCUMENT, VIEWER
from ie_serving.server.fronts.page import page_front
from ie_serving.server.fronts.rest.replies import JSON_REPLY, refusal
from ie_serving.server.fronts.rest.routes import Verb
from ie_serving.server.transport.http1.messages import Headers, Reply, Request
from ie_serving.wire.openapi import PREDICT, SignaturesOfPath, Target, document

CallerOf = Callable[[Request], Awaitable[Principal | None]]
"""Returns the caller of a request that the gate has let pass; None where callers are not asked."""

MODEL: Final = "model"
"""Parameter of the query: the document of one model alone."""
PACKAGE: Final = "flask_swagger_ui"
"""Holds Swagger UI's files in `dist`. The server reads these and never imports the package."""
MISSING: Final = "the viewer of /openapi.json needs the extra openapi: pip install '.[openapi]'"
POLICY: Final = page_front.content_policy("data:")  # Swagger UI's icons
"""The page's policy without trusted types: Swagger UI writes cleaned HTML itself."""
MODELS_AT_ONCE: Final = 64
"""Models looked at before the event loop runs other tasks."""
_FRESH: Final[Headers] = ((b"cache-control", b"no-store"),)
"""Headers without `SAME_ORIGIN`: CORS opens the document to other origins as it opens what it
describes."""


class OpenApiFront:
    """Answers the requests for the document and its viewer.

    Args of the constructor:
        served: the models.
        caller_of: function that names the caller of a request, a `CallerOf`.
        asks_callers: requests need credentials.
        method_check: switch of `example_signature`.
    """

    def __init__(
        self, served: ServedModels, caller_of: CallerOf, *, asks_callers: bool, method_check: bool
    ) -> None:
        self._served = served
        self._caller_of = caller_of
        self._write = partial(document, release=__version__, asks_callers=asks_callers)
        self._method_check = method_check
        self._writing = asyncio.Lock()
        """One document at a time: that of thousands of models occupies a processor for seconds."""

    async def answer(self, request: Request, found: Verb) -> Reply:
        """Answer one request."""
        try:
            if found[0] != DOCUMENT:
                return await in_thread(partial(_file, VIEWER[request.head.path]))
            return Reply(200, (*JSON_REPLY, *_FRESH), await self._document(request))
        except Exception as error:
            reply = refusal(error)
            return reply._replace(headers=(*reply.headers, *_FRESH))
        except asyncio.CancelledError as error:
            let_go(error)
            raise

    async def _document(self, request: Request) -> bytes:
        caller = await self._caller_of(request)
        served = AllowedModels(self._served, caller) if caller else self._served
        chosen = _chosen(request.head.query)
        names = served.names() if chosen is None else [chosen]
        async with self._writing:
            targets: list[Target] = []
            for index, name in enumerate(names):
                # `get`: a model of the list may have left meanwhile.
                entry = served.entry(name) if chosen else served.entries.get(name)
                targets += self._targets(entry) if entry else ()
                if not (index + 1) % MODELS_AT_ONCE:
                    await asyncio.sleep(0)
            return await in_thread(partial(self._write, targets))

    def _targets(self, served: ServedModel) -> Iterator[Target]:
        """Give the paths of a model's versions; a lone version has the default path alone."""
        stream, name = served.stream, served.config.name
        calls = {number: self._calls(each) for number, each in stream.available.items()}
        if stream.default:
            default = stream.default.version
            yield Target(ModelSpec(name), default, calls[default])
        for number in sorted(calls) if len(calls) > 1 else ():
            yield Target(ModelSpec(name, number), number, calls[number])
        for label, number in sorted(stream.labels.items()):
            if number in calls:
                yield Target(ModelSpec(name, None, label), number, calls[number])

    def _calls(self, servable: Servable) -> SignaturesOfPath:
        signatures = [each for _, each in sorted(servable.signatures.items()) if not each.left_out]
        takers = {
            method.word: [each for each in signatures if self._takes(servable, each, method)]
            for method in (Method.CLASSIFY, Method.REGRESS)
        }
        return {PREDICT: [each for each in signatures if not each.definition], **takers}

    def _takes(self, servable: Servable, signature: Signature, method: Method) -> bool:
        try:
            check = self._method_check
            example_signature(servable, signature.name, method, method_check=check)
        except ServingError:
            return False
        return True


def _chosen(query: bytes) -> str | None:
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True)
    if not given.keys() <= {MODEL} or len(given.get(MODEL, ())) > 1:
        raise InvalidRequest(f"expected one parameter of the document, {MODEL}=NAME, or none")
    return given[MODEL][0] if given else None


@cache
def _file(name: str) -> Reply:
    """Return a file of the viewer. Raises: NotSupported."""
    package = find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise NotSupported(MISSING)
    own = files(__package__).joinpath("static").joinpath(name)
    dist = Path(package.origin).parent / "dist" / name
    body = own.read_bytes() if own.is_file() else dist.read_bytes()
    return Reply(200, page_front.headers_of(name, POLICY), body)

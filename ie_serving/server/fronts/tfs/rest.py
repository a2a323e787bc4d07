"""TensorFlow Serving's REST API: parse, call the data plane, write the reply.

Requests that run a model are POSTs. They are answered directly from the transport's request, since
they are the most frequent and every step counts. All else, pages and errors, is answered through
Falcon. TensorFlow Serving's grammar (`rest_routes.py`) matches whole targets, so one sink takes all
of that instead of a router. Pages, and what runs Falcon, are in `rest_pages.py`, errors in
`fronts/rest/replies.py`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import orjson

from ie_serving.config.settings import ServerSettings
from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.runtime.threads import in_thread, let_go
from ie_serving.core.values.codes import ENDED
from ie_serving.core.values.errors import (
    DeadlineExceeded,
    Forbidden,
    InvalidRequest,
    NotFound,
    ServingError,
)
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.requests import ExamplesRequest, InferRequest, ModelSpec
from ie_serving.core.values.tensors import Method, Signature
from ie_serving.inference.interface import Api, Interface
from ie_serving.inference.plane import DataPlane
from ie_serving.models.admin.reload_requests import PollModel
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.admin import cross_site
from ie_serving.server.fronts.admin.config_pages import RELOAD, ConfigPages
from ie_serving.server.fronts.admin.health import Health, ProcessPhase, model_asked
from ie_serving.server.fronts.admin.log_pages import LogPages
from ie_serving.server.fronts.rest.body import parse_slowly, read_body
from ie_serving.server.fronts.rest.replies import (
    CORS,
    CORS_OF_CALLERS,
    HTML,
    JSON,
    JSON_REPLY,
    METHOD_NOT_ALLOWED,
    SAME_ORIGIN,
    SMALLEST_COMPRESSED,
    Page,
    compressed,
    json_page,
    preflight,
    refusal,
    typed,
)
from ie_serving.server.fronts.tfs.rest_interface import LARGE_BODY, classifications, regressions
from ie_serving.server.fronts.tfs.rest_invoke import Invocations
from ie_serving.server.fronts.tfs.rest_pages import (
    NOT_FOUND_PAGE,
    FalconPages,
    fixed_pages,
    misrouted,
)
from ie_serving.server.fronts.tfs.rest_routes import (
    ALLOWED,
    GENERATED,
    LONGEST_REMEMBERED,
    Route,
    posted,
    remembered_post,
    route,
    target_of,
)
from ie_serving.server.transport.http1.body import Octets
from ie_serving.server.transport.http1.messages import (
    AnyReply,
    App,
    Headers,
    Reply,
    Request,
    RequestHead,
)
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.wire.form import FormBody
from ie_serving.wire.json.examples import parse_examples
from ie_serving.wire.json.request import PredictBody, SlicedBody, parse_at_once
from ie_serving.wire.tfs import metadata, statuses
from ie_serving.wire.tfs.classify_regress import with_context

if TYPE_CHECKING:
    import falcon.asgi

LARGE_EXAMPLES_BODY = 4 * 1024
"""Bytes of a body with Examples from which a thread parses all of it: an empty Example is 3 bytes
of JSON and takes 1 us, and lenient JSON takes several times as long."""
MOST_CHANGE_BYTES = 1 << 20
"""Largest body of a change of labels or of the log level: some ten thousand labels."""
STOPPING: Headers = ((b"connection", b"close"),)
"""Header that makes clients with an open connection use another server while this one stops."""

RunModel = Callable[[Request, ModelSpec, float], Awaitable[Octets | Reply]]
"""Answers a POST that arrived at that `time.perf_counter()`: JSON, or a complete reply."""
LookUp = Callable[[ModelSpec, float], Octets]
"""Answers a GET that arrived at that `time.perf_counter()`."""

ChangeModel = Callable[[str, bytes], Awaitable[bytes]]
"""Applies a body's changes to the model of that name, and returns it. Raises ServingError."""
WriteMetadata = Callable[[str, int, Mapping[str, Signature]], bytes]
"""Writes a version's metadata: model name, version, its signatures."""


class RestApi:
    """Answers every request of the REST port.

    Attributes:
        invoke: runs a model on the body of a request, also for routes of other servers.
        looks: what answers without a model, by the verb.
        runs: what runs a model, by the verb.
    """

    def __init__(
        self,
        plane: DataPlane,
        interface: Interface[Octets],
        metrics: Metrics,
        health: Health,
        server: ServerSettings,
        *,
        poll: PollModel,
        config: ConfigPages,
        log: LogPages,
        statuses: statuses.StatusEncoder,
        secure: bool = False,
        around: Callable[[App], App] = lambda pages: pages,
    ) -> None:
        self._plane = plane
        self._interface = interface
        self._health = health
        self._max_body_bytes = server.max_message_bytes
        self._enable_cors = server.enable_cors
        self._check_site = partial(
            cross_site.check, any_site=server.enable_cors, open_to_all=not server.has_access
        )
        self._cors = CORS_OF_CALLERS if server.has_access else CORS
        self._statuses = statuses
        self._write_metadata = partial(_metadata, metadata.FORMS[server.rest_metadata])
        self._poll_model = poll
        self._poll_allowed = server.reload_by_rpc
        self._config = config
        self._pages = fixed_pages(health, metrics, server.metrics_pages)
        self.invoke = Invocations(plane, interface, server.max_message_bytes).answer
        self.runs: dict[str, RunModel] = {
            "predict": self._predict,
            "classify": self._classify,
            "regress": self._regress,
            "invoke": self.invoke,
            "poll": self._poll,
            "labels": partial(self._changed, config.relabel),
            "set_log_level": partial(self._changed, log.change),
        }
        self._secure = secure
        self.looks: dict[str, LookUp] = {
            "status": self._status,
            "models": self._list,
            "config": lambda *_: config.status(),
            "log_level": lambda *_: log.show(),
            "details": self._details,
            "all_details": lambda *_: config.all_details(),
        }
        self._rarely = around(FalconPages(self.answer_page))

    async def answer(self, request: Request) -> AnyReply:
        """Answer one request of any kind. See `http1.messages.App`."""
        began = time.perf_counter()
        head = request.head
        asked = None
        if head.method == "POST":
            # Longer targets are parsed each time, so that unknown clients cannot fill the cache.
            short = len(head.path) + len(head.query) <= LONGEST_REMEMBERED
            asked = (remembered_post if short else posted)(head.path, head.query)
        if asked is None:
            reply = await self._rarely(request)
        else:
            try:
                given = await self.runs[asked.verb](request, asked.model, began)
                reply = given if isinstance(given, Reply) else Reply(200, JSON_REPLY, given)
            except Exception as error:
                reply = refusal(error)
            except asyncio.CancelledError as error:
                let_go(error)
                raise
        stopping = self._health.phase is ProcessPhase.STOPPING
        if len(reply.body) < SMALLEST_COMPRESSED and not (stopping or self._enable_cors):
            return reply
        return await self.finished(head, reply)

    async def run(self, verb: str, request: Request, model: ModelSpec) -> Reply:
        """Answer a POST of that verb, before `finished`. Raises: ServingError."""
        given = await self.runs[verb](request, model, time.perf_counter())
        return given if isinstance(given, Reply) else Reply(200, JSON_REPLY, given)

    async def finished(self, head: RequestHead, reply: AnyReply) -> AnyReply:
        """Compress a reply if that is worth it, and add headers for the server's state."""
        if isinstance(reply, Reply) and len(reply.body) >= SMALLEST_COMPRESSED:
            reply = _counted(await compressed(head, reply))
        headers = reply.headers
        # A client that kept its connection would send its next request to a stopped server.
        if self._health.phase is ProcessPhase.STOPPING:
            headers += STOPPING
        if self._enable_cors and SAME_ORIGIN not in headers:
            headers += self._cors
        return reply._replace(headers=headers)

    async def answer_page(
        self, req: "falcon.asgi.Request", resp: "falcon.asgi.Response | None", **_: object
    ) -> None:
        """Answer requests that run no model; a `Sink`: Falcon passes both by name."""
        assert resp is not None  # only WebSockets have none, and they have no sink
        target = target_of(req.scope["raw_path"], req.scope["query_string"])
        is_reload = req.method == "POST" and target.lower() == RELOAD
        try:
            page = self._reloaded(req.scope["headers"]) if is_reload else self._page(req)
            if not isinstance(page, tuple):
                page = await page
        except Exception as error:
            page = refusal(error)
        if isinstance(page, Reply):
            for name, value in page.headers:
                resp.set_header(name.decode(), value.decode())
        else:
            resp.content_type = page[1]
        resp.status = page[0]
        if resp.status == METHOD_NOT_ALLOWED:
            resp.set_header("allow", ALLOWED)
        resp.data = page[2]  # type: ignore[assignment]  # any buffer, and a large page is not copied

    async def _reloaded(self, headers: Headers) -> Page:
        with self._plane.counting_refusals("", self._interface):
            self._check_site(dict(headers))
            return json_page(*await self._config.reload())

    def _page(self, request: "falcon.asgi.Request") -> Page | Reply | Awaitable[Page | Reply]:
        path: bytes = request.scope["raw_path"]
        # First, since the metrics path may be below /v1/, too.
        if page := self._pages.get(path):
            return page()
        if path[:4].lower() != b"/v1/":
            return self._model_page(path)
        if request.method == "OPTIONS":
            return preflight(request.get_header("Origin") or "")
        began = time.perf_counter()
        try:
            asked = route(request.method, target_of(path, request.scope["query_string"]))
        except InvalidRequest as error:
            self._plane.refused("", error, self._interface)
            return misrouted(error)
        if asked.verb in GENERATED:
            return self._generated(asked, request, began)
        if asked.verb == "metadata":
            return self._metadata(asked.model, began)
        return 200, JSON, self.looks[asked.verb](asked.model, began)

    async def _generated(self, asked: Route, request: "falcon.asgi.Request", began: float) -> Page:
        # Imported here: few servers get such requests.
        from ie_serving.server.fronts.tfs.client_samples import page

        address = f"{'https' if self._secure else 'http'}://{request.get_header('Host') or ''}"
        ask = partial(self._plane.metadata, asked.model, self._interface, began)
        return await page(asked, address, ask)

    def _model_page(self, path: bytes) -> Page | Reply:
        model = model_asked(path)
        if model is None:
            return 404, HTML, NOT_FOUND_PAGE
        try:
            ready = self._plane.answer_ready(model, self._interface, time.perf_counter())
            return json_page(*self._health.model_reply(model, ready))
        except NotFound:  # its text lists all models; a probe needs no credentials
            said = f"no such model: {model.name}; GET /v1/models names those that are served"
            return refusal(NotFound(said))

    async def _predict(self, request: Request, model: ModelSpec, began: float) -> Octets | Reply:
        try:  # `counting_refusals` inline, which saves every small request a call
            body, limit = request.body, self._max_body_bytes
            if body is None or len(body) > limit or b"content-encoding" in request.head.fields:
                held = Lease(BUDGET)  # ends with the reply: other users of the body are done then
                body = await read_body(request, limit, held)
            size = len(body)
            asked: PredictBody | SlicedBody | FormBody | None = parse_at_once(body)
            if asked is None:
                asked = await in_thread(parse_slowly, request.head, body)
                size = max(size, LARGE_BODY)  # decoding takes long, so it is done in a thread
        except ENDED as error:
            self._plane.refused(model.name, error, self._interface, Api.PREDICT)
            raise
        name, decode = asked.signature_name, asked.decode
        at_once, wanted = asked.decode_at_once, asked.outputs
        inputs = InferRequest(model, name, decode, size, at_once, wanted, request.head)
        reply = await self._plane.predict(inputs, self._interface, began)
        if asked.media_type:
            return Reply(200, typed(asked.media_type), reply)
        return reply

    async def _classify(self, request: Request, model: ModelSpec, began: float) -> Octets:
        examples = await self._examples(request, model, Method.CLASSIFY, Api.CLASSIFY)
        return await self._plane.classify(examples, self._interface, began, classifications)

    async def _regress(self, request: Request, model: ModelSpec, began: float) -> Octets:
        examples = await self._examples(request, model, Method.REGRESS, Api.REGRESS)
        return await self._plane.regress(examples, self._interface, began, regressions)

    async def _examples(
        self, request: Request, model: ModelSpec, method: Method, api: Api
    ) -> ExamplesRequest:
        held = Lease(BUDGET)
        with self._plane.counting_refusals(model.name, self._interface, api):
            body = await read_body(request, self._max_body_bytes, held)
            is_large = len(body) >= LARGE_EXAMPLES_BODY
            work = partial(parse_examples, body, method.word)
            asked = await in_thread(work) if is_large else work()
        decode = partial(with_context, asked.examples, asked.context)
        return ExamplesRequest(
            model, asked.signature_name, decode, len(asked.examples), request.head
        )

    async def _poll(self, request: Request, model: ModelSpec, began: float) -> Octets:
        """List the model's repository now, if clients may ask for that."""
        with self._plane.counting_refusals(model.name, self._interface):
            self._check_site(request.head.fields)
            if not self._poll_allowed:
                raise Forbidden(
                    "polls by request are switched off: wait for the poll interval",
                    Hint(", or let clients ask for them with {server.reload_by_rpc}"),
                )
            await self._polled(model.name)
        return self._status(model, began)

    async def _polled(self, model: str) -> None:
        limit_s = self._interface.limit_s
        try:
            await asyncio.wait_for(self._poll_model(model), limit_s)
        except asyncio.TimeoutError:
            raise DeadlineExceeded(
                f'the repository of "{model}" was not listed within {limit_s:g} s, and will be when'
                " its store answers: ask for the status of the model later",
                Hint(", or raise {server.rest_timeout_s}"),
            ) from None

    async def _changed(
        self, change: ChangeModel, request: Request, model: ModelSpec, began: float
    ) -> Octets:
        held = Lease(BUDGET)
        with self._plane.counting_refusals(model.name, self._interface):
            self._check_site(request.head.fields)
            body = await read_body(request, min(MOST_CHANGE_BYTES, self._max_body_bytes), held)
            return await change(model.name, bytes(body))

    def _details(self, model: ModelSpec, began: float) -> Octets:
        with self._plane.counting_refusals(model.name, self._interface):
            return self._config.details(model.name)

    def _status(self, model: ModelSpec, began: float) -> Octets:
        return self._plane.status(model, self._interface, began, self._statuses.json)

    async def _metadata(self, model: ModelSpec, began: float) -> Page:
        write = self._write_metadata
        return 200, JSON, await self._plane.metadata(model, self._interface, began, write)

    def _list(self, _: ModelSpec, began: float) -> Octets:
        return self._plane.models(self._interface, began, _models)


def _metadata(write: WriteMetadata, servable: Servable) -> bytes:
    return write(servable.name, servable.version, servable.signatures)


def _models(names: Sequence[str]) -> bytes:
    return orjson.dumps({"models": names})


def _counted(reply: Reply) -> Reply:
    """Count a large reply until the client has read it; refuse it if the budget is too small."""
    try:
        return reply._replace(body=BUDGET.held_with(reply.body))
    except ServingError as error:
        return refusal(error)

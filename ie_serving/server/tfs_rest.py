"""TensorFlow Serving's REST API on Falcon: decode, infer, answer.

Its grammar (`rest_routes.py`) matches whole targets, so one sink takes every request instead of
Falcon's router. Errors become `{"error": ...}` here and nowhere else.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeAlias, cast

import falcon
import falcon.asgi
import orjson

from ie_serving.errors import InvalidRequest
from ie_serving.models.handle import Servable
from ie_serving.models.manager import ModelManager
from ie_serving.requests import ModelSpec
from ie_serving.server.classification import by_role, example_binding, infer_serialized, run_base
from ie_serving.server.deadline import Limited
from ie_serving.server.health import LIVE, READY, Health
from ie_serving.server.inference import Outputs, infer
from ie_serving.server.lifecycle import AsgiApp
from ie_serving.server.rest_body import SMALLEST_COMPRESSED, read_body, write_body
from ie_serving.server.rest_routes import Route, VersionOverflow, route
from ie_serving.server.status import Code, explain, http_of
from ie_serving.server.wire import metadata
from ie_serving.server.wire.example import with_context
from ie_serving.server.wire.json_request import Format, parse_examples, parse_predict
from ie_serving.server.wire.json_response import (
    encode_classifications,
    encode_error,
    encode_predictions,
    encode_regressions,
)
from ie_serving.server.wire.results import classes_of, values_of
from ie_serving.telemetry.metrics import CONTENT_TYPE, Metrics
from ie_serving.tensors import SERVING_DEFAULT, Array, Method, Signature, TensorSpec

LARGE_BODY = 256 * 1024
"""From this many bytes on, JSON is read in a thread, so that other requests get their turn."""
LARGE_OUTPUT = 32 * 1024
"""From this many elements on, JSON is written in a thread."""
JSON = "application/json"
HTML = "text/html"
NOT_FOUND_PAGE = (
    b"<HTML><HEAD>\n<TITLE>404 Not Found</TITLE>\n</HEAD><BODY>\n"
    b"<H1>Not Found</H1>\n</BODY></HTML>\n"
)
"""What the HTTP library of TensorFlow Serving answers outside of `/v1/`."""

App: TypeAlias = "falcon.asgi.App[falcon.asgi.Request, falcon.asgi.Response]"
Body: TypeAlias = bytes | bytearray
Reply = tuple[int, str, Body]
"""HTTP status, content type, body."""


class RestApi:
    """Answers every request of the REST port."""

    def __init__(
        self,
        models: ModelManager,
        metrics: Metrics,
        health: Health,
        *,
        max_body_bytes: int,
        timeout_s: float,
        enable_cors: bool,
        metrics_path: str,
    ) -> None:
        self._models = models
        self._metrics = metrics
        self._health = health
        self._max_body_bytes = max_body_bytes
        self._timeout_s = timeout_s
        self._enable_cors = enable_cors
        self._pages: dict[bytes, Callable[[], Reply]] = {
            LIVE.encode(): lambda: _json(*health.live_reply()),
            READY.encode(): lambda: _json(*health.ready_reply()),
        }
        if metrics_path:
            self._pages[metrics_path.encode()] = lambda: (
                200,
                CONTENT_TYPE,
                metrics.text().encode(),
            )
        self._verbs: dict[str, Callable[[falcon.asgi.Request, ModelSpec], Awaitable[Body]]] = {
            "predict": self._predict,
            "classify": self._classify,
            "regress": self._regress,
            "status": self._status,
            "metadata": self._metadata,
            "models": self._list,
        }

    def app(self) -> AsgiApp:
        """Make the ASGI application."""
        app: App = falcon.asgi.App(media_type=JSON)
        app.add_sink(self.answer, prefix="/")
        return app

    async def answer(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response | None, **_: object
    ) -> None:
        """Answer one request, whatever it asks for. Falcon passes both by these names."""
        assert resp is not None  # only WebSockets have none, and they have no sink
        asked = self._look_up(req)
        if isinstance(asked, Route):
            asked = await self._carry_out(req, asked)
        status, content_type, body = asked
        if status != 200:
            resp.status = status
        if content_type is not JSON:
            resp.content_type = content_type
        if not self._health.ready:
            resp.set_header("Connection", "close")
        if self._enable_cors:
            resp.set_header("Access-Control-Allow-Origin", "*")
            resp.set_header("Access-Control-Allow-Methods", "POST, GET")
            resp.set_header("Access-Control-Allow-Headers", "Content-Type")
        if len(body) < SMALLEST_COMPRESSED:
            resp.data = cast(bytes, body)  # Falcon passes any buffer on
        else:
            await write_body(req, resp, body)

    def _look_up(self, request: falcon.asgi.Request) -> Route | Reply:
        """Find what a request asks for, or its reply if nothing has to be done for it."""
        path: bytes = request.scope["raw_path"]
        if path[:4].lower() != b"/v1/":
            page = self._pages.get(path)
            return page() if page else (404, HTML, NOT_FOUND_PAGE)
        query: bytes = request.scope["query_string"]
        target = (path + b"?" + query if query else path).decode("latin-1")
        if request.method == "OPTIONS":
            return _preflight(request.get_header("Origin") or "")
        try:
            return route(request.method, target)
        except VersionOverflow:
            self._metrics.of("").count(Code.INVALID_ARGUMENT.name)
            return 400, JSON, b""
        except InvalidRequest as error:
            return self._failed(ModelSpec(""), error)

    async def _carry_out(self, request: falcon.asgi.Request, asked: Route) -> Reply:
        began = time.perf_counter()
        try:
            body = await self._verbs[asked.verb](request, asked.model)
        except Exception as error:
            return self._failed(asked.model, error)
        api = asked.verb if request.method == "POST" else ""
        self._metrics.served(asked.model.name, api, "REST", (time.perf_counter() - began) * 1e6)
        return 200, JSON, body

    def _failed(self, model: ModelSpec, error: Exception) -> Reply:
        code, text = explain(error)
        self._metrics.of(model.name).count(code.name)
        return http_of(error, code), JSON, encode_error(text)

    async def _predict(self, request: falcon.asgi.Request, model: ModelSpec) -> Body:
        body = await read_body(request, self._max_body_bytes)
        large = len(body) >= LARGE_BODY
        asked = await asyncio.to_thread(parse_predict, body) if large else parse_predict(body)
        with self._models.handle(model) as servable:
            signature = _signature(servable, asked.signature_name)
            if large:
                inputs, form = await asyncio.to_thread(asked.decode, signature)
            else:
                inputs, form = asked.decode(signature)
            compute = infer if signature.examples is None else infer_serialized
            read = partial(_encode, form, signature.outputs)
            outputs = await Limited(self._timeout_s, compute(servable, signature, inputs, read))
        if not isinstance(outputs, dict):
            return outputs
        return await asyncio.to_thread(encode_predictions, outputs, form, signature.outputs)

    async def _classify(self, request: falcon.asgi.Request, model: ModelSpec) -> bytes:
        outputs, rows = await self._run_examples(request, model, Method.CLASSIFY)
        return encode_classifications(classes_of(outputs, rows))

    async def _regress(self, request: falcon.asgi.Request, model: ModelSpec) -> bytes:
        outputs, rows = await self._run_examples(request, model, Method.REGRESS)
        return encode_regressions(values_of(outputs, rows))

    async def _run_examples(
        self, request: falcon.asgi.Request, model: ModelSpec, method: Method
    ) -> tuple[dict[str, Array], int]:
        body = await read_body(request, self._max_body_bytes)
        if len(body) >= LARGE_BODY:
            asked = await asyncio.to_thread(parse_examples, body, method.word)
        else:
            asked = parse_examples(body, method.word)
        examples = with_context(asked.examples, asked.context)
        with self._models.handle(model) as servable:
            binding = example_binding(servable, asked.signature_name, method)
            outputs = await Limited(self._timeout_s, run_base(servable, binding, examples))
        return by_role(binding, outputs), len(examples)

    async def _status(self, request: falcon.asgi.Request, model: ModelSpec) -> bytes:
        version = model.version
        if model.label is not None:
            version = self._models.resolve_label(model.name, model.label)
        return metadata.status_json(self._models.statuses(model.name, version))

    async def _metadata(self, request: falcon.asgi.Request, model: ModelSpec) -> bytes:
        with self._models.handle(model) as servable:
            return metadata.metadata_json(servable.name, servable.version, servable.signatures)

    async def _list(self, request: falcon.asgi.Request, model: ModelSpec) -> bytes:
        return orjson.dumps({"models": self._models.names()})


def _encode(
    form: Format, specs: Mapping[str, TensorSpec], outputs: Outputs
) -> Body | dict[str, Array]:
    """Read outputs into a reply while their memory is valid.

    Large ones are copied out instead, to be written in a thread.
    """
    size = 0
    for array in outputs.values():
        size += array.size
    if size >= LARGE_OUTPUT:
        return {name: array.copy() for name, array in outputs.items()}
    return encode_predictions(outputs, form, specs)


def _signature(servable: Servable, name: str) -> Signature:
    """Find a signature; unlike over gRPC an unknown one is an invalid argument."""
    signature = servable.signatures.get(name or SERVING_DEFAULT)
    if signature is None:
        known = ", ".join(sorted(servable.signatures))
        raise InvalidRequest(
            f'Serving signature name: "{name or SERVING_DEFAULT}" not found in signature def;'
            f' model "{servable.name}" version {servable.version} has: {known}'
        )
    return signature


def _json(status: int, body: bytes) -> Reply:
    return status, JSON, body


def _preflight(origin: str) -> Reply:
    """Answer OPTIONS as TensorFlow Serving does, which looks at the origin's scheme alone."""
    known = "http://" in origin or "https://" in origin
    return (200 if known else 400), HTML, b""

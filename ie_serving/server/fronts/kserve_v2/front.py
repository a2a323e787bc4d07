"""The Open Inference Protocol v2 (KServe v2) over REST: parse, call the data plane, reply.

Source: `inference_rest.md` of kserve/open-inference-protocol; Triton's extensions for binary
tensors and the repository.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ie_serving import __version__
from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.runtime.threads import in_thread, let_go
from ie_serving.core.values.codes import ENDED
from ie_serving.core.values.errors import AlreadyExists, InvalidRequest, NotFound, NotSupported
from ie_serving.core.values.requests import InferRequest, ModelSpec
from ie_serving.core.values.signatures import named
from ie_serving.inference.interface import LARGE, Api
from ie_serving.inference.plane import DataPlane
from ie_serving.models.served_models import ServedModels
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts import kserve_v2 as routes
from ie_serving.server.fronts.admin.health import Health
from ie_serving.server.fronts.kserve_v2 import ParsedPath
from ie_serving.server.fronts.kserve_v2.interface import Interfaces, UnwrittenOutputs, WrittenReply
from ie_serving.server.fronts.kserve_v2.management import Management, config_of
from ie_serving.server.fronts.kserve_v2.servable_lookup import EVERYWHERE, CopiedOutputs, model_spec
from ie_serving.server.fronts.kserve_v2.statistics import statistics_of
from ie_serving.server.fronts.rest.body import GZIPPED, read_body, read_buffer
from ie_serving.server.fronts.rest.replies import JSON_REPLY, preflight, refusal
from ie_serving.server.fronts.tfs.rest_interface import LARGE_BODY
from ie_serving.server.transport import inflate
from ie_serving.server.transport.http1.messages import Reply, Request, RequestHead
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.wire.json.document import parse_object
from ie_serving.wire.kserve.model_metadata import model_metadata
from ie_serving.wire.kserve.raw_request import RawBody
from ie_serving.wire.kserve.regions import SmallParts
from ie_serving.wire.kserve.reply import ReplyEncoder
from ie_serving.wire.kserve.request import InferBody, parse_at_once, parse_infer
from ie_serving.wire.kserve.request_members import OutputForm, Parameters, flag, parameters_of

HEADER: Final = b"inference-header-content-length"
CODINGS: Final = {**GZIPPED, b"deflate": inflate.DEFLATE}
"""Compressions of bodies that are accepted; Triton's client can send either."""
RAW_REPLY: Final = (b"content-type", b"application/octet-stream")
EXTENSIONS: Final = ("binary_tensor_data", *EVERYWHERE)
"""Triton's extensions, by its names, that this interface implements completely."""
SERVER: Final = {"name": "ie_serving", "version": __version__}
_MOST_DIGITS: Final = 18
_MOST_OF_INDEX: Final = 1 << 16
"""Largest body in bytes of a request for the index or a load, which holds at most one flag."""
_RAW_FACTOR: Final = LARGE // LARGE_BODY
"""Number of raw bytes that take as long to decode as one byte of JSON."""

ChangeRepository = Callable[[str, Parameters], Coroutine[Any, Any, None]]
"""Loads or unloads a model. Raises: ServingError."""


@dataclass(frozen=True, slots=True)
class FrontParts:
    """The objects that the front end uses to answer.

    Attributes:
        plane: runs the models.
        served: the models.
        health: phase of the server.
        metrics: metrics of all workers.
        interfaces: interfaces of the protocol.
        management: management of models and server.
        check_site: refuses a change that a page of another site makes a browser send.
        max_body_bytes: largest body.
    """

    plane: DataPlane
    served: ServedModels
    health: Health
    metrics: Metrics
    interfaces: Interfaces
    management: Management
    check_site: Callable[[Mapping[bytes, bytes]], None]
    max_body_bytes: int


class KServeFront:
    """Answers every request of the protocol, except probes."""

    def __init__(self, parts: FrontParts) -> None:
        self._plane = parts.plane
        self._served = parts.served
        self._of_json, self._of_raw, self._of_classes = parts.interfaces
        self._health = parts.health
        self._metrics = parts.metrics
        self._repository, self._settings, self._regions = parts.management
        self._small = SmallParts(self._regions)
        self._check_site = parts.check_site
        self._max_body_bytes = parts.max_body_bytes
        self._handlers: Mapping[
            str, Callable[[Request, ParsedPath, float], Coroutine[Any, Any, Reply]]
        ]
        self._handlers = {
            routes.INFER: self._infer,
            routes.METADATA: self._metadata,
            routes.READY: self._ready,
            routes.SERVER: self._server,
            routes.INDEX: self._index,
            routes.LOAD: self._load,
            routes.UNLOAD: self._unload,
            routes.STATS: self._statistics,
            routes.ALL_STATS: self._statistics,
            routes.CONFIG: self._config,
            routes.LOG_SETTINGS: self._log_settings,
            routes.CHANGE_LOG: self._change_log,
            routes.TRACE_SETTINGS: self._trace_settings,
            routes.CHANGE_TRACES: self._change_traces,
            routes.GENERATE: self._not_there,
            routes.REGIONS: self._status,
            routes.REGISTER: self._register,
            routes.UNREGISTER: self._unregister,
            routes.CUDA: self._not_there,
            routes.CUDA_REGIONS: self._cuda_status,
            routes.CUDA_UNREGISTER: self._cuda_unregister,
            routes.UNKNOWN: self._unknown,
            routes.PREFLIGHT: self._preflight,
            routes.WRONG_METHOD: self._wrong_method,
        }

    async def answer(self, request: Request, asked: ParsedPath) -> Reply:
        """Answer one request, whose route `asked` is already known."""
        began = time.perf_counter()
        try:
            return await self._handlers[asked.verb](request, asked, began)
        except Exception as error:
            return refusal(error)
        except asyncio.CancelledError as error:
            let_go(error)
            raise

    async def _infer(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        head, limit = request.head, self._max_body_bytes
        body: bytes | memoryview | None = request.body
        try:  # as `RestApi`, without the calls
            model = model_spec(asked.model, asked.version)
            if body is None or len(body) > limit or b"content-encoding" in head.fields:
                held = Lease(BUDGET)  # ends with the reply: other users of the body are done then
                body = await read_buffer(request, limit, held, CODINGS)
            length = _json_length(head, len(body))
            raw = 0 if length is None else len(body) - length
            parsed = (
                RawBody(body) if length == 0 else parse_at_once(body, length, self._small.anew())
            )
            if parsed is None:
                parsed = await in_thread(parse_infer, body, length, self._regions)
                raw = parsed.raw_size
        except ENDED as error:
            self._plane.refused(asked.model, error, self._of_json, Api.PREDICT)
            raise
        size = (len(body) if length is None else length) + raw // _RAW_FACTOR
        inputs = InferRequest(
            model, "", parsed.decode, size, parsed.decode_at_once, parsed.outputs, head
        )
        if classes := parsed.wanted.classes:
            taken = await self._plane.predict(inputs, self._of_classes, began)
            # A thread writes the classes: an output may have a million of these texts.
            return _reply(parsed, await in_thread(_classified, taken, classes))
        is_json = parsed.wanted.form is OutputForm.JSON
        interface = self._of_json if is_json else self._of_raw
        return _reply(parsed, await self._plane.predict(inputs, interface, began))

    async def _metadata(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        def encode(servable: Servable) -> bytes:
            whose = f'model "{servable.name}" version {servable.version}'
            signature = named(servable.signatures, "", whose)
            versions = self._served.entry(servable.name).stream.available
            described = model_metadata(servable.name, versions, signature)
            told = {
                **described._asdict(),
                "inputs": [each.as_json() for each in described.inputs],
                "outputs": [each.as_json() for each in described.outputs],
            }
            if not described.parameters:
                del told["parameters"]
            return orjson.dumps(told)

        with self._plane.counting_refusals(asked.model, self._of_json, Api.METADATA):
            model = model_spec(asked.model, asked.version)
        return _json(await self._plane.metadata(model, self._of_json, began, encode))

    async def _ready(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        """Answer a version's readiness by label; `Health` answers by number or without one."""
        model = model_spec(asked.model, asked.version)
        if model.label is not None:
            version = self._served.resolve_label(model.name, model.label)
            model = ModelSpec(model.name, version)
        status, body = self._health.model_reply(
            model, self._plane.answer_ready(model, self._of_json, began)
        )
        return Reply(status, JSON_REPLY, body)

    async def _server(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        extensions = (*EXTENSIONS, *self._regions.extensions)
        return _json(orjson.dumps({**SERVER, "extensions": extensions}))

    async def _index(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        with self._plane.counting_refusals("", self._of_json):
            document = await self._document(request)
            ready = flag(document, "ready", False, "the request")
            found = await self._repository.index(ready=ready)
        return _json(orjson.dumps([each._asdict() for each in found]))

    async def _load(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        return await self._change(request, asked, self._repository.load)

    async def _unload(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        return await self._change(request, asked, self._repository.unload)

    async def _change(self, request: Request, asked: ParsedPath, change: ChangeRepository) -> Reply:
        with self._plane.counting_refusals(asked.model, self._of_json):
            self._check_site(request.head.fields)
            document = await self._document(request)
            await change(asked.model, parameters_of(document, list(document), "the request"))
        return _json(b"{}")

    async def _statistics(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        with self._plane.counting_refusals(asked.model, self._of_json):
            found = await statistics_of(self._metrics, self._served, asked.model, asked.version)
        return _json(orjson.dumps({"model_stats": found}))

    async def _config(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        with self._plane.counting_refusals(asked.model, self._of_json):
            servable = self._served.main(model_spec(asked.model, asked.version))
            return _json(orjson.dumps(config_of(servable, self._served)))

    async def _log_settings(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        return _json(orjson.dumps(self._settings.log_settings()))

    async def _change_log(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        with self._plane.counting_refusals("", self._of_json):
            self._check_site(request.head.fields)
            changed = await self._settings.change_log(await self._setting_values(request))
        return _json(orjson.dumps(changed))

    async def _trace_settings(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        self._check_model(asked.model)
        return _json(orjson.dumps(self._settings.trace_settings()))

    async def _change_traces(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        with self._plane.counting_refusals(asked.model, self._of_json):
            self._check_model(asked.model)
            wanted = await self._setting_values(request)
            return _json(orjson.dumps(self._settings.change_traces(wanted)))

    def _check_model(self, name: str) -> None:
        """Refuse the name of no model; traces are set for all models alike. Raises: NotFound."""
        if name:
            self._served.entry(name)

    async def _status(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        with self._plane.counting_refusals("", self._of_json):
            return _json(orjson.dumps(self._regions.status(asked.region)))

    async def _register(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        with self._plane.counting_refusals("", self._of_json):
            self._check_site(request.head.fields)
            found = await self._document(request)
            key, offset, size = (found.get(name) for name in ("key", "offset", "byte_size"))
            try:
                self._regions.register(asked.region, key, 0 if offset is None else offset, size)
            except AlreadyExists as error:  # 409 elsewhere; Triton answers 400
                self._plane.refused("", error, self._of_json)
                return refusal(error)._replace(status=400)
        return _json(b"{}")

    async def _unregister(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        with self._plane.counting_refusals("", self._of_json):
            self._check_site(request.head.fields)
            self._regions.unregister(asked.region)
        return _json(b"{}")

    async def _cuda_status(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        with self._plane.counting_refusals("", self._of_json):
            self._regions.check_cuda(asked.region)
        return _json(b"[]")

    async def _cuda_unregister(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        with self._plane.counting_refusals("", self._of_json):
            self._regions.check_cuda("")
        return _json(b"{}")

    async def _not_there(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        with self._plane.counting_refusals(asked.model, self._of_json):
            raise NotSupported(
                f"this server has no {asked.verb.replace('_', ' ')}; GET /v2 lists its extensions"
            )

    async def _unknown(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        with self._plane.counting_refusals("", self._of_json):
            path = request.head.path[:200].decode("latin-1")
            raise NotFound(f"the Open Inference Protocol has no path {path}: GET /v2 answers")

    async def _preflight(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        origin = request.head.fields.get(b"origin", b"").decode("latin-1")
        status, kind, body = preflight(origin)
        return Reply(status, ((b"content-type", kind.encode()),), body)

    async def _wrong_method(self, request: Request, asked: ParsedPath, began: float) -> Reply:
        error = InvalidRequest(
            f"{request.head.method} is not what this path takes: {asked.allowed}"
        )
        self._plane.refused(asked.model, error, self._of_json)
        reply = refusal(error)
        return reply._replace(
            status=405, headers=(*reply.headers, (b"allow", asked.allowed.encode()))
        )

    async def _document(self, request: Request) -> Mapping[str, Any]:
        """Read a small body: a JSON object, or empty."""
        body = await self._small_body(request)
        if not body.strip():
            return {}
        document = parse_object(body)
        return {key: document[key] for key in list(document)}

    async def _setting_values(self, request: Request) -> Mapping[str, object]:
        try:
            values = orjson.loads(await self._small_body(request))
        except orjson.JSONDecodeError:
            values = None
        if not isinstance(values, dict):
            raise InvalidRequest("the body has to be a JSON object: settings with their values")
        return values

    async def _small_body(self, request: Request) -> bytes:
        limit = min(_MOST_OF_INDEX, self._max_body_bytes)
        return bytes(await read_body(request, limit, Lease(BUDGET)))


def _json_length(head: RequestHead, size: int) -> int | None:
    """Return how many bytes of a body are JSON; None if all are. Raises: InvalidRequest."""
    given = head.fields.get(HEADER)
    if given is None:
        return None
    digits = given.strip()
    if not digits.isdigit() or len(digits) > _MOST_DIGITS or int(digits) > size:
        raise InvalidRequest(
            f"Inference-Header-Content-Length is {given[:40].decode('latin-1')!r}; expected how"
            f" many of the {size} bytes of the body are JSON"
        )
    return int(digits)


def _classified(taken: CopiedOutputs, wanted: Mapping[str, int]) -> UnwrittenOutputs:
    specs, arrays = taken.with_classes(wanted)
    encoder = ReplyEncoder(taken.servable.name, taken.servable.version, specs)
    return UnwrittenOutputs(encoder.mixed, arrays)


def _reply(asked: InferBody | RawBody, given: WrittenReply) -> Reply:
    wanted = asked.wanted
    written = (
        given.write(given.outputs, wanted.binary) if isinstance(given, UnwrittenOutputs) else given
    )
    body, length = written.body(asked.id)
    if wanted.form is OutputForm.JSON or (wanted.placing and length == len(body)):
        return Reply(200, JSON_REPLY, body)
    return Reply(200, (RAW_REPLY, (HEADER, b"%d" % length)), body)


def _json(body: bytes) -> Reply:
    return Reply(200, JSON_REPLY, body)

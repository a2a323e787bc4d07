"""Both of TensorFlow Serving's interfaces over one data plane: bytes in, bytes out, no sockets."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import orjson

from ie_serving.config.settings import ServerSettings
from ie_serving.core.settings.words import log_level
from ie_serving.core.values.codes import Code
from ie_serving.core.values.requests import ModelSpec
from ie_serving.inference.plane import DataPlane
from ie_serving.server.fronts.admin.config_pages import ConfigPages
from ie_serving.server.fronts.admin.health import Health
from ie_serving.server.fronts.admin.log_pages import LogPages
from ie_serving.server.fronts.tfs.model_service import ModelService
from ie_serving.server.fronts.tfs.prediction_service import PredictionService, grpc_interface
from ie_serving.server.fronts.tfs.rest import RestApi
from ie_serving.server.fronts.tfs.rest_interface import rest_interface
from ie_serving.server.status import HTTP_OF, explain
from ie_serving.server.transport.http1.messages import Request, RequestHead
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.statuses import StatusEncoder

STATUSES = StatusEncoder()
Rows = list[list[float]]
NEVER: Any = None
"""In place of what no test here calls."""


@dataclass(frozen=True)
class Answer:
    """What a client sees.

    Attributes:
        code: canonical code; over REST any that its HTTP status stands for.
        values: outputs, when it succeeded.
        text: of the error, else empty.
    """

    codes: frozenset[Code]
    values: Rows | None = None
    text: str = ""


class Client(Protocol):
    """Asks over one interface. Each method takes Examples as rows of the feature `f`."""

    async def predict(self, model: ModelSpec, x: Rows) -> Answer: ...
    async def classify(self, model: ModelSpec, rows: Rows) -> Answer: ...
    async def regress(self, model: ModelSpec, rows: Rows) -> Answer: ...
    async def metadata(self, model: ModelSpec) -> Answer: ...
    async def status(self, model: ModelSpec) -> Answer: ...
    async def malformed(self) -> Answer: ...


class Grpc:
    """The gRPC services, with messages of their own protos."""

    def __init__(self, plane: DataPlane, limit_s: float | None) -> None:
        interface = grpc_interface(tensor_content=True, limit_s=limit_s)
        self._methods = {
            **PredictionService(plane, interface).handlers(),
            **ModelService(plane, interface, NEVER, NEVER, NEVER, STATUSES).handlers(),
        }

    async def call(self, method: str, payload: bytes, kind: Proto) -> Answer | Proto:
        try:
            reply = await self._methods[method](payload, NEVER)
        except Exception as error:
            told = explain(error)
            return Answer(frozenset({told.code}), text=told.text)
        return kind.FromString(reply)

    async def predict(self, model: ModelSpec, x: Rows) -> Answer:
        request = messages.PredictRequest()
        _fill(request.model_spec, model)
        array = np.array(x, np.float32)
        tensor = request.inputs["x"]
        tensor.dtype = 1
        for size in array.shape:
            tensor.tensor_shape.dim.add(size=size)
        tensor.tensor_content = array.tobytes()
        reply = await self.call("Predict", request.SerializeToString(), messages.PredictResponse)
        if isinstance(reply, Answer):
            return reply
        y = reply.outputs["y"]
        shape = [dim.size for dim in y.tensor_shape.dim]
        return _ok(np.frombuffer(y.tensor_content, np.float32).reshape(shape).tolist())

    async def classify(self, model: ModelSpec, rows: Rows) -> Answer:
        payload = _with_examples(messages.ClassificationRequest(), model, rows)
        reply = await self.call("Classify", payload, messages.ClassificationResponse)
        if isinstance(reply, Answer):
            return reply
        return _ok([[c.score for c in each.classes] for each in reply.result.classifications])

    async def regress(self, model: ModelSpec, rows: Rows) -> Answer:
        payload = _with_examples(messages.RegressionRequest(), model, rows)
        reply = await self.call("Regress", payload, messages.RegressionResponse)
        if isinstance(reply, Answer):
            return reply
        return _ok([[each.value] for each in reply.result.regressions])

    async def metadata(self, model: ModelSpec) -> Answer:
        request = messages.GetModelMetadataRequest(metadata_field=["signature_def"])
        _fill(request.model_spec, model)
        return await self._asked("GetModelMetadata", request, messages.GetModelMetadataResponse)

    async def status(self, model: ModelSpec) -> Answer:
        request = messages.GetModelStatusRequest()
        _fill(request.model_spec, model)
        return await self._asked("GetModelStatus", request, messages.GetModelStatusResponse)

    async def malformed(self) -> Answer:
        reply = await self.call("Predict", b"\xff", messages.PredictResponse)
        assert isinstance(reply, Answer)
        return reply

    async def _asked(self, method: str, request: Proto, kind: Proto) -> Answer:
        reply = await self.call(method, request.SerializeToString(), kind)
        return reply if isinstance(reply, Answer) else _ok(None)


async def no_reload() -> bool:
    raise AssertionError("no test asks for a reload here")


NEVER_LABELS: Any = None
NO_LOG = LogPages(log_level, NEVER, allowed=False)
NO_CONFIG = ConfigPages(dict, no_reload, NEVER_LABELS, STATUSES, reload_allowed=True, limit_s=1)


class Rest:
    """The REST API, as the application that the transport calls."""

    def __init__(
        self,
        plane: DataPlane,
        limit_s: float | None = None,
        poll: Any = NEVER,
        poll_allowed: bool = True,
        config: ConfigPages = NO_CONFIG,
    ) -> None:
        self.health = Health()
        self.api = RestApi(
            plane,
            rest_interface(limit_s=3600 if limit_s is None else limit_s),
            Metrics(),
            self.health,
            ServerSettings(max_message_bytes=1 << 22, reload_by_rpc=poll_allowed),
            poll=poll,
            config=config,
            log=NO_LOG,
            statuses=STATUSES,
        )

    async def call(self, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
        head = RequestHead(method, target.encode(), b"", "1.1", (), {}, len(body), True, False)
        reply = await self.api.answer(Request(head, body))
        return reply.status, bytes(reply.body)

    async def predict(self, model: ModelSpec, x: Rows) -> Answer:
        body = {"signature_name": model.signature, "instances": x}
        return await self._post(model, "predict", body, "predictions")

    async def classify(self, model: ModelSpec, rows: Rows) -> Answer:
        answer = await self._post(model, "classify", _rows(model, rows), "results")
        if answer.values is None:
            return answer
        return _ok([[score for _, score in row] for row in answer.values])  # type: ignore[misc]

    async def regress(self, model: ModelSpec, rows: Rows) -> Answer:
        answer = await self._post(model, "regress", _rows(model, rows), "results")
        if answer.values is None:
            return answer
        return _ok([[value] for value in answer.values])  # type: ignore[list-item]

    async def metadata(self, model: ModelSpec) -> Answer:
        return self._answer(*await self.call("GET", f"{_path(model)}/metadata"), key=None)

    async def status(self, model: ModelSpec) -> Answer:
        return self._answer(*await self.call("GET", _path(model)), key=None)

    async def malformed(self) -> Answer:
        return self._answer(*await self.call("POST", "/v1/models/m:predict", b"{"), key=None)

    async def _post(self, model: ModelSpec, verb: str, body: object, key: str) -> Answer:
        target = f"{_path(model)}:{verb}"
        return self._answer(*await self.call("POST", target, orjson.dumps(body)), key=key)

    def _answer(self, status: int, body: bytes, *, key: str | None) -> Answer:
        codes = frozenset(code for code, http in HTTP_OF.items() if http == status)
        document = orjson.loads(body)
        if Code.OK in codes:
            return Answer(codes, document[key] if key else None)
        return Answer(codes, text=document["error"])


def _ok(values: Rows | None) -> Answer:
    return Answer(frozenset({Code.OK}), values)


def _fill(spec: Proto, model: ModelSpec) -> None:
    spec.name = model.name
    spec.signature_name = model.signature
    if model.version is not None:
        spec.version.value = model.version
    if model.label is not None:
        spec.version_label = model.label


def _with_examples(request: Proto, model: ModelSpec, rows: Rows) -> bytes:
    _fill(request.model_spec, model)
    for row in rows:
        feature = request.input.example_list.examples.add().features.feature["f"]
        feature.float_list.value.extend(row)
    return bytes(request.SerializeToString())


def _rows(model: ModelSpec, rows: Rows) -> object:
    return {"signature_name": model.signature, "examples": [{"f": row} for row in rows]}


def _path(model: ModelSpec) -> str:
    if model.version is not None:
        return f"/v1/models/{model.name}/versions/{model.version}"
    if model.label is not None:
        return f"/v1/models/{model.name}/labels/{model.label}"
    return f"/v1/models/{model.name}"

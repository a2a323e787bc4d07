"""`tensorflow.serving.PredictionService` over gRPC: parse, call the data plane, encode."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import InvalidRequest, PreconditionFailed, advised
from ie_serving.core.values.requests import CallerPassing, ExamplesRequest, ModelSpec, Task
from ie_serving.core.values.tensors import Method, Outputs, Signature
from ie_serving.inference.interface import Api, Encode, Interface, Results
from ie_serving.inference.plane import DataPlane
from ie_serving.inference.warmup import Replay
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.rest.callers import grpc_callers
from ie_serving.server.transport.grpc.services import CallContext, Unary
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.fields import Encoded, UnusualField
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs import metadata
from ie_serving.wire.tfs.classify_regress import (
    classes_of,
    classification_result,
    count_of,
    examples_of,
    regression_result,
    values_of,
)
from ie_serving.wire.tfs.metadata import SIGNATURE_DEF
from ie_serving.wire.tfs.predict import OpenEncoder, ResponseEncoder, parse_request, parse_whole
from ie_serving.wire.tfs.predict_layout import RequestParser
from ie_serving.wire.tfs.request_messages import model_spec_of, parse, read_model_spec

T = TypeVar("T")

NAME = "tensorflow.serving.PredictionService"

MOST_TASKS = 1000
"""Most tasks of one MultiInference. Each names another signature; no model has a tenth as many."""
LARGE_MESSAGE = 16 * 1024
"""Bytes of a message, other than Predict's, from which a thread parses it. protobuf takes 0.1 ms
for as many bytes of empty Examples; but the message may also have `MOST_TASKS` tasks, each of which
takes 1 us to read."""

LABELS: Mapping[Api, str] = {
    Api.PREDICT: "Predict",
    Api.CLASSIFY: "Classify",
    Api.REGRESS: "Regress",
    Api.MULTI_INFERENCE: "MultiInference",
    Api.METADATA: "GetModelMetadata",
    Api.STATUS: "GetModelStatus",
}


def grpc_interface(*, tensor_content: bool, limit_s: float | None) -> Interface[bytes]:
    """Describe TensorFlow Serving's gRPC API to the data plane.

    Args:
        tensor_content: encode outputs as `tensor_content` instead of the typed lists.
        limit_s: longest time in seconds of an inference, beside the caller's own deadline.
    """
    return Interface(
        entrypoint="GRPC",
        labels=LABELS,
        encoders=partial(_encoders, tensor_content=tensor_content),
        unknown_signature=_unknown_signature,
        caller=grpc_callers(limit_s),
        limit_s=limit_s,
    )


class PredictionService:
    """Answers the methods of PredictionService.

    Args of the constructor:
        plane: answers the requests.
        interface: front end of the requests, made by `grpc_interface`.
        callers: whether requests refer to their calls; it may change.
    """

    def __init__(
        self, plane: DataPlane, interface: Interface[bytes], callers: CallerPassing | None = None
    ) -> None:
        self._callers = callers or CallerPassing()
        self._plane = plane
        self._interface = interface
        self._parser = RequestParser()

    def handlers(self) -> dict[str, Unary]:
        """The methods by name."""
        return {
            "Predict": self.predict,
            "Classify": self.classify,
            "Regress": self.regress,
            "MultiInference": self.multi_inference,
            "GetModelMetadata": self.get_model_metadata,
        }

    def replays(self) -> dict[str, Replay]:
        """Functions that replay each kind of warm-up record."""
        return {
            "predict_log": self._replay_predict,
            "classify_log": partial(self._replay, Method.CLASSIFY, messages.ClassificationRequest),
            "regress_log": partial(self._replay, Method.REGRESS, messages.RegressionRequest),
            "multi_inference_log": self._replay_multi_inference,
        }

    def predict(self, payload: Encoded, context: CallContext) -> Awaitable[bytes]:
        """Run a signature on named tensors."""
        began = time.perf_counter()
        # `_read` inline, which saves every small request a call.
        try:
            request = self._parser.parse(payload)
        except UnusualField:
            return self._predict_unclear(payload, context, began)
        except Exception as error:
            self._plane.refused("", error, self._interface, Api.PREDICT)
            raise
        if self._callers.are_passed:
            request.caller = context
        return self._plane.predict(request, self._interface, began)

    async def _predict_unclear(self, payload: Encoded, context: CallContext, began: float) -> bytes:
        """Let protobuf parse a large request that is not in the form that clients usually write."""
        request = await self._read(parse_whole, payload)
        if self._callers.are_passed:
            request.caller = context
        return await self._plane.predict(request, self._interface, began)

    async def classify(self, payload: Encoded, context: CallContext) -> bytes:
        """Return classes and scores for Examples."""
        began = time.perf_counter()
        request = await self._read(partial(_examples, messages.ClassificationRequest), payload)
        self._pass_caller(request, context)
        return await self._plane.classify(request, self._interface, began, encode_classification)

    async def regress(self, payload: Encoded, context: CallContext) -> bytes:
        """Return a value for each Example."""
        began = time.perf_counter()
        request = await self._read(partial(_examples, messages.RegressionRequest), payload)
        self._pass_caller(request, context)
        return await self._plane.regress(request, self._interface, began, encode_regression)

    async def multi_inference(self, payload: Encoded, context: CallContext) -> bytes:
        """Classify and regress the same Examples with several signatures of one model."""
        began = time.perf_counter()
        request, tasks = await self._read(_multi, payload)
        self._pass_caller(request, context)
        return await self._plane.multi_inference(
            request, tasks, self._interface, began, encode_multi_inference
        )

    async def get_model_metadata(self, payload: Encoded, context: CallContext) -> bytes:
        """Describe the signatures of a version."""
        began = time.perf_counter()
        model = await self._read(_metadata_model, payload)
        return await self._plane.metadata(model, self._interface, began, _encode_metadata)

    def _pass_caller(self, request: ExamplesRequest, context: CallContext) -> None:
        if self._callers.are_passed:
            request.caller = context

    async def _read(self, read: Callable[[Encoded], T], payload: Encoded) -> T:
        """Parse a request; count an unparsable one with an empty model name."""
        with self._plane.counting_refusals("", self._interface):
            return await self._parsed(read, payload)

    async def _parsed(self, read: Callable[[Encoded], T], payload: Encoded) -> T:
        if len(payload) >= LARGE_MESSAGE:
            return await in_thread(read, payload)
        return read(payload)

    async def _replay_predict(self, servable: Servable, payload: bytes) -> None:
        request = await self._parsed(parse_request, payload)
        await self._plane.replay_predict(servable, request, self._interface)

    async def _replay(
        self, method: Method, kind: Proto, servable: Servable, payload: bytes
    ) -> None:
        request = await self._parsed(partial(_examples, kind), payload)
        spec = ModelSpec(request.model.name, signature=request.signature)
        await self._plane.replay_examples(servable, request, [Task(spec, method.value)])

    async def _replay_multi_inference(self, servable: Servable, payload: bytes) -> None:
        request, tasks = await self._parsed(_multi, payload)
        await self._plane.replay_examples(servable, request, tasks)


def _encoders(
    servable: Servable, signature: Signature, outputs: Sequence[str], *, tensor_content: bool
) -> Mapping[object, Encode[bytes]]:
    made = partial(ResponseEncoder, servable.name, servable.version, tensor_content=tensor_content)
    # A PredictResponse has only one form.
    if signature.gives_any:
        return {None: OpenEncoder(signature, outputs, made).encode}
    return {None: made(signature, outputs).encode}


def _unknown_signature(servable: Servable, name: str) -> PreconditionFailed:
    known = servable.signature_names
    return PreconditionFailed(
        advised(
            f'Serving signature key "{name}" not found.',
            f' Model "{servable.name}" version {servable.version} has: {known}',
        )
    )


def _examples(kind: Proto, payload: Encoded) -> ExamplesRequest:
    request = parse(kind, payload)
    model = model_spec_of(request)
    asked = request.input
    return ExamplesRequest(model, model.signature, partial(examples_of, asked), count_of(asked))


def _multi(payload: Encoded) -> tuple[ExamplesRequest, list[Task]]:
    request = parse(messages.MultiInferenceRequest, payload)
    if len(request.tasks) > MOST_TASKS:
        raise InvalidRequest(
            f"MultiInferenceRequest has {len(request.tasks)} tasks; at most {MOST_TASKS} are taken:"
            " send them in parts"
        )
    tasks = [Task(read_model_spec(task.model_spec), task.method_name) for task in request.tasks]
    # The tasks name the model; the request itself has no field for it.
    asked = request.input
    decode = partial(examples_of, asked)
    return ExamplesRequest(ModelSpec(""), "", decode, count_of(asked)), tasks


def _metadata_model(payload: Encoded) -> ModelSpec:
    """Read which model's metadata a request asks for.

    Raises:
        InvalidRequest: no model is named, or fields other than `signature_def` are asked for.
    """
    request = parse(messages.GetModelMetadataRequest, payload)
    model = model_spec_of(request)
    _check_fields(request.metadata_field)
    return model


def _check_fields(fields: Sequence[str]) -> None:
    if not fields:
        raise InvalidRequest(
            advised(
                "GetModelMetadataRequest must specify at least one metadata_field",
                f': set it to "{SIGNATURE_DEF}"',
            )
        )
    for field in fields:
        if field != SIGNATURE_DEF:
            raise InvalidRequest(
                advised(f"Metadata field {field} is not supported", f': ask for "{SIGNATURE_DEF}"')
            )


def _encode_metadata(servable: Servable) -> bytes:
    return metadata.metadata_response(servable.name, servable.version, servable.signatures)


def _classified(outputs: Outputs, rows: int) -> Proto:
    return classification_result(classes_of(outputs, rows))


def _regressed(outputs: Outputs, rows: int) -> Proto:
    return regression_result(values_of(outputs, rows))


FIELDS: Mapping[Method, tuple[str, Callable[[Outputs, int], Proto]]] = {
    Method.CLASSIFY: ("classification_result", _classified),
    Method.REGRESS: ("regression_result", _regressed),
}
"""Fields by method: the field of an InferenceResult for the result, and the function that encodes
it."""


def encode_classification(results: Results) -> bytes:
    """Encode a ClassificationResponse."""
    response = messages.ClassificationResponse()
    response.result.CopyFrom(_classified(results.outputs, results.rows))
    return _encoded(response, results)


def encode_regression(results: Results) -> bytes:
    """Encode a RegressionResponse."""
    response = messages.RegressionResponse()
    response.result.CopyFrom(_regressed(results.outputs, results.rows))
    return _encoded(response, results)


def encode_multi_inference(handlers: Sequence[tuple[Method, Results]]) -> bytes:
    """Encode a MultiInferenceResponse: a result for each task, in order."""
    response = messages.MultiInferenceResponse()
    for method, results in handlers:
        result = response.results.add()
        field, make = FIELDS[method]
        getattr(result, field).CopyFrom(make(results.outputs, results.rows))
        _fill(result.model_spec, results)
    return bytes(response.SerializeToString())


def _encoded(response: Proto, results: Results) -> bytes:
    _fill(response.model_spec, results)
    return bytes(response.SerializeToString())


def _fill(spec: Proto, results: Results) -> None:
    spec.name = results.servable.name
    spec.version.value = results.servable.version
    spec.signature_name = results.signature

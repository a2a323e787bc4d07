"""`tensorflow.serving.PredictionService`: Predict and its kin. Bytes to bytes."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import NamedTuple, TypeAlias

from ie_serving.errors import InvalidRequest, ServingError
from ie_serving.inputs import cast_all, have_dtypes
from ie_serving.models.handle import Servable
from ie_serving.models.manager import ModelManager
from ie_serving.requests import ModelSpec
from ie_serving.server.bindings import Bindings
from ie_serving.server.calls import Answer, CallContext
from ie_serving.server.classification import infer_serialized
from ie_serving.server.example_calls import (
    classify,
    model_of_tasks,
    multi_inference,
    regress,
)
from ie_serving.server.inference import check_method, infer, signature_of
from ie_serving.server.status import Code, code_of
from ie_serving.server.warmup import Replay
from ie_serving.server.wire import messages, metadata
from ie_serving.server.wire.fields import Buffer
from ie_serving.server.wire.messages import Proto
from ie_serving.server.wire.metadata import SIGNATURE_DEF
from ie_serving.server.wire.predict import PredictCall, ResponseEncoder, parse_request
from ie_serving.server.wire.predict_layout import RequestParser
from ie_serving.server.wire.requests import model_spec_of, parse
from ie_serving.telemetry.metrics import Metrics
from ie_serving.tensors import Array, Signature

AnswerWith: TypeAlias = Callable[[Servable, Proto], Awaitable[bytes]]

LARGE = 1 << 18
"""Bytes of a request from which its inputs are decoded and cast beside the event loop."""

NAME = "tensorflow.serving.PredictionService"


class PredictionService:
    """Answers the methods of PredictionService.

    Args of the constructor:
        models: who gives the handles.
        metrics: where requests are counted.
        tensor_content: encode outputs as `tensor_content` instead of the typed lists.
        method_name_check: let Predict refuse a signature of a method unheard of.
    """

    def __init__(
        self,
        models: ModelManager,
        metrics: Metrics,
        *,
        tensor_content: bool,
        method_name_check: bool,
    ) -> None:
        self._models = models
        self._metrics = metrics
        self._parser = RequestParser()
        self._bound = Bindings(
            partial(_bind, tensor_content=tensor_content, method_name_check=method_name_check)
        )

    def answers(self) -> dict[str, Answer]:
        """The methods by name."""
        return {
            "Predict": self.predict,
            "Classify": self.classify,
            "Regress": self.regress,
            "MultiInference": self.multi_inference,
            "GetModelMetadata": self.get_model_metadata,
        }

    def replays(self) -> dict[str, Replay]:
        """What answers each kind of warm-up record."""
        return {
            "predict_log": self._replay_predict,
            "classify_log": self._replay_classify,
            "regress_log": self._replay_regress,
            "multi_inference_log": self._replay_multi_inference,
        }

    async def predict(self, payload: Buffer, context: CallContext) -> bytes:
        """Run a signature on named tensors."""
        call = self._parser.parse(payload)
        with self._measured("Predict", call.model), self._models.handle(call.model) as servable:
            if len(payload) >= LARGE:
                return await self._predict_large(servable, call)
            return await self._predict_small(servable, call)

    def _predict_small(self, servable: Servable, call: PredictCall) -> Awaitable[bytes]:
        bound = self._bound.of(servable, call.model.signature)
        encoder = bound.encoder.filtered(call.output_filter)
        return bound.run(servable, bound.signature, call.decode_inputs(), encoder.encode)

    async def _predict_large(self, servable: Servable, call: PredictCall) -> bytes:
        """Predict; decode and cast in a thread, unless the inputs can be taken as they are.

        A few megabytes of a list of integers take tens of milliseconds.
        """
        bound = self._bound.of(servable, call.model.signature)
        encoder = bound.encoder.filtered(call.output_filter)
        inputs = call.decode_inputs() if call.in_place else {}
        if not have_dtypes(bound.signature, inputs):
            inputs = await asyncio.to_thread(_decode, call, bound.signature)
        return await bound.run(servable, bound.signature, inputs, encoder.encode)

    async def _replay_predict(self, servable: Servable, payload: bytes) -> bytes:
        return await self._predict_small(servable, parse_request(payload))

    async def classify(self, payload: Buffer, context: CallContext) -> bytes:
        """Give classes and scores for Examples."""
        request = parse(messages.ClassificationRequest, payload)
        return await self._held("Classify", request, classify)

    async def regress(self, payload: Buffer, context: CallContext) -> bytes:
        """Give a value for each Example."""
        request = parse(messages.RegressionRequest, payload)
        return await self._held("Regress", request, regress)

    async def multi_inference(self, payload: Buffer, context: CallContext) -> bytes:
        """Classify and regress the same Examples with several signatures of one model."""
        request = parse(messages.MultiInferenceRequest, payload)
        with self._models.handle(model_of_tasks(request)) as servable:
            return await multi_inference(servable, request)

    async def _held(self, api: str, request: Proto, answer: AnswerWith) -> bytes:
        model = model_spec_of(request)
        with self._measured(api, model), self._models.handle(model) as servable:
            return await answer(servable, request)

    async def _replay_classify(self, servable: Servable, payload: bytes) -> bytes:
        return await classify(servable, parse(messages.ClassificationRequest, payload))

    async def _replay_regress(self, servable: Servable, payload: bytes) -> bytes:
        return await regress(servable, parse(messages.RegressionRequest, payload))

    async def _replay_multi_inference(self, servable: Servable, payload: bytes) -> bytes:
        return await multi_inference(servable, parse(messages.MultiInferenceRequest, payload))

    def _measured(self, api: str, model: ModelSpec) -> "_Measured":
        return _Measured(self._metrics, api, model.name)

    async def get_model_metadata(self, payload: Buffer, context: CallContext) -> bytes:
        """Describe the signatures of a version."""
        request = parse(messages.GetModelMetadataRequest, payload)
        model = model_spec_of(request)
        _check_fields(request.metadata_field)
        with self._models.handle(model) as servable:
            return metadata.metadata_response(servable.name, servable.version, servable.signatures)


def _decode(call: PredictCall, signature: Signature) -> dict[str, Array]:
    return cast_all(signature, call.decode_inputs())


class _Measured:
    """Context manager that counts a request, and its latency if it succeeds."""

    __slots__ = ("_api", "_began", "_metrics", "_model")

    def __init__(self, metrics: Metrics, api: str, model: str) -> None:
        self._metrics = metrics
        self._api = api
        self._model = model

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            microseconds = (time.perf_counter() - self._began) * 1e6
            self._metrics.served(self._model, self._api, "GRPC", microseconds)
        elif isinstance(error, Exception):
            code = code_of(error) if isinstance(error, ServingError) else Code.INTERNAL
            self._metrics.of(self._model).count(code.name)


class _Bound(NamedTuple):
    """How Predict answers for one version and signature."""

    signature: Signature
    encoder: ResponseEncoder
    run: Callable[..., Awaitable[bytes]]


def _bind(
    servable: Servable, name: str, *, tensor_content: bool, method_name_check: bool
) -> _Bound:
    """Compose it. Raises: ServingError, when there is no such signature, or it is not to be run."""
    signature = signature_of(servable, name)
    if method_name_check:
        check_method(signature)
    encoder = ResponseEncoder(
        servable.name, servable.version, signature, tensor_content=tensor_content
    )
    return _Bound(signature, encoder, infer if signature.examples is None else infer_serialized)


def _check_fields(fields: list[str]) -> None:
    if not fields:
        raise InvalidRequest(
            "GetModelMetadataRequest must specify at least one metadata_field:"
            f' set it to "{SIGNATURE_DEF}"'
        )
    for field in fields:
        if field != SIGNATURE_DEF:
            raise InvalidRequest(
                f'Metadata field {field} is not supported: ask for "{SIGNATURE_DEF}"'
            )

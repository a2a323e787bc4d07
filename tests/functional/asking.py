"""Predict over gRPC, as a client that has TensorFlow writes it."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import predict_pb2

from tests.functional.servers import Server
from tests.process import PATIENCE_S


def predict_request(
    model: str, name: str = "", version: int | None = None, /, **inputs: Any
) -> predict_pb2.PredictRequest:
    """Give a request to a model and the signature `name`, with tensors or what they are made of."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model, name
    if version is not None:
        request.model_spec.version.value = version
    for alias, value in inputs.items():
        is_made = isinstance(value, tensor_pb2.TensorProto)
        request.inputs[alias].CopyFrom(value if is_made else tf.make_tensor_proto(value))
    return request


def predicted(
    server: Server, request: predict_pb2.PredictRequest, timeout_s: float = PATIENCE_S
) -> dict[str, Any]:
    """Send a request; give the outputs as arrays."""
    outputs = server.prediction.Predict(request, timeout_s).outputs
    return {alias: tf.make_ndarray(proto) for alias, proto in outputs.items()}


def over_grpc(server: Server, model: str, name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Ask a model's signature `name`; give the outputs as arrays."""
    return predicted(server, predict_request(model, name, **inputs))

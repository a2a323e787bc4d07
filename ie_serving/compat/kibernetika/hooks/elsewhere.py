"""`helpers.predict_grpc`: a hook asks the model of another server by TensorFlow Serving's API."""

from collections.abc import Mapping
from typing import Any

import grpc

from ie_serving.compat.kibernetika.hooks.linked import arrays_of, plain
from ie_serving.core.values.codes import ERROR_OF
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import BY_NUMPY, Array
from ie_serving.engines.python.asking import marked
from ie_serving.wire.protobuf import messages
from ie_serving.wire.tfs.tensor_encoder import TensorEncoder, size_of
from ie_serving.wire.tfs.tensor_proto import decode_tensor

_METHOD = "/tensorflow.serving.PredictionService/Predict"
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def predict(inputs: Mapping[str, Any], address: str, limit_s: float) -> dict[str, Array]:
    """Ask the one model at an address.

    Args:
        inputs: by name: arrays, or what becomes one.
        address: `host:port`.
        limit_s: seconds that the answer may take.

    Raises:
        ServingError: with the code of the answer.
    """
    request = messages.PredictRequest()
    for name, array in arrays_of(inputs, plain).items():
        encoder = TensorEncoder(BY_NUMPY[array.dtype], tensor_content=array.dtype != object)
        body = encoder.body(array)
        request.inputs[name].ParseFromString(encoder.head(array.shape, size_of(body)) + bytes(body))
    with grpc.insecure_channel(address, _OPTIONS) as channel, marked():
        ask = channel.unary_unary(_METHOD, None, messages.PredictResponse.FromString)
        try:
            found = ask(request.SerializeToString(), timeout=limit_s)
        except grpc.RpcError as error:
            raise _failed(error, address) from error
    return {name: decode_tensor(tensor, name) for name, tensor in found.outputs.items()}


def _failed(error: Any, address: str) -> ServingError:  # noqa: ANN401  it is a Call as well
    code: grpc.StatusCode = error.code()
    kind = ERROR_OF.get(code.value[0], ServingError)
    return kind(f"{address} answered {code.name}: {error.details()}")

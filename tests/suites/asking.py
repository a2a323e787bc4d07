"""One request over each interface, and its answer as arrays by name."""

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import grpc
import httpx
import ml_dtypes
import numpy as np
import numpy.typing as npt
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import predict_pb2
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.functional.servers import Server

Array = npt.NDArray[Any]
Values = Mapping[str, Array]

LONGEST_S = 30.0
"""Of one request: beyond it the server hangs."""

BF16 = np.dtype(ml_dtypes.bfloat16)
TEXT = np.dtype(np.object_)

# By numpy's type: the number of a TensorProto's dtype, and the word of the Open Inference Protocol.
TYPES: Sequence[tuple[np.dtype[Any], int, str]] = (
    (np.dtype(np.float32), types_pb2.DT_FLOAT, "FP32"),
    (np.dtype(np.float64), types_pb2.DT_DOUBLE, "FP64"),
    (np.dtype(np.float16), types_pb2.DT_HALF, "FP16"),
    (BF16, types_pb2.DT_BFLOAT16, "BF16"),
    (np.dtype(np.bool_), types_pb2.DT_BOOL, "BOOL"),
    (TEXT, types_pb2.DT_STRING, "BYTES"),
    *(
        (np.dtype(word), types_pb2.DataType.Value(f"DT_{word.upper()}"), word.upper())
        for word in (f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
    ),
)
NUMBER_OF = MappingProxyType({dtype: number for dtype, number, _ in TYPES})
OF_NUMBER = MappingProxyType({number: dtype for dtype, number, _ in TYPES})
WORD_OF = MappingProxyType({dtype: word for dtype, _, word in TYPES})
OF_WORD = MappingProxyType({word: dtype for dtype, _, word in TYPES})


class Refused(Exception):
    """The server has refused a request; the text is the server's."""


class NoAnswer(Exception):
    """No answer in time."""


class Unanswered(Exception):
    """The connection ended, or the server was not ready: it may have died."""


class NotSaid(Exception):
    """The interface has no words for these values."""


Ask = Callable[[Server, str, Values, Values], Values]
"""Asks a model: its name, its inputs, and the outputs that are expected."""


def over_predict(server: Server, model: str, inputs: Values, _: Values) -> Values:
    """Predict over gRPC, with `tensor_content`."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    for name, array in inputs.items():
        tensor = request.inputs[name]
        tensor.dtype = NUMBER_OF[array.dtype]
        for size in array.shape:
            tensor.tensor_shape.dim.add(size=size)
        if array.dtype == TEXT:
            tensor.string_val.extend(map(_bytes, array.flat))
        else:
            tensor.tensor_content = array.tobytes()
    reply = _call(server.prediction.Predict, request)
    return {name: _of_proto(tensor) for name, tensor in reply.outputs.items()}


def over_raw(server: Server, model: str, inputs: Values, _: Values) -> Values:
    """ModelInfer of the Open Inference Protocol over gRPC, with `raw_input_contents`."""
    request = service_pb2.ModelInferRequest(model_name=model)
    for name, array in inputs.items():
        request.inputs.add(name=name, datatype=WORD_OF[array.dtype], shape=array.shape)
        request.raw_input_contents.append(_raw(array))
    if not inputs:  # such a request is typed, and so is its answer
        raise NotSaid("a raw request has inputs")
    stub = service_pb2_grpc.GRPCInferenceServiceStub(server.channel)
    reply = _call(stub.ModelInfer, request)
    pairs = zip(reply.outputs, reply.raw_output_contents, strict=True)
    return {
        output.name: _of_raw(raw, OF_WORD[output.datatype]).reshape(output.shape)
        for output, raw in pairs
    }


def over_rest(server: Server, model: str, inputs: Values, expected: Values) -> Values:
    """`:predict` over REST, in columns; the types of the numbers are those that are expected."""
    body = json.dumps({"inputs": {name: _listed(name, array) for name, array in inputs.items()}})
    try:
        reply = server.rest.post(f"/v1/models/{model}:predict", content=body, timeout=LONGEST_S)
    except httpx.TimeoutException as error:
        raise NoAnswer from error
    except httpx.HTTPError as error:
        raise Unanswered(repr(error)) from error
    if reply.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        raise Unanswered(reply.text)
    if reply.status_code != httpx.codes.OK:
        raise Refused(reply.json()["error"])
    outputs = reply.json()["outputs"]
    if not isinstance(outputs, dict):  # of the only output, whose name is left out
        outputs = dict.fromkeys(expected, outputs)
    return {name: _of_list(outputs[name], expected[name]) for name in expected.keys() & outputs}


INTERFACES: Mapping[str, Ask] = MappingProxyType(
    {"predict": over_predict, "rest": over_rest, "raw": over_raw}
)


def _call(method: Callable[..., Any], request: Any) -> Any:
    try:
        return method(request, LONGEST_S)
    except grpc.RpcError as error:
        code, text = error.code(), str(error.details())
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            raise NoAnswer from error
        if code is grpc.StatusCode.UNAVAILABLE:
            raise Unanswered(text) from error
        raise Refused(text) from error


def _bytes(text: bytes | str) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _texts(values: Sequence[bytes]) -> Array:
    array = np.empty(len(values), TEXT)
    array[:] = [value.decode() for value in values]
    return array


def _of_proto(tensor: Any) -> Array:
    dtype = OF_NUMBER[tensor.dtype]
    is_text = dtype == TEXT
    flat = _texts(tensor.string_val) if is_text else np.frombuffer(tensor.tensor_content, dtype)
    return flat.reshape([dim.size for dim in tensor.tensor_shape.dim])


def _raw(array: Array) -> bytes:
    if array.dtype != TEXT:
        return array.tobytes()
    texts = map(_bytes, array.flat)
    return b"".join(len(text).to_bytes(4, "little") + text for text in texts)


def _of_raw(raw: bytes, dtype: np.dtype[Any]) -> Array:
    if dtype != TEXT:
        return np.frombuffer(raw, dtype)
    texts = []
    while raw:
        end = 4 + int.from_bytes(raw[:4], "little")
        texts.append(raw[4:end])
        raw = raw[end:]
    return _texts(texts)


def _listed(name: str, array: Array) -> Any:
    if 0 in array.shape[:-1]:
        raise NotSaid(f"JSON has no shape {array.shape}, of {name}")
    if array.dtype == TEXT:
        array = np.vectorize(lambda text: _bytes(text).decode(), otypes=[TEXT])(array)
    return (array.astype(np.float32) if array.dtype == BF16 else array).tolist()


def _of_list(value: Any, expected: Array) -> Array:
    dtype = expected.dtype
    if dtype == TEXT or dtype.kind in "iu":  # by way of Python's integers, of any size
        return np.asarray(value, TEXT).astype(dtype)
    return np.asarray(value).astype(dtype)

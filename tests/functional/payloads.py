"""Requests that are large, or small to send and large to answer: bytes, and a call of them."""

from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from ie_serving.wire.protobuf import messages
from tests.functional.servers import Server
from tests.process import PATIENCE_S
from tests.unit.wire.image.pictures import encoded
from tests.unit.wire.protobuf.nesting import nested

MEGABYTE = 2**20
EMPTY = b"\x0a\x00"
"""An entry of two bytes: the first field, a message of nothing."""
ROW = [float(i % 17) for i in range(64)]


def models(count: int) -> bytes:
    """A reload whose configuration names models without names."""
    return nested(1, 1, content=EMPTY * count)


def _of_digits(request: Any) -> Any:
    request.model_spec.name = "digits"
    return request


def filled(size: int) -> bytes:
    """A Predict of some bytes whose one value is to fill a tensor of `size` floats."""
    request = _of_digits(messages.PredictRequest())
    tensor = request.inputs["image"]
    tensor.dtype = 1
    tensor.float_val.append(1)
    tensor.tensor_shape.dim.add(size=size)
    return bytes(request.SerializeToString())


def packed(rows: int) -> bytes:
    """A Predict of rows in the bytes of a tensor."""
    request = predict_pb2.PredictRequest()
    request.inputs["image"].CopyFrom(tf.make_tensor_proto(np.tile(np.float32(ROW), (rows, 1))))
    return bytes(_of_digits(request).SerializeToString())


def listed(rows: int) -> bytes:
    """A Predict of rows whose values come one by one."""
    request = _of_digits(messages.PredictRequest())
    tensor = request.inputs["image"]
    tensor.dtype = 1
    tensor.float_val.extend(ROW * rows)
    for size in (rows, 64):
        tensor.tensor_shape.dim.add(size=size)
    return bytes(request.SerializeToString())


def strings(count: int) -> bytes:
    """A Predict of empty strings."""
    request = _of_digits(messages.PredictRequest())
    tensor = request.inputs["image"]
    tensor.dtype = 7
    tensor.string_val.extend([b""] * count)
    tensor.tensor_shape.dim.add(size=count)
    return bytes(request.SerializeToString())


def examples(count: int) -> bytes:
    """A Classify of Examples of eight numbers."""
    request = _of_digits(messages.ClassificationRequest())
    for _ in range(count):
        example = request.input.example_list.examples.add()
        example.features.feature["image"].float_list.value.extend(ROW[:8])
    return bytes(request.SerializeToString())


def send(server: Server, method: str, payload: bytes, *, gzip: bool = False) -> tuple[str, str]:
    """Call a method with these bytes; give its status and the text of it."""
    call: Any = server.channel.unary_unary(f"/tensorflow.serving.{method}")
    how = grpc.Compression.Gzip if gzip else None
    try:
        call(payload, PATIENCE_S, compression=how)
    except grpc.RpcError as error:
        return str(error.code().name), str(error.details())
    return "OK", ""


def images(*files: bytes) -> bytes:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "picture"
    tensor = request.inputs["x"]
    tensor.dtype = 7
    tensor.string_val.extend(files)
    tensor.tensor_shape.dim.add(size=len(files))
    return bytes(request.SerializeToString())


def picture(form: str, height: int, width: int) -> bytes:
    """A picture all of one grey: as few bytes as its format needs."""
    return images(encoded(np.full((height, width), 128, np.uint8), form))

"""What gRPC adds to HTTP/2, on a real server: deadlines, metadata, compression, reflection."""

import gzip
import struct
from contextlib import closing
from typing import Any

import pytest
from grpc_reflection.v1alpha import reflection_pb2
from tensorflow_serving.apis import get_model_metadata_pb2

from ie_serving.wire.protobuf import messages
from tests.functional.protocols.http2_client import HELLO, Client, data, headers, request
from tests.functional.servers import Server, rpc_refused
from tests.process import PATIENCE_S
from tests.tables import named_by

PREDICT = "/tensorflow.serving.PredictionService/Predict"


def _rows() -> bytes:
    """200 rows that are alike, and so are those of the reply."""
    question = messages.PredictRequest()
    question.model_spec.name = "digits"
    tensor = question.inputs["image"]
    tensor.dtype = 1
    tensor.float_val.append(1)
    for size in (200, 64):
        tensor.tensor_shape.dim.add(size=size)
    return bytes(question.SerializeToString())


ROWS = _rows()


def prefixed(content: bytes, *, compressed: bool) -> bytes:
    return struct.pack(">BL", compressed, len(content)) + content


def asked() -> Any:
    question = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    question.model_spec.name = "digits"
    return question


@pytest.mark.parametrize("timeout", ["27000H", "99999999H", "99999999S"])
def test_a_request_with_a_deadline_that_never_comes_is_answered(
    digits: Server, timeout: str
) -> None:
    """3.6e11 seconds are the most that the header holds; grpcio's client itself ends at 9.2e9."""
    with closing(Client(digits.port)) as client:
        fields = request(("grpc-timeout", timeout), path=PREDICT)
        client.send(HELLO + headers(1, fields) + data(1, prefixed(ROWS, compressed=False)))
        assert client.answer(1) == "answered"


def test_too_much_metadata_fails_its_call_alone(digits: Server) -> None:
    """Whether the library or the server refuses: the connection and its other calls go on."""
    waiting = digits.prediction.GetModelMetadata.future(asked(), PATIENCE_S)
    with rpc_refused("RESOURCE_EXHAUSTED"):
        digits.prediction.GetModelMetadata(asked(), PATIENCE_S, metadata=[("x", "y" * 70_000)])
    assert waiting.result().model_spec.name == "digits"
    assert digits.prediction.GetModelMetadata(asked(), PATIENCE_S).model_spec.name == "digits"


@named_by(
    "accepted",
    ("accepted", "compressed"),
    [("gzip", True), ("identity, deflate, gzip", True), ("deflate", False), ("", False)],
)
def test_a_reply_is_compressed_as_its_request_where_the_client_takes_it(
    digits: Server, accepted: str, compressed: bool
) -> None:
    how = (("grpc-encoding", "gzip"), ("grpc-accept-encoding", accepted))
    with closing(Client(digits.port)) as client:
        content = prefixed(gzip.compress(ROWS), compressed=True)
        client.send(HELLO + headers(1, request(*how, path=PREDICT)) + data(1, content))
        assert client.answer(1) == "answered"
        flag, reply = client.body(1)[0], client.body(1)[5:]
    assert flag == compressed
    inflated = gzip.decompress(reply) if compressed else reply
    assert len(messages.PredictResponse.FromString(inflated).outputs) == 2


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
@pytest.mark.parametrize(
    "symbol",
    [
        "grpc.reflection.{}.ServerReflection",
        "grpc.reflection.{}.ServerReflection.ServerReflectionInfo",
        "tensorflow.serving.PredictionService.Predict",
        "tensorflow.serving.PredictRequest",
        "grpc.health.v1.Health.Check",
    ],
)
def test_reflection_describes_itself_and_single_methods(
    digits: Server, version: str, symbol: str
) -> None:
    symbol = symbol.format(version)
    method = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    converse: Any = digits.channel.stream_stream(
        method,
        reflection_pb2.ServerReflectionRequest.SerializeToString,
        reflection_pb2.ServerReflectionResponse.FromString,
    )
    question = reflection_pb2.ServerReflectionRequest(file_containing_symbol=symbol)
    (reply,) = converse(iter([question]), timeout=PATIENCE_S)
    assert reply.WhichOneof("message_response") == "file_descriptor_response", reply

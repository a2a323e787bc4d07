"""Byte streams that were nearly right, by the thousand: the server goes on as if nothing was.

`make fuzz` runs it for as long as FUZZ_SECONDS says. A failure names the seed that finds it again.
"""

import random
import socket
import struct
import time
from array import array
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest
import tensorflow as tf
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from tensorflow_serving.apis import predict_pb2
from tritonclient.grpc import service_pb2

from tests.functional.asking import predict_request
from tests.functional.fuzzing import SECONDS, marks
from tests.functional.servers import SAMPLE_FLAGS, Server
from tests.process import PATIENCE_S, until

pytestmark = marks

SETTLED_S = 10.0
"""Until then caches and pools may grow."""
GROWTH = 16 << 20
"""Bytes that memory may differ by afterwards: less than a kilobyte for each stream."""
ANSWER_S = 0.02
ROW = [[float(i % 17) for i in range(64)]]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("ie_serving", "model", *SAMPLE_FLAGS) as server:
        yield server.ready()


def good() -> predict_pb2.PredictRequest:
    request = predict_request("digits", image=tf.make_tensor_proto(ROW, tf.float32))
    return request


def open_inference() -> bytes:
    """The same by the Open Inference Protocol."""
    request = service_pb2.ModelInferRequest(model_name="digits", id="fuzz")
    request.inputs.add(name="image", datatype="FP32", shape=[1, 64])
    request.raw_input_contents.append(struct.pack("<64f", *ROW[0]))
    request.parameters["sequence_id"].int64_param = 0
    request.outputs.add(name="digit")
    return bytes(request.SerializeToString())


def grpc_parts(chance: random.Random) -> list[bytes]:
    """A connection with some calls, frame by frame, whose headers churn."""
    encoder = Encoder()
    messages = {
        service: b"\0" + len(content).to_bytes(4, "big") + content
        for service, content in (
            ("tensorflow", good().SerializeToString()),
            ("inference", open_inference()),
        )
    }
    parts = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", SettingsFrame(0, {4: 65_535}).serialize()]
    for number, method in (
        (1, "tensorflow.serving.PredictionService/Predict"),
        (3, "tensorflow.serving.PredictionService/Predict"),
        (5, "grpc.health.v1.Health/Watch"),
        (7, "grpc.reflection.v1.ServerReflection/ServerReflectionInfo"),
        (9, "tensorflow.serving.PredictionService/Classify"),
        (11, "inference.GRPCInferenceService/ModelInfer"),
        (13, "inference.GRPCInferenceService/ModelStreamInfer"),
        (15, "inference.GRPCInferenceService/ModelMetadata"),
    ):
        message = messages["inference" if method.startswith("inference") else "tensorflow"]
        fields = [(":method", "POST"), (":scheme", "http"), (":path", f"/{method}")]
        fields += [("content-type", "application/grpc"), ("te", "trailers"), ("grpc-timeout", "1S")]
        fields += [("x-request-id", f"{number}" * 40), (f"x-{number}", "")]
        encoder.header_table_size = 100 * number  # so that entries drive each other out
        fields += churn(chance)
        block = bytes(encoder.encode(fields))
        parts.append(HeadersFrame(number, block[:5]).serialize())
        parts.append(ContinuationFrame(number, block[5:], flags=["END_HEADERS"]).serialize())
        parts.append(DataFrame(number, message[:20]).serialize())
        parts.append(DataFrame(number, message[20:], flags=["END_STREAM"]).serialize())
        parts.append(WindowUpdateFrame(number, 1000).serialize())
    parts.append(PingFrame(0, b"12345678").serialize())
    parts.append(RstStreamFrame(3, 8).serialize())
    return parts


def churn(chance: random.Random) -> list[tuple[str, str]]:
    """Headers that no call before had, which drive others out of the table."""
    sizes = [chance.randint(0, 400) for _ in range(chance.randint(0, 12))]
    return [(f"x-{chance.randrange(10_000)}", "v" * size) for size in sizes]


def rest_parts() -> list[bytes]:
    """A connection with some requests, line by line."""
    body = b'{"instances": [%s]}' % str(ROW[0]).encode()
    v2 = b'{"id":"1","inputs":[{"name":"image","shape":[1,64],"datatype":"FP32","data":%b}]}'
    v2 %= str(ROW[0]).encode()
    image = array("f", ROW[0]).tobytes()
    head = b'{"inputs":[{"name":"image","shape":[1,64],"datatype":"FP32","parameters":'
    head += b'{"binary_data_size":256}}],"parameters":{"binary_data_output":true}}'
    chunk = b'%x;a="b"\r\n%b\r\n0;c\r\nX-Trailer: d\r\n\r\n' % (len(body), body)
    return [
        b"POST /v1/models/digits:predict HTTP/1.1\r\n",
        b"Host: test\r\nContent-Type: application/json\r\n",
        b"Content-Length: %d\r\n\r\n" % len(body),
        body,
        b"GET /v1/models/digits/metadata HTTP/1.1\r\nHost: test\r\n\r\n",
        b"POST /v1/models/digits:predict HTTP/1.1\r\nHost: test\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n",
        chunk,
        b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: test\r\n",
        b"Content-Length: %d\r\n\r\n" % len(v2),
        v2,
        b"POST /v2/models/digits/versions/2/infer HTTP/1.1\r\nHost: test\r\n",
        b"Inference-Header-Content-Length: %d\r\n" % len(head),
        b"Content-Length: %d\r\n\r\n" % (len(head) + len(image)),
        head,
        image,
        b"GET /v2/models/digits HTTP/1.1\r\nHost: test\r\n\r\n",
        b"HEAD http://test/v1/models/digits HTTP/1.2\r\nHost: test\r\n",
        b"Connection: close\r\n\r\n",
    ]


def mutated(parts: list[bytes], chance: random.Random) -> list[bytes]:
    """Change up to six places: pieces are lost, doubled, moved, cut, and bytes are others."""
    parts = list(parts)
    for _ in range(chance.randint(0, 6)):
        i, j = chance.randrange(len(parts)), chance.randrange(len(parts))
        piece = bytearray(parts[i])
        k = chance.randrange(len(piece) + 1)
        match chance.randrange(6):
            case 0:
                parts[i], parts[j] = parts[j], parts[i]
            case 1:
                parts[i] = parts[i] * chance.choice((0, 2, 50))
            case 2:
                parts[i] = bytes(piece[:k])
            case 3:
                parts[i] = bytes(piece[:k]) + chance.randbytes(chance.randint(1, 20)) + piece[k:]
            case _:
                for place in range(k, min(k + chance.randint(1, 4), len(piece))):
                    piece[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
                parts[i] = bytes(piece)
    return parts


def tell(port: int, parts: list[bytes], chance: random.Random) -> None:
    """Send a stream in pieces and take some of what comes; then leave, politely or not."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.settimeout(ANSWER_S)
        with suppress(OSError):
            stream = b"".join(parts)
            cut = chance.randrange(len(stream) + 1)
            client.sendall(stream[:cut])
            client.sendall(stream[cut:])
            if chance.random() < 0.5:
                client.shutdown(socket.SHUT_WR)
            if chance.random() < 0.8:
                while client.recv(1 << 16):
                    pass


@pytest.mark.parametrize("front", ["grpc", "rest"])
def test_streams_that_are_nearly_right_are_refused_without_a_defect(
    server: Server, front: str
) -> None:
    """Good requests are answered in between, no defect is logged, memory and sockets are freed."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    port = server.port if front == "grpc" else server.rest_port
    worker = psutil.Process(server.pids()[1])
    begun = time.monotonic()
    before, count = 0, 0
    while (passed := time.monotonic() - begun) < SECONDS:
        parts = grpc_parts(chance) if front == "grpc" else rest_parts()
        tell(port, mutated(parts, chance), chance)
        count += 1
        if count % 50 == 0:
            answers(server)
        if not before and passed > SETTLED_S:
            before = worker.memory_info().rss
    answers(server)
    told = f"front={front} seed={seed} streams={count}"
    print(told)
    assert server.pids()[1] == worker.pid, told
    assert "Traceback" not in server.log, told
    assert worker.memory_info().rss - before < GROWTH, told
    until(lambda: sockets(worker, port) < 10)  # once those that may linger have ended


def answers(server: Server) -> None:
    assert server.prediction.Predict(good(), PATIENCE_S).outputs
    infer = server.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    reply = service_pb2.ModelInferResponse.FromString(infer(open_inference(), timeout=PATIENCE_S))
    assert (reply.id, len(reply.raw_output_contents)) == ("fuzz", 1)
    reply = server.rest.post("/v1/models/digits:predict", json={"instances": ROW})
    assert reply.status_code == 200


def sockets(worker: psutil.Process, port: int) -> int:
    """Connections that are still open at `port`."""
    at_port = [c for c in worker.net_connections() if c.laddr.port == port]
    return sum(c.status == psutil.CONN_ESTABLISHED for c in at_port)

"""Memory stays within 2 % over 200 changes of version and 1,000,000 requests of changing shapes.

And what a storm of large requests takes is given back within a minute. Requests come over REST, and
over gRPC a tenth of them. `make soak` prints the figures; SOAK_CYCLES and SOAK_REQUESTS make a
shorter run.
"""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import openvino as ov
import openvino.opset15 as op
import psutil
import pytest
from tensorflow_serving.apis import predict_pb2

from tests.functional.asking import predict_request
from tests.functional.conftest import Serve
from tests.functional.load import AVAILABLE, END, states
from tests.functional.servers import Server
from tests.process import PATIENCE_S, until

CYCLES = int(os.environ.get("SOAK_CYCLES", "200"))
REQUESTS = int(os.environ.get("SOAK_REQUESTS", "1000000"))
pytestmark = [pytest.mark.soak, pytest.mark.timeout(5400)]

GROWTH = 1.02
SETTLED = 10
"""A part of a run, one in so many, after which memory is compared: caches fill up first."""
WEIGHTS = (1 << 17, 128)  # 64 MiB in FP32
SIZES = [(rows, columns) for rows in (1, 2, 3, 5, 8, 13) for columns in range(1, 40, 3)]
"""Shapes, in turn: 78."""
PIPELINED = 64
STORM = 36
LARGE = (60_000, 10)
IDLE = 1.2
WITHIN_S = 60.0


def save(directory: Path, result: ov.Node, x: ov.Node) -> None:
    model = ov.Model([op.result(result, name="y")], [x])
    ov.save_model(model, directory / "model.xml", compress_to_fp16=False)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version directory with a table of 64 MiB."""
    directory = tmp_path_factory.mktemp("large")
    x = op.parameter([-1], np.int32, name="x")
    table = op.constant(np.random.default_rng(0).random(WEIGHTS, np.float32))
    save(directory, op.gather(table, x, op.constant(np.int32(0))), x)
    return directory


@pytest.fixture
def open_sizes(tmp_path: Path, serve: Serve) -> Server:
    """A server of a model that takes any rows and columns."""
    x = op.parameter([-1, -1], np.float32, name="x")
    (tmp_path / "1").mkdir()
    save(tmp_path / "1", op.softmax(op.add(x, op.constant(np.float32(1))), axis=1), x)
    return serve("ie_serving", "model", "--model_name=m", f"--model_path={tmp_path}")


def resident(server: Server) -> int:
    """Bytes of all processes of the server."""
    return sum(psutil.Process(pid).memory_info().rss for pid in server.pids())


def growth(held: list[int]) -> float:
    """Compare the most of the last tenth with the most of the second one."""
    part = len(held) // SETTLED
    return max(held[-part:]) / max(held[part : 2 * part])


def show(capfd: pytest.CaptureFixture[str], text: str) -> None:
    with capfd.disabled():
        print(f"\n{text}")


def test_changes_of_version(
    serve: Serve, large: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "1").symlink_to(large)
    often = "--file_system_poll_wait_seconds=0.1"
    server = serve("ie_serving", "model", "--model_name=m", f"--model_path={tmp_path}", often)
    held = []
    for version in range(2, CYCLES + 2):
        (tmp_path / str(version)).symlink_to(large)
        until(lambda: states(server, "m").get(version) == AVAILABLE)  # noqa: B023
        until(lambda: states(server, "m")[version - 1] == END)  # noqa: B023
        (tmp_path / str(version - 1)).unlink()
        held.append(resident(server))
    show(capfd, f"{CYCLES} changes of version: memory at the end {growth(held):.3f} of the start's")
    assert growth(held) <= GROWTH


def bursts_over_rest(server: Server) -> Iterator[None]:
    """Send `PIPELINED` requests at a time, of all shapes in turn, and read their replies."""
    requests = cycle([posted(shape) for shape in SIZES])
    with socket.create_connection(("127.0.0.1", server.rest_port), PATIENCE_S) as connection:
        while True:
            connection.sendall(b"".join(islice(requests, PIPELINED)))
            await_replies(connection, PIPELINED)
            yield


def bursts_over_grpc(server: Server) -> Iterator[None]:
    """Make as many calls at a time."""
    requests = cycle([called(shape) for shape in SIZES])
    while True:
        call_at_once(server, list(islice(requests, PIPELINED)))
        yield


@pytest.mark.parametrize(
    ("bursts", "requests"),
    [
        pytest.param(bursts_over_rest, REQUESTS, id="REST"),
        # gRPC's own client takes ten times as long for one.
        pytest.param(bursts_over_grpc, REQUESTS // 10, id="gRPC"),
    ],
)
def test_memory_stays_over_requests_of_changing_shapes(
    open_sizes: Server,
    capfd: pytest.CaptureFixture[str],
    bursts: Callable[[Server], Iterator[None]],
    requests: int,
) -> None:
    held, began = [], time.monotonic()
    for sent, _ in zip(range(0, requests, PIPELINED), bursts(open_sizes), strict=False):
        if sent % (requests // 100) < PIPELINED:
            held.append(resident(open_sizes))
    took_s = time.monotonic() - began
    show(
        capfd,
        f"{requests:,} requests of {len(SIZES)} shapes in turn, {requests / took_s:,.0f} a second:"
        f" memory at the end {growth(held):.3f} of the start's",
    )
    assert growth(held) <= GROWTH


@pytest.mark.parametrize("interface", ["REST", "gRPC"])
def test_memory_comes_back_after_a_storm_of_large_requests(
    open_sizes: Server, capfd: pytest.CaptureFixture[str], interface: str
) -> None:
    ask_at_once(open_sizes, posted((1, 10)), 1)
    idle = resident(open_sizes)
    for _ in range(STORM // 6):
        if interface == "REST":
            ask_at_once(open_sizes, posted(LARGE), 6)
        else:
            call_at_once(open_sizes, [called(LARGE)] * 6)
    most, began = resident(open_sizes), time.monotonic()
    until(lambda: resident(open_sizes) < IDLE * idle, WITHIN_S)
    show(
        capfd,
        f"{STORM} requests of {LARGE[0] * LARGE[1]:,} numbers: {idle >> 20} MiB before,"
        f" {most >> 20} after, {resident(open_sizes) >> 20} {time.monotonic() - began:.0f} s later",
    )


def called(shape: tuple[int, int]) -> predict_pb2.PredictRequest:
    request = predict_request("m", x=np.full(shape, 0.5, np.float32))
    return request


def call_at_once(server: Server, requests: Sequence[predict_pb2.PredictRequest]) -> None:
    calls = [server.prediction.Predict.future(each, PATIENCE_S) for each in requests]
    for request, call in zip(requests, calls, strict=True):
        sent, answered = request.inputs["x"], call.result().outputs["y"]
        assert answered.tensor_shape == sent.tensor_shape


def posted(shape: tuple[int, int]) -> bytes:
    body = json.dumps({"instances": np.full(shape, 0.5).tolist()}).encode()
    head = f"POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def ask_at_once(server: Server, request: bytes, count: int) -> None:
    """Send a request over so many connections, then read all replies."""
    address = ("127.0.0.1", server.rest_port)
    connections = [socket.create_connection(address, PATIENCE_S) for _ in range(count)]
    for connection in connections:
        connection.sendall(request)
    for connection in connections:
        await_replies(connection, 1)
        connection.close()


def await_replies(connection: socket.socket, count: int) -> None:
    """Read whole replies, all of them 200; heads and bodies are counted by their lengths."""
    read = b""
    for _ in range(count):
        while b"\r\n\r\n" not in read:
            read += received(connection)
        head, _, read = read.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head + read
        lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
        left = next(int(value) for name, _, value in lines if name == b"content-length")
        while len(read) < left:
            read += received(connection)
        read = read[left:]
    assert not read


def received(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 20)
    assert data
    return data

"""Clients that give up, in every phase: no infer request is lost and no reply mixed up."""

import asyncio
import json
import random
import socket
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
import numpy as np
import pytest
import tensorflow as tf
from openvino import opset13 as op
from tensorflow_serving.apis import prediction_service_pb2_grpc

from tests.functional.asking import predict_request
from tests.functional.conftest import Serve
from tests.functional.servers import PLAIN, Server, config_flag
from tests.process import PATIENCE_S
from tests.unit.engines.openvino.models import parameter, result, save

SIZE = 768
LAYERS = 24
CALLS = 300
AT_ONCE = 32
SEED = 20261121


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that takes some milliseconds and answers its input times two."""
    base = tmp_path_factory.mktemp("slow")
    identity = op.constant(np.eye(SIZE, dtype=np.float32))
    x = node = parameter("x", [-1, SIZE])
    for _ in range(LAYERS):
        node = op.relu(op.matmul(node, identity, False, False))
    save(base / "1", [result("y", op.add(node, node))], [x])
    return base


def request(value: float, rows: int = 64) -> Any:
    message = predict_request("slow", x=np.full((rows, SIZE), value, np.float32))
    return message


@pytest.mark.parametrize("execution", ["inline", "async"])
def test_cancelled_calls_lose_nothing(serve: Serve, model: Path, execution: str) -> None:
    entry = {"name": "slow", "base_path": str(model), "nireq": 2, "execution": execution}
    entry |= {"inference_precision": "f32"}
    server = serve("ie_serving", "config", config_flag(model / f"{execution}.json", entry))
    asyncio.run(asyncio.wait_for(grpc_storm(server), 2 * PATIENCE_S))
    rest_storm(server)
    asyncio.run(asyncio.wait_for(every_reply_is_its_own(server), PATIENCE_S))
    assert "Traceback" not in server.log


async def grpc_storm(server: Server) -> None:
    chance = random.Random(SEED)
    gate = asyncio.Semaphore(AT_ONCE)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

        async def give_up(message: Any) -> None:
            async with gate:
                call = stub.Predict(message, timeout=chance.choice([0.001, 0.01, 0.05, PATIENCE_S]))
                with suppress(asyncio.TimeoutError, asyncio.CancelledError, grpc.RpcError):
                    await asyncio.wait_for(call, chance.uniform(0.0, 0.05))

        message = request(1.0)
        await asyncio.gather(*(give_up(message) for _ in range(CALLS)))


def rest_storm(server: Server) -> None:
    """Hang up after the head, in mid-body, after the body, and after a first byte of the reply."""
    body = json.dumps({"instances": np.ones((64, SIZE)).tolist()}).encode()
    head = b"POST /v1/models/slow:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    whole = head % len(body) + body
    for cut in (20, 60, len(whole) // 2, len(whole) - 1, len(whole), len(whole)):
        for read in (False, True):
            with closing(socket.create_connection(("127.0.0.1", server.rest_port))) as client:
                client.settimeout(PATIENCE_S)
                client.sendall(whole[:cut])
                if read and cut == len(whole):
                    assert client.recv(1)


async def every_reply_is_its_own(server: Server) -> None:
    """Afterwards as many calls as ever run at once, and each gets the answer to its own input."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

        async def ask(value: int) -> None:
            response = await stub.Predict(request(float(value), 1 + value % 5), timeout=PATIENCE_S)
            got = tf.make_ndarray(response.outputs["y"])
            assert got.shape == (1 + value % 5, SIZE)
            assert np.all(got == 2.0 * value)

        await asyncio.gather(*(ask(value) for value in range(40)))
    with httpx.Client(
        base_url=server.url, timeout=PATIENCE_S, trust_env=False, verify=PLAIN
    ) as client:
        reply = client.post("/v1/models/slow:predict", json={"instances": [[3.0] * SIZE]})
        assert reply.json() == {"predictions": [[6.0] * SIZE]}

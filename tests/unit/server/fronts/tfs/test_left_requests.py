"""A request whose client has left is dropped before it costs inference.

One table for both interfaces, real sockets, with and without batches: while the model is busy with
one request another one waits, its client leaves or its time is up, and the model never sees it.
"""

import asyncio
import json
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from typing import Any

import grpc.aio
import numpy as np
import pytest

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.layers.batching import BatchedModel
from ie_serving.engines.layers.gathering import BatchRules
from ie_serving.engines.layers.queue import Queue
from ie_serving.engines.run.latency_model import LatencyModel
from ie_serving.engines.run.program import CompiledPrograms, Program
from ie_serving.inference.plane import DataPlane
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.tfs import prediction_service
from ie_serving.server.fronts.tfs.prediction_service import PredictionService, grpc_interface
from ie_serving.server.transport.grpc.http2_server import Http2Server
from ie_serving.server.transport.http1.server import HttpServer
from ie_serving.wire.protobuf import messages
from tests.unit.engines.layers.models import Record, signature
from tests.unit.inference.stand_ins import MODEL, Heart
from tests.unit.server.fronts.tfs import interfaces

PATIENCE_S = 20.0
SHORT_S = 0.02
"""Limit of requests whose time is to be up."""
PREDICT = f"/{prediction_service.NAME}/Predict"


class Held:
    """An infer request: y = x, once `gate` is open. Attributes: `begun`; `rows` of each run."""

    renews = False

    def __init__(self) -> None:
        self.gate, self.begun = threading.Event(), threading.Event()
        self.rows: list[int] = []
        self._x: Array = np.empty(0)

    def fill(self, inputs: Mapping[str, Array]) -> None:
        self._x = inputs["x"].copy()

    def run(self) -> Mapping[str, Array]:
        self.rows.append(len(self._x))
        self.begun.set()
        assert self.gate.wait(PATIENCE_S)
        return {"y": self._x}

    run_new = run

    def cancel(self) -> None:
        """The gate ends it."""

    def renew(self) -> None:
        """Nothing to do."""


Model = tuple[CompiledModel, Callable[[], int]]
"""A model, and how many requests wait for it."""


def in_line(request: Held) -> Model:
    """Requests wait for the only infer request."""
    program = Program(
        signature(-1, -1),
        [request],
        LatencyModel("async"),
        failures=(RuntimeError,),
        blame=lambda error: ServingError(str(error)),
        apart=True,
    )
    return CompiledPrograms([program]), lambda: len(program.pool.waiters)


def gathered(request: Held) -> Model:
    """Requests wait for the only lane, to share a batch."""
    inner, _ = in_line(request)
    queue = Queue(inner, signature(-1, -1), BatchRules(rows=8), Record())
    return BatchedModel(inner, {SERVING_DEFAULT: queue}, {}), lambda: queue.waiting


@asynccontextmanager
async def listening(server: Any) -> AsyncIterator[int]:
    """Give the port."""
    bound = socket.create_server(("127.0.0.1", 0))
    bound.setblocking(False)
    await server.listen([bound])
    try:
        yield bound.getsockname()[1]
    finally:
        await asyncio.wait_for(server.drain(0), PATIENCE_S)


class Grpc:
    """Calls over gRPC."""

    @asynccontextmanager
    async def serving(self, plane: DataPlane, limit_s: float) -> AsyncIterator["Grpc"]:
        service = PredictionService(plane, grpc_interface(tensor_content=True, limit_s=None))
        services = {prediction_service.NAME: service.handlers()}
        self._timeout_s = limit_s
        async with (
            listening(Http2Server(services, max_message_bytes=1 << 20)) as port,
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            self._call = channel.unary_unary(PREDICT)
            yield self

    def ask(self, value: float) -> "asyncio.Future[str]":
        request = messages.PredictRequest()
        request.model_spec.name = MODEL
        tensor = request.inputs["x"]
        tensor.dtype = 1
        tensor.float_val.append(value)
        for _ in range(2):
            tensor.tensor_shape.dim.add(size=1)
        return asyncio.ensure_future(self._ask(request.SerializeToString()))

    async def _ask(self, request: bytes) -> str:
        try:
            reply = await self._call(request, timeout=self._timeout_s)
        except grpc.aio.AioRpcError as error:
            return str(error.code().name)
        return "OK" if reply else "empty"


class Rest:
    """Posts over REST, each on a connection of its own."""

    @asynccontextmanager
    async def serving(self, plane: DataPlane, limit_s: float) -> AsyncIterator["Rest"]:
        api = interfaces.Rest(plane, limit_s=limit_s).api
        async with listening(HttpServer(api.answer)) as self._port:
            yield self

    def ask(self, value: float) -> "asyncio.Future[str]":
        return asyncio.ensure_future(self._ask(json.dumps({"instances": [[value]]}).encode()))

    async def _ask(self, body: bytes) -> str:
        head = f"POST /v1/models/{MODEL}:predict HTTP/1.1\r\nHost: x\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        # To close resets the connection: an orderly end right behind a request is none.
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        with closing(writer):
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            return (await reader.readline()).decode().split(" ", 2)[1]


async def until(fulfilled: Callable[[], bool]) -> None:
    async def poll() -> None:
        while not fulfilled():
            await asyncio.sleep(0)

    await asyncio.wait_for(poll(), PATIENCE_S)


@pytest.mark.parametrize("model", [in_line, gathered])
@pytest.mark.parametrize(
    ("client", "late"),
    [(Grpc, "DEADLINE_EXCEEDED"), (Rest, "504"), (Grpc, ""), (Rest, "")],
    ids=["deadline over gRPC", "limit over REST", "gone over gRPC", "gone over REST"],
)
async def test_a_request_whose_client_has_left_costs_no_inference(
    model: Callable[[Held], Model], client: Callable[[], Any], late: str
) -> None:
    request = Held()
    compiled, waiting = model(request)
    heart = Heart()
    heart.servable = Servable(MODEL, 3, compiled, compiled.signatures)
    limit_s = SHORT_S if late else PATIENCE_S
    async with client().serving(await heart.plane(), limit_s) as clients:
        first = asyncio.ensure_future(
            compiled.infer(signature(-1, -1), {"x": np.zeros((1, 1), np.float32)}, len)
        )
        await until(request.begun.is_set)
        asked = clients.ask(1.0)
        if late:
            assert await asyncio.wait_for(asked, PATIENCE_S) == late
        else:
            await until(lambda: waiting() == 1)
            asked.cancel()
        await until(lambda: waiting() == 0)
        request.gate.set()
        assert await asyncio.wait_for(first, PATIENCE_S) == 1
    assert request.rows == [1]
    compiled.close()

"""Requests all the time over both interfaces, and what the server says of its versions."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any, Protocol

import grpc
import httpx
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from tests.functional.servers import PLAIN, Server
from tests.process import PATIENCE_S

START, LOADING, AVAILABLE, END = 10, 20, 30, 50
PAUSE_S = 0.05
"""Between two requests over one interface. Without it they took both processors, and what is tested
beside them, as a new version that is loaded, took several times as long."""
IMAGE = [[float(pixel % 17) for pixel in range(64)]]


class Endpoint(Protocol):
    """What is asked: a server, or a proxy before several."""

    port: int
    url: str


class Load:
    """Asks the models in turn, over both interfaces, all the time; keeps every failure."""

    def __init__(self, server: Endpoint, models: Sequence[str] = ("digits",)) -> None:
        self.failures: list[str] = []
        self.answers = {"grpc": 0, "rest": 0}
        self._stop = threading.Event()
        self._server = server
        self._models = models
        self._threads = [
            threading.Thread(target=self._run, args=(name, make))
            for name, make in (("grpc", self._over_grpc), ("rest", self._over_rest))
        ]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _run(self, name: str, make: Callable[[], Iterator[None]]) -> None:
        answers = make()
        while not self._stop.wait(PAUSE_S):
            try:
                next(answers)
                self.answers[name] += 1
            except Exception as error:
                self.failures.append(f"{name}: {error}")
                answers = make()

    def _over_grpc(self) -> Iterator[None]:
        target = f"127.0.0.1:{self._server.port}"
        with grpc.insecure_channel(target) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            request = predict_pb2.PredictRequest()
            request.inputs["image"].CopyFrom(tf.make_tensor_proto(IMAGE, tf.float32))
            for name in cycle(self._models):
                request.model_spec.name = name
                response = stub.Predict(request, PATIENCE_S)
                assert tf.make_ndarray(response.outputs["probabilities"]).shape == (1, 10)
                yield

    def _over_rest(self) -> Iterator[None]:
        body = json.dumps({"instances": IMAGE})
        options: Any = {"timeout": PATIENCE_S, "trust_env": False, "verify": PLAIN}
        with httpx.Client(base_url=self._server.url, **options) as client:
            for name in cycle(self._models):
                reply = client.post(f"/v1/models/{name}:predict", content=body)
                assert reply.status_code == 200, reply.text
                yield


def states(server: Server, model: str = "digits") -> dict[int, int]:
    """State of each version, over gRPC."""
    return {status.version: status.state for status in server.status(model)}


def failure(server: Server, version: int, model: str = "digits") -> str:
    """Why a version failed to load, over REST; empty when it did not."""
    status = server.rest.get(f"/v1/models/{model}/versions/{version}").json()
    return str(status["model_version_status"][0]["status"]["error_message"])

"""New versions appear and old ones go under load from both interfaces: not one failed request."""

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import psutil
import pytest
import tensorflow as tf
from tensorflow_serving.apis import get_model_status_pb2, predict_pb2, prediction_service_pb2_grpc

from tests.functional.conftest import Serve
from tests.functional.servers import PATIENCE_S, SAMPLE, Server

AVAILABLE, LOADING, END = 30, 20, 50
MEMORY_SLACK = 40 * 2**20
IMAGE = [[float(pixel % 17) for pixel in range(64)]]


class Load:
    """Asks over both interfaces without a pause; keeps every failure."""

    def __init__(self, server: Server) -> None:
        self.failures: list[str] = []
        self.answers = {"grpc": 0, "rest": 0}
        self._stop = threading.Event()
        self._server = server
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
        while not self._stop.is_set():
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
            request.model_spec.name = "digits"
            request.inputs["image"].CopyFrom(tf.make_tensor_proto(IMAGE, tf.float32))
            while True:
                response = stub.Predict(request, PATIENCE_S)
                assert tf.make_ndarray(response.outputs["probabilities"]).shape == (1, 10)
                yield

    def _over_rest(self) -> Iterator[None]:
        body = json.dumps({"instances": IMAGE})
        with httpx.Client(base_url=self._server.url, timeout=PATIENCE_S, trust_env=False) as client:
            while True:
                reply = client.post("/v1/models/digits:predict", content=body)
                assert reply.status_code == 200, reply.text
                yield


def states(server: Server) -> dict[int, int]:
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "digits"
    response = server.model.GetModelStatus(request, PATIENCE_S)
    return {status.version: status.state for status in response.model_version_status}


def failure(server: Server, version: int) -> str:
    status = server.rest.get(f"/v1/models/digits/versions/{version}").json()
    return str(status["model_version_status"][0]["status"]["error_message"])


def until(holds: Callable[[], bool]) -> None:
    """Poll the server until `holds`; each look is a request, so nothing sleeps idly."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "not in time"


def put(repository: Path, version: int, source: int, *, broken: bool = False) -> None:
    """Copy a version in, as a user does it: files appear one after the other."""
    target = repository / str(version)
    target.mkdir(exist_ok=True)
    for name in ("model.xml", "model.bin"):
        shutil.copy(SAMPLE / str(source) / name, target / name)
    if broken:
        (target / "model.xml").write_text("<net>not a model</net>")


def configure(path: Path, repository: Path, policy: dict[str, Any]) -> None:
    model = {"name": "digits", "base_path": str(repository), "model_version_policy": policy}
    path.write_text(json.dumps({"model_config_list": [{"config": model}]}))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    base = tmp_path / "digits"
    base.mkdir()
    for version in (1, 2):
        put(base, version, version)
    return base


def test_versions_come_and_go_under_load(serve: Serve, tmp_path: Path, repository: Path) -> None:
    config = tmp_path / "config.json"
    configure(config, repository, {"latest": {"num_versions": 1}})
    server = serve("ie_serving", "config", f"--config_path={config}")
    worker = psutil.Process(server.pids()[-1])
    with Load(server) as load:
        until(lambda: min(load.answers.values()) > 100)
        before = worker.memory_info().rss
        put(repository, 3, 1)
        until(lambda: states(server) == {2: END, 3: AVAILABLE})
        put(repository, 4, 2, broken=True)
        until(lambda: states(server).get(4) == LOADING and failure(server, 4) != "")
        assert "Error occurred while loading version" in failure(server, 4)
        assert states(server)[3] == AVAILABLE
        put(repository, 4, 2)
        until(lambda: states(server) == {2: END, 3: END, 4: AVAILABLE})
        shutil.rmtree(repository / "3")
        configure(config, repository, {"all": {}})
        until(lambda: states(server) == {1: AVAILABLE, 2: AVAILABLE, 3: END, 4: AVAILABLE})
        configure(config, repository, {"specific": {"versions": [1]}})
        until(lambda: states(server) == {1: AVAILABLE, 2: END, 3: END, 4: END})
        answered = dict(load.answers)
        until(lambda: all(load.answers[name] > answered[name] + 100 for name in answered))
        assert worker.memory_info().rss < before + MEMORY_SLACK
    assert load.failures == []


def test_files_of_a_served_version_may_be_overwritten_and_truncated(
    serve: Serve, repository: Path
) -> None:
    server = serve("ie_serving", "model", "--model_name=digits", f"--model_path={repository}")
    with Load(server) as load:
        until(lambda: min(load.answers.values()) > 50)
        weights = repository / "2" / "model.bin"
        with weights.open("r+b") as file:
            file.write(b"\xff" * weights.stat().st_size)
        with weights.open("r+b") as file:
            file.truncate(0)
        (repository / "2" / "model.xml").write_text("")
        answered = dict(load.answers)
        until(lambda: all(load.answers[name] > answered[name] + 200 for name in answered))
    assert load.failures == []
    assert server.popen.poll() is None

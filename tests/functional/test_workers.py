"""Several workers answer as one server. A real server of two, and clients of both."""

import os
import shutil
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TypeVar

import grpc
import httpx
import numpy as np
import psutil
import pytest
import tensorflow as tf
from prometheus_client.parser import text_string_to_metric_families
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from tests.functional.servers import PLAIN, READY, SAMPLE, Server, config_flag, rpc_refused
from tests.process import PATIENCE_S, until

CLIENTS = 16
DEATHS = 2
MOST_ASKED = 50_000
"""Requests until a new version is AVAILABLE: a minute of them at least."""
SOON_S = 3.0
"""Seconds for an answer of a worker that is not stopped."""
PLAINLY: Any = {"timeout": SOON_S, "verify": PLAIN}
IMAGE = tf.make_tensor_proto(np.zeros((1, 64), np.float32))
AVAILABLE = get_model_status_pb2.ModelVersionStatus.AVAILABLE


class Client:
    """A client with a connection of its own, which one of the workers has."""

    def __init__(self, port: int) -> None:
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=options)
        self._prediction: Any = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self._model: Any = model_service_pb2_grpc.ModelServiceStub(self.channel)

    def predict(self, model: str = "digits", version: int | None = None, label: str = "") -> int:
        """The version that answers."""
        request = predict_pb2.PredictRequest()
        request.model_spec.name = model
        if version is not None:
            request.model_spec.version.value = version
        elif label:
            request.model_spec.version_label = label
        request.inputs["image"].CopyFrom(IMAGE)
        reply = self._prediction.Predict(request, timeout=PATIENCE_S)
        return int(reply.model_spec.version.value)

    def answers_soon(self) -> bool:
        """Whether the worker that has the connection answers."""
        try:
            self._model.GetModelStatus(status_of("digits"), timeout=SOON_S)
        except grpc.RpcError:
            return False
        return True

    def available(self, model: str = "digits") -> list[int]:
        """The versions that the status says are AVAILABLE."""
        reply = self._model.GetModelStatus(status_of(model), timeout=PATIENCE_S)
        return [each.version for each in reply.model_version_status if each.state == AVAILABLE]

    def reload(self, **models: Path) -> None:
        request = model_management_pb2.ReloadConfigRequest()
        for name, path in models.items():
            config = request.config.model_config_list.config.add()
            config.name, config.base_path, config.model_platform = name, str(path), "tensorflow"
        self._model.HandleReloadConfigRequest(request, timeout=PATIENCE_S)


def status_of(model: str) -> get_model_status_pb2.GetModelStatusRequest:
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = model
    return request


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("workers") / "digits"
    shutil.copytree(SAMPLE / "1", base / "1")
    return base


@pytest.fixture(scope="module")
def config(repository: Path) -> Path:
    path = repository.parent / "models.json"
    write(path, digits=repository)
    return path


@pytest.fixture(scope="module")
def server(config: Path) -> Iterator[Server]:
    with Server(
        *("ie_serving", "config", f"--config_path={config}", "--workers=2"),
        *("--file_system_poll_wait_seconds=0.5", "--worker_timeout_seconds=0"),
    ) as server:
        yield server.ready()


@pytest.fixture(scope="module")
def clients(server: Server) -> Iterator[list[Client]]:
    """As many connections as two workers divide evenly."""
    with ExitStack() as opened:
        found = [Client(server.port) for _ in range(CLIENTS)]
        for client in found:
            opened.enter_context(client.channel)
            grpc.channel_ready_future(client.channel).result(PATIENCE_S)
        yield found


def write(path: Path, **models: Path) -> None:
    policy = {"model_version_policy": {"all": {}}}
    new = path.with_suffix(".new")
    config_flag(new, *({"name": n, "base_path": str(p), **policy} for n, p in models.items()))
    new.replace(path)


def connections(server: Server) -> Counter[int]:
    """Connections of the gRPC port by the worker that has them."""
    return Counter(
        pid
        for pid in server.pids()[1:]
        for each in psutil.Process(pid).net_connections("tcp")
        if each.status == psutil.CONN_ESTABLISHED and each.laddr.port == server.port
    )


def counted(server: Server, family: str, **labels: str) -> float:
    """The sum of the samples of the page that have these labels."""
    return value_of(server.rest.get("/metrics").text, family, **labels)


def value_of(page: str, family: str, **labels: str) -> float:
    lines = "\n".join(line for line in page.splitlines() if line.startswith(family))
    return sum(
        sample.value
        for found in text_string_to_metric_families(lines + "\n")
        for sample in found.samples
        if sample.name == family and labels.items() <= sample.labels.items()
    )


def newest(repository: Path) -> int:
    """The version that the server is to answer with; other tests have added to it."""
    return max(int(each.name) for each in repository.iterdir())


def answers(clients: list[Client], model: str = "digits") -> set[int]:
    return {client.predict(model) for client in clients}


def refusal(client: Client, model: str) -> grpc.StatusCode:
    try:
        client.predict(model)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def test_connections_are_spread_evenly(server: Server, clients: list[Client]) -> None:
    assert sorted(connections(server).values()) == [CLIENTS // 2, CLIENTS // 2]


def test_metrics_are_the_sum_and_versions_count_once(server: Server, clients: list[Client]) -> None:
    asked = {"model_name": "digits", "method": "Predict", "interface": "gRPC"}
    before = counted(server, "ie_serving_requests_total", **asked)
    assert answers(clients) == {1}
    assert counted(server, "ie_serving_requests_total", **asked) == before + CLIENTS
    assert counted(server, "ie_serving_versions", model_name="digits", state="AVAILABLE") == 1
    assert counted(server, "ie_serving_connections") >= CLIENTS


def test_a_version_is_available_where_every_worker_answers_with_it(
    server: Server, clients: list[Client], repository: Path
) -> None:
    shutil.copytree(SAMPLE / "2", repository / "2")
    until(lambda: 2 in clients[0].available())
    assert {client.predict(version=2) for client in clients} == {2}
    until(lambda: answers(clients) == {2})


def test_a_version_that_one_connection_reports_available_is_available_to_all(
    server: Server, clients: list[Client], repository: Path
) -> None:
    """From the first reply that says so. Asked without a pause: it is a matter of milliseconds."""
    for _ in range(3):
        version = newest(repository) + 1
        shutil.copytree(SAMPLE / "1", repository / str(version))
        asked = islice(cycle(clients), MOST_ASKED)
        next(each for each in asked if version in each.available())
        assert [version in each.available() for each in clients] == [True] * CLIENTS


def test_a_poll_reaches_every_worker(
    server: Server, clients: list[Client], repository: Path
) -> None:
    version = newest(repository) + 1
    shutil.copytree(SAMPLE / "1", repository / str(version))
    assert server.rest.post("/v1/models/digits:poll").status_code == 200
    until(lambda: version in clients[0].available())
    assert {client.predict(version=version) for client in clients} == {version}


def states(server: Server, name: str) -> set[str]:
    versions = server.rest.get(f"/v1/models/{name}").json()["model_version_status"]
    return {each["state"] for each in versions}


def test_the_file_changes_every_worker(
    server: Server, clients: list[Client], config: Path, repository: Path
) -> None:
    write(config, digits=repository, by_file=SAMPLE)
    reply = server.rest.post("/v1/config/reload")
    assert reply.status_code == 201, reply.text
    # It is answered once each worker has a version; of all versions the last may be another.
    assert answers(clients, "by_file") <= {1, 2}
    until(lambda: answers(clients, "by_file") == {2})
    write(config, digits=repository)
    until(lambda: states(server, "by_file") == {"END"})
    until(lambda: {refusal(each, "by_file") for each in clients} == {grpc.StatusCode.NOT_FOUND})


def test_a_reload_by_rpc_reaches_every_worker_before_it_is_answered(
    clients: list[Client], repository: Path
) -> None:
    clients[0].reload(digits=repository, by_rpc=SAMPLE)
    assert [client.available("by_rpc") for client in clients] == [[2]] * CLIENTS
    assert answers(clients, "by_rpc") == {2}
    clients[-1].reload(digits=repository)
    assert {refusal(each, "by_rpc") for each in clients} == {grpc.StatusCode.NOT_FOUND}


def test_a_reload_that_fails_changes_no_worker(
    clients: list[Client], repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.xml").write_text("<net/>")
    with pytest.raises(grpc.RpcError) as caught:
        clients[0].reload(broken=tmp_path)
    assert "did not become available" in caught.value.details()
    assert answers(clients) == {newest(repository)}
    assert {refusal(each, "broken") for each in clients} == {grpc.StatusCode.NOT_FOUND}


def test_labels_and_the_log_level_change_in_every_worker(
    server: Server, clients: list[Client], repository: Path
) -> None:
    version = newest(repository)
    reply = server.rest.post("/v1/models/digits:labels", json={"labels": {"stable": version}})
    assert reply.status_code == 200, reply.text
    assert {client.predict(label="stable") for client in clients} == {version}
    assert server.rest.post("/v1/log_level", json={"log_level": "WARNING"}).status_code == 200
    assert server.rest.post("/v1/log_level", json={"log_level": "INFO"}).status_code == 200
    for _ in range(2):  # each time two workers say so, one of them in the lines that are left
        server.line("log level changed level=INFO")


def test_a_killed_worker_is_replaced_and_costs_the_others_no_request(
    server: Server, clients: list[Client], repository: Path
) -> None:
    """Under load; and the one that takes its place has what came by RPC."""
    clients[0].reload(digits=repository, kept=SAMPLE)
    before = set(server.pids()[1:])
    assert all(client.available() == [newest(repository)] for client in clients)
    asked = {"model_name": "digits", "method": "GetModelStatus"}
    statuses = counted(server, "ie_serving_requests_total", **asked)
    with Load(clients) as load:
        victim = min(before)
        lost = connections(server)[victim]
        os.kill(victim, signal.SIGKILL)
        server.line("worker ended and is replaced")
        server.line(READY)
        until(lambda: answers(clients, "kept") == {2})
    assert len(load.failed) <= lost
    assert len(set(server.pids()[1:]) - before) == 1
    assert statuses >= CLIENTS
    assert counted(server, "ie_serving_requests_total", **asked) == statuses
    until(lambda: min(connections(server).values()) >= CLIENTS // 4)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_that_dies_during_a_change_leaves_all_with_one_configuration(
    server: Server, clients: list[Client], repository: Path, victim: int
) -> None:
    """Whether it leads the change or follows it; the next change is made by all."""
    clients[0].reload(digits=repository)
    with ThreadPoolExecutor(1) as pool:
        change = pool.submit(clients[0].reload, digits=repository, raced=SAMPLE)
        server.line("model=raced .*stage=compiling")
        os.kill(sorted(server.pids()[1:])[victim], signal.SIGKILL)
        server.line("worker ended and is replaced")
        server.line(READY)
        change.exception(PATIENCE_S)
    told = (grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND)
    until(lambda: {refusal(each, "raced") for each in clients} in ({told[0]}, {told[1]}))
    clients[-1].reload(digits=repository, next=SAMPLE)
    assert answers(clients, "next") == {2}
    assert {refusal(each, "raced") for each in clients} == {grpc.StatusCode.NOT_FOUND}


def test_counters_neither_fall_nor_count_twice_while_workers_die(
    server: Server, clients: list[Client]
) -> None:
    """Two read the page all the time, and come to different workers."""
    asked = {"model_name": "digits", "method": "Predict"}
    before = counted(server, "ie_serving_requests_total", **asked)
    with Load(clients) as load, Scrapes(server, asked, 2) as scrapes:
        for _ in range(DEATHS):
            seen = scrapes.count
            os.kill(max(server.pids()[1:]), signal.SIGKILL)
            server.line("worker ended and is replaced")
            server.line(READY)
            until(lambda seen=seen: scrapes.count > seen + 4)  # type: ignore[misc]
    for read in scrapes.found:
        assert read == sorted(read)
    assert counted(server, "ie_serving_requests_total", **asked) <= before + load.sent


def test_clients_do_not_wait_where_no_worker_is_left(config: Path) -> None:
    """They are closed, so that they and their balancers go elsewhere."""
    server = Server("ie_serving", "config", f"--config_path={config}", "--workers=2")
    with closing(server):
        server.ready()
        for _ in range(3):  # the pause before the next ones is 16 s then
            until(lambda: len(server.pids()) == 3)
            for pid in server.pids()[1:]:
                os.kill(pid, signal.SIGKILL)
                server.line("worker ended and is replaced")
        for port in (server.port, server.rest_port):
            with socket.create_connection(("127.0.0.1", port), SOON_S) as client:
                client.settimeout(SOON_S)
                with suppress(ConnectionResetError):
                    assert client.recv(1) == b""


def test_a_stopped_worker_is_named_to_the_client_that_reloads(
    server: Server, clients: list[Client], repository: Path
) -> None:
    """Within the time of a request. The other one answers, and has new connections."""
    stopped, _ = server.pids()[1:]
    os.kill(stopped, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(CLIENTS) as pool:
            soon = pool.map(Client.answers_soon, clients)
            answering = [each for each, does in zip(clients, soon, strict=True) if does]
        assert 0 < len(answering) < CLIENTS
        with rpc_refused(
            "UNAVAILABLE",
            f"worker process {stopped} has shown no sign of life",
            f"kill -CONT {stopped}",
        ):
            answering[0].reload(digits=repository, more=SAMPLE)
        assert refusal(answering[0], "more") == grpc.StatusCode.NOT_FOUND, "nothing has changed"
        url = f"http://127.0.0.1:{server.rest_port}"
        reply = httpx.post(f"{url}/v1/config/reload", **PLAINLY)
        assert reply.status_code == 503
        assert f"worker process {stopped}" in reply.json()["error"]
        for _ in range(CLIENTS):
            assert httpx.get(f"{url}/metrics", **PLAINLY).status_code == 200
        asked = {"log_level": "DEBUG"}
        assert httpx.post(f"{url}/v1/log_level", json=asked, **PLAINLY).status_code == 200
        server.line("log level changed level=DEBUG")
    finally:
        os.kill(stopped, signal.SIGCONT)
    server.line("log level changed level=DEBUG")  # by the one that was stopped
    server.rest.post("/v1/log_level", json={"log_level": "INFO"})
    until(lambda: server.rest.post("/v1/config/reload").status_code == 200)
    assert len(answers(clients)) == 1


M = TypeVar("M", bound="Meanwhile")


class Meanwhile:
    """Threads that ask again and again until the end of the block.

    Args of the constructor:
        ask: what each does once, with the arguments of its own.
        own: these, for each thread.
    """

    def __init__(self, ask: Callable[..., None], own: Sequence[tuple[Any, ...]]) -> None:
        self._ask = ask
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=each) for each in own]

    def _run(self, *own: Any) -> None:
        while not self._over.wait(0.15):
            self._ask(*own)

    def __enter__(self: M) -> M:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)


class Scrapes(Meanwhile):
    """Readers of the page, each time over a connection of its own.

    Attributes:
        found: what each has read, in order.
    """

    def __init__(self, server: Server, labels: dict[str, str], readers: int) -> None:
        self._url = f"http://127.0.0.1:{server.rest_port}/metrics"
        self._labels = labels
        self.found: list[list[float]] = [[] for _ in range(readers)]
        super().__init__(self._read, [(each,) for each in self.found])

    @property
    def count(self) -> int:
        return min(map(len, self.found))

    def _read(self, found: list[float]) -> None:
        with suppress(httpx.TransportError):  # the worker that died had the connection
            page = httpx.get(self._url, timeout=PATIENCE_S, verify=PLAIN).text
            found.append(value_of(page, "ie_serving_requests_total", **self._labels))


class Load(Meanwhile):
    """Requests of every client at once, all the time.

    Attributes:
        failed: numbers of those of which a request has failed.
        sent: how many requests there were.
    """

    def __init__(self, clients: list[Client]) -> None:
        self.failed: set[int] = set()
        self._sent = [0] * len(clients)
        super().__init__(self._predict, [*enumerate(clients)])

    def _predict(self, number: int, client: Client) -> None:
        self._sent[number] += 1
        try:
            client.predict()
        except grpc.RpcError:
            self.failed.add(number)

    @property
    def sent(self) -> int:
        return sum(self._sent)

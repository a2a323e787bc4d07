"""Probes over both interfaces, while a server serves and while it drains."""

import signal
from collections.abc import Iterator

import pytest
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from tests.functional.load import IMAGE
from tests.functional.servers import SAMPLE_FLAGS, Server
from tests.process import PATIENCE_S, until

SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING
DRAINING_S = 600
"""Longer than any test: a second signal ends the server at once."""
ALWAYS = ("/v2/health/live", "/v2/health/startup")
WHILE_SERVING = ("/v2/health/ready", "/ping", "/v2/models/digits/ready")
NAMES = ("", "tensorflow.serving.PredictionService", "digits")
"""The server, a service, a model."""


@pytest.fixture
def server() -> Iterator[Server]:
    delay = f"--drain_delay_seconds={DRAINING_S}"
    with Server("ie_serving", "model", *SAMPLE_FLAGS, delay) as server:
        yield server.ready()


def test_probes_send_clients_elsewhere_while_the_server_still_answers(server: Server) -> None:
    health = health_pb2_grpc.HealthStub(server.channel)
    watches = [health.Watch(HealthCheckRequest(service=name), PATIENCE_S) for name in NAMES]
    assert [next(watch).status for watch in watches] == [SERVING] * 3
    assert _statuses(server, ALWAYS + WHILE_SERVING) == [200] * 5
    server.send(signal.SIGTERM)
    assert [next(watch).status for watch in watches] == [NOT_SERVING] * 3
    assert _statuses(server, ALWAYS) == [200] * 2
    assert _statuses(server, WHILE_SERVING) == [503] * 3
    for name in NAMES:
        checked = health.Check(HealthCheckRequest(service=name), PATIENCE_S)
        assert checked.status == NOT_SERVING
    reply = server.rest.post("/v1/models/digits:predict", json={"instances": IMAGE})
    assert (reply.status_code, reply.headers["connection"]) == (200, "close")
    assert all(watch.is_active() for watch in watches), "clients would begin them anew at once"
    server.send(signal.SIGTERM)
    until(lambda: not server.runs)


def _statuses(server: Server, paths: tuple[str, ...]) -> list[int]:
    return [server.rest.get(path).status_code for path in paths]

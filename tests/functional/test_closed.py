"""A server that is closed to what its configuration says: more connections, reloads by clients."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from tensorflow_serving.apis import model_management_pb2

from tests.functional.servers import PLAIN, SAMPLE_FLAGS, Server, rpc_refused
from tests.process import COMMANDS, PATIENCE_S

MOST = 20


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(
        "ie_serving", "model", *SAMPLE_FLAGS, f"--max_connections={MOST}", "--reload_by_rpc=false"
    ) as server:
        yield server.ready()


@pytest.mark.parametrize("interface", ["REST", "gRPC"])
def test_idle_connections_do_not_keep_probes_out(server: Server, interface: str) -> None:
    """Health is answered, and the log says why others had to go."""
    port = server.rest_port if interface == "REST" else server.port
    with ExitStack() as opened:
        for _ in range(5 * MOST):
            opened.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
        # Each by a connection of its own, as probes ask: one that is kept is idle in between, and
        # may have to go as well.
        for path in ("/v2/health/ready", "/v1/models/digits"):
            assert (
                httpx.get(f"{server.url}{path}", timeout=PATIENCE_S, verify=PLAIN).status_code
                == 200
            )
    assert [line for line in server.lines if "connection limit reached limit=20" in line]


def test_clients_cannot_change_what_is_served(server: Server) -> None:
    request = model_management_pb2.ReloadConfigRequest()
    request.config.model_config_list.SetInParent()
    with rpc_refused("PERMISSION_DENIED", "--reload_by_rpc"):
        server.model.HandleReloadConfigRequest(request, PATIENCE_S)
    assert server.rest.get("/v1/models/digits").status_code == 200


def test_with_few_files_clients_keep_their_connections() -> None:
    """One at a time was served, and the others were closed in turn."""
    command = ("ie_serving", "model", *SAMPLE_FLAGS)
    limited = ("/bin/sh", "-c", 'ulimit -n 128; exec "$0" "$@"')
    with Server(*limited, str(COMMANDS / command[0]), *command[1:]) as server:
        server.line("few files may be open files=128 connections=32")
        server.ready()
        with ExitStack() as opened:
            clients = [
                opened.enter_context(httpx.Client(base_url=server.url, verify=PLAIN))
                for _ in range(8)
            ]
            for _ in range(3):
                for client in clients:
                    assert client.get("/v1/models/digits").status_code == 200
        assert "connection limit reached" not in server.log

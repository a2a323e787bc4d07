"""The start of the process: ports, addresses, exit codes. Real processes, real connections."""

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.functional.servers import ROOT
from tests.functional.tiny import READY, Gate, Start, both, pid_of, refused
from tests.process import PATIENCE_S, free_ports, output_of


def test_ports_open_when_the_first_load_is_done(start: Start, gate: Gate) -> None:
    """Before, connections are refused; then both answer and the lines of 2020 are logged."""
    server = start(**both(), start_gate=gate.path)
    server.line("starting")
    assert refused(server.port)
    assert refused(server.rest_port)
    gate.open()
    served = "will be serving models: ['tiny']"
    assert server.line("REST server listens").endswith(f"port {server.rest_port} and {served}")
    assert server.line("gRPC server listens").endswith(f"port {server.port} and {served}")
    assert server.get() == server.call()


def test_every_address_of_both_families_is_served_by_default(start: Start) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    server = start(**both())
    server.line(READY)
    for port in (server.port, server.rest_port):
        assert not refused(port, "127.0.0.1")
        assert not refused(port, "::1")


def test_host_limits_the_addresses(start: Start) -> None:
    server = start(**both(), host="127.0.0.1")
    server.line(READY)
    for port in (server.port, server.rest_port):
        assert not refused(port, "127.0.0.1")
        assert refused(port, "127.0.0.2")


def test_rest_is_off_at_port_0_and_the_log_says_how_to_turn_it_on(start: Start) -> None:
    port, other = free_ports(2)
    server = start({"PORT": str(other)}, port=port)
    server.line("--rest_port")
    server.line(READY)
    assert server.call()
    assert not any("REST server listens" in line for line in server.lines)


def test_grpc_is_off_at_port_0(start: Start) -> None:
    server = start(port=0, rest_port=free_ports(1)[0])
    server.line("REST server listens on port")
    assert server.get()


def test_unix_sockets_serve_beside_ports_and_instead_of_them(start: Start, tmp_path: Path) -> None:
    paths = {name: str(tmp_path / f"{name}.sock") for name in ("grpc", "rest")}
    sockets = {f"{name}_socket_path": path for name, path in paths.items()}
    for ports in ({"port": 0}, both()):
        server = start(**ports, **sockets)
        server.line(f"gRPC server listens on socket {paths['grpc']} and will be serving models")
        assert server.call(target=f"unix:{paths['grpc']}")
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE_S)
            client.connect(paths["rest"])
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        if server.port:
            assert server.call() == server.get()
        server.kill()  # the paths stay behind, and do not keep the next server out
    server = start(port=0, **sockets)
    server.line("listens on socket")
    second = start(port=0, **sockets)
    assert second.exit_code() == 1
    assert f"REST socket {paths['rest']}: Address already in use" in second.log
    assert server.stop() == 0
    assert not any(os.path.exists(path) for path in paths.values())


@pytest.mark.parametrize(
    ("transport", "workers"), [("http2", 1), ("http2", 2), ("grpcio", 1)], ids=str
)
def test_a_socket_of_a_running_server_is_replaced_without_a_gap(
    start: Start, gate: Gate, tmp_path: Path, transport: str, workers: int
) -> None:
    """As TensorFlow Serving's restarts do; the server that loses the socket leaves it alone."""
    path = tmp_path / "grpc.sock"
    options = {"port": 0, "grpc_socket_path": str(path), "takes_grpc_socket": True}
    options |= {"grpc_transport": transport}
    first = start(**options)
    first.line("listens on socket")
    before = first.call(target=f"unix:{path}")
    second = start(**options, start_gate=gate.path, workers=workers)
    second.line(f"WARNING .* gRPC socket is taken from a running server path={path}")
    assert first.call(target=f"unix:{path}") == before
    gate.open(workers)
    second.line(f"gRPC server listens on socket {path} and")
    assert second.call(target=f"unix:{path}") != before
    assert first.stop() == 0
    assert second.call(target=f"unix:{path}") != before
    assert second.stop() == 0
    assert list(tmp_path.glob("grpc*")) == []


def test_each_port_has_its_own_addresses(start: Start) -> None:
    server = start(**both(), grpc_host="127.0.0.2", rest_host="127.0.0.1,127.0.0.3")
    server.line(READY)
    for port, served in ((server.port, {"2"}), (server.rest_port, {"1", "3"})):
        assert {last for last in "123" if not refused(port, f"127.0.0.{last}")} == served


def test_the_lines_of_tensorflow_serving_are_logged_when_asked_for(
    start: Start, tmp_path: Path
) -> None:
    server = start(**both(), grpc_socket_path=str(tmp_path / "s"), announce_as_tfs=True)
    server.line(READY)
    for words in (
        f"Running gRPC ModelServer at 0.0.0.0:{server.port} ...",
        f"Running gRPC ModelServer at unix:{tmp_path / 's'} ...",
        f"Exporting HTTP/REST API at:localhost:{server.rest_port} ...",
    ):
        assert server.line(words).endswith(words)


def test_both_ports_off_is_an_error(start: Start) -> None:
    server = start(port=0, rest_port=0)
    assert server.exit_code() == 1
    assert "both ports are off" in server.lines[-1]


@pytest.mark.thinned
@pytest.mark.parametrize("interface", ["REST", "gRPC"])
@pytest.mark.parametrize("shared", [False, True], ids=["exclusive", "SO_REUSEPORT"])
@pytest.mark.parametrize("address", ["127.0.0.1", "::"])
def test_a_taken_port_ends_the_start_and_is_named(
    start: Start, interface: str, shared: bool, address: str
) -> None:
    ports = both()
    port = ports["rest_port" if interface == "REST" else "port"]
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)
        # The port is kept for a test that sets this (`free_ports`).
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((address, port))
        holder.listen()
        server = start(**ports)
        assert server.exit_code() == 1
    assert f"cannot listen on {interface} port {port}" in server.lines[-1]
    assert "Traceback" not in server.log


@pytest.mark.parametrize("interface", ["port", "rest_port"])
def test_a_port_of_a_server_that_still_loads_is_taken(
    start: Start, gate: Gate, interface: str
) -> None:
    first = start(**both(), start_gate=gate.path)
    first.line("starting")
    port = getattr(first, interface)
    second = start(**{**both(), interface: port})
    assert second.exit_code() == 1
    assert f"port {port}" in second.lines[-1]
    gate.open()
    first.line(READY)


def test_a_port_is_free_again_at_once_after_a_stop(start: Start) -> None:
    """Connections that the server closed linger in TIME_WAIT and do not block the next start."""
    ports = both()
    first = start(**ports)
    first.line(READY)
    with socket.create_connection(("127.0.0.1", first.rest_port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        while client.recv(4096):
            pass
    first.call()
    first.send(signal.SIGTERM)
    assert first.exit_code() == 0
    second = start(**ports)
    second.line(READY)
    assert second.get() == second.call()


def test_a_host_that_is_not_here_is_named(start: Start) -> None:
    server = start(**both(), host="192.0.2.1")
    assert server.exit_code() == 1
    assert 'server cannot run cause="cannot listen on ' in server.lines[-1]
    assert r"host \"192.0.2.1\"" in server.lines[-1]


def test_a_start_that_fails_ends_with_1_and_one_line(start: Start) -> None:
    server = start(**both(), start_error="serving")
    assert server.exit_code() == 1
    text = server.log
    assert text.count(r"model path \"/nowhere\" does not exist") == 1
    assert "Traceback" not in text
    assert " - gunicorn." not in text


def test_a_defect_at_start_ends_with_1_and_a_traceback(start: Start) -> None:
    server = start(**both(), start_error="unexpected")
    assert server.exit_code() == 1
    assert server.log.count("ZeroDivisionError: a defect") == 1


def test_a_worker_killed_before_it_was_ready_ends_the_server(start: Start, gate: Gate) -> None:
    server = start(**both(), start_gate=gate.path)
    os.kill(pid_of(server.line("starting")), signal.SIGKILL)
    assert server.exit_code() == 1
    assert "perhaps out of memory" in server.lines[-1]


def test_gunicorns_own_configuration_is_not_read(start: Start) -> None:
    server = start(
        {"GUNICORN_CMD_ARGS": "--workers 3 --bind 127.0.0.1:1", "WEB_CONCURRENCY": "3"}, **both()
    )
    server.line(READY)
    assert len([line for line in server.lines if "starting" in line]) == 1
    assert server.get() == server.call()


def test_the_arbiter_does_not_import_the_workers_libraries() -> None:
    """It stays small, and nothing that starts threads comes before the fork."""
    script = "import sys, ie_serving.server.process.gunicorn_app; print(*sys.modules)"
    *_, modules = output_of(sys.executable, "-c", script, cwd=ROOT)
    heavy = {"grpc", "httptools", "uvloop", "falcon", "openvino", "google.protobuf", "tensorflow"}
    assert heavy.isdisjoint(modules.split())
    assert "ie_serving.server.workers" not in modules, "a single worker needs none of it"


def test_the_worker_imports_what_it_may_never_need_with_the_model_that_needs_it() -> None:
    """Of OpenVINO's package: not its converter, with the library that reports usage."""
    script = (
        "import sys, ie_serving.app.application; print(*(n for n, m in sys.modules.items() if m))"
    )
    *_, modules = output_of(sys.executable, "-c", script, cwd=ROOT)
    imported = set(modules.split())
    assert "openvino" in imported
    readers = {f"ie_serving.engines.openvino.{name}" for name in ("saved_model", "lite")}
    assert imported.isdisjoint({"openvino.tools.ovc", "openvino_telemetry", "falcon", *readers})
    assert "ie_serving.server.workers" not in modules, "a single worker needs none of it"

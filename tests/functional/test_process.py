"""The process: ports, signals, exit codes, workers that die. Real processes, real connections."""

import errno
import json
import os
import re
import signal
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.process import PATIENCE_S, Process, free_ports, output_of, until

TINY = Path(__file__).with_name("tiny_server.py")
ROOT = TINY.parents[2]
READY = "gRPC server listens on port"


class Tiny(Process):
    """A tiny server and clients of it."""

    def __init__(self, environment: dict[str, str], **options: Any) -> None:
        self.port: int = options.get("port", 0)
        self.rest_port: int = options.get("rest_port", 0)
        environment = {"PYTHONPATH": str(ROOT), **environment}
        super().__init__(sys.executable, TINY, json.dumps(options), env=environment)

    def get(self, path: str = "/") -> bytes:
        url = f"http://127.0.0.1:{self.rest_port}{path}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:
            return bytes(reply.read())

    def call(self, method: str = "Fast", target: str = "") -> bytes:
        with grpc.insecure_channel(target or f"127.0.0.1:{self.port}") as channel:
            return bytes(channel.unary_unary(f"/tiny.Tiny/{method}")(b"", timeout=PATIENCE_S))


Start = Callable[..., Tiny]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start servers that do not outlive the test."""
    with ExitStack() as stack:

        def _start(environment: dict[str, str] | None = None, **options: Any) -> Tiny:
            server = Tiny(environment or {}, **options)
            stack.callback(server.kill)
            return server

        yield _start


class Gate:
    """A FIFO that lets through as many readers as the test says."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        self._end = os.open(path, os.O_RDWR)

    def open(self, readers: int = 1) -> None:
        os.write(self._end, b"." * readers)

    def close(self) -> None:
        os.close(self._end)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    with closing(Gate(tmp_path / "gate")) as gate:
        yield gate


def both() -> dict[str, int]:
    return dict(zip(("port", "rest_port"), free_ports(2), strict=True))


def refused(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as client:
        client.settimeout(PATIENCE_S)
        return client.connect_ex((host, port)) == errno.ECONNREFUSED


def pid_of(line: str) -> int:
    found = re.search(r"pid=(\d+)", line)
    assert found
    return int(found[1])


def time_of(line: str) -> datetime:
    return datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f")


# -- start ---------------------------------------------------------------------------------------


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
    assert 'host "192.0.2.1"' in server.lines[-1]


def test_a_start_that_fails_ends_with_1_and_one_line(start: Start) -> None:
    server = start(**both(), start_error="serving")
    assert server.exit_code() == 1
    text = server.log
    assert text.count('model path "/nowhere" does not exist') == 1
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


def test_the_worker_imports_what_it_may_never_need_with_the_model_that_needs_it() -> None:
    """Of OpenVINO's package: not its converter, with the library that reports usage."""
    script = "import sys, ie_serving.application; print(*(n for n, m in sys.modules.items() if m))"
    *_, modules = output_of(sys.executable, "-c", script, cwd=ROOT)
    imported = set(modules.split())
    assert "openvino" in imported
    readers = {f"ie_serving.engines.openvino.{name}" for name in ("saved_model", "lite")}
    assert imported.isdisjoint({"openvino.tools.ovc", "openvino_telemetry", "falcon", *readers})


# -- stop ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_stop_signal_ends_with_0(start: Start, number: int) -> None:
    server = start(**both())
    server.line(READY)
    server.send(number)
    assert server.exit_code() == 0
    assert [line.split(" - ")[-1] for line in server.lines[-2:]] == ["ready=False", "closed"]


def test_a_stop_signal_while_loading_ends_with_0_without_waiting(start: Start, gate: Gate) -> None:
    """The thread that loads cannot be cancelled, and nobody waits for it."""
    server = start(**both(), start_gate=gate.path)
    server.line("starting")
    server.send(signal.SIGTERM)
    assert server.exit_code() == 0


@pytest.mark.parametrize("group", [False, True], ids=["arbiter", "whole process group"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_requests_in_flight_are_answered_and_new_connections_refused(
    start: Start, gate: Gate, group: bool, number: int
) -> None:
    """Also when a terminal or supervisor signals arbiter and worker alike."""
    server = start(**both(), answer_gate=gate.path)
    server.line(READY)
    with ThreadPoolExecutor() as pool:
        answers = [pool.submit(server.get, "/slow"), pool.submit(server.call, "Slow")]
        server.line("slow request")
        server.line("slow request")
        if group:
            os.killpg(server.popen.pid, number)
        else:
            server.send(number)
        server.line("ready=False")
        until(lambda: refused(server.port))
        until(lambda: refused(server.rest_port))
        assert not any(answer.done() for answer in answers)
        gate.open(readers=2)
        assert answers[0].result() == answers[1].result()
    assert server.exit_code() == 0


def test_readiness_goes_false_before_connections_are_refused(start: Start) -> None:
    server = start(**both(), drain_delay_s=600)
    server.line(READY)
    server.send(signal.SIGTERM)
    server.line("ready=False")
    assert server.get() == server.call()
    server.send(signal.SIGTERM)
    assert server.exit_code() == 0


@pytest.mark.parametrize("interface", ["REST", "gRPC"])
def test_the_drain_timeout_bounds_requests_in_flight(
    start: Start, gate: Gate, interface: str
) -> None:
    server = start(**both(), answer_gate=gate.path, drain_timeout_s=0.5)
    server.line(READY)
    with ThreadPoolExecutor() as pool:
        request = (server.get, "/slow") if interface == "REST" else (server.call, "Slow")
        answer = pool.submit(*request)
        server.line("slow request")
        server.send(signal.SIGTERM)
        assert server.exit_code() == 0
        assert answer.exception() is not None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once_with_0(start: Start, gate: Gate, number: int) -> None:
    server = start(**both(), answer_gate=gate.path, drain_timeout_s=600)
    server.line(READY)
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(server.get, "/slow")
        server.line("slow request")
        server.send(number)
        server.line("ready=False")
        server.send(number)
        assert server.exit_code() == 0
        assert answer.exception() is not None


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGTTIN, signal.SIGTTOU])
def test_other_signals_change_nothing(start: Start, number: int) -> None:
    server = start(**both())
    server.line(READY)
    before = server.get()
    server.send(number)
    server.send(signal.SIGHUP)
    server.line("reloaded")
    assert server.get() == before


def test_workers_end_when_the_arbiter_is_killed(start: Start) -> None:
    server = start(**both())
    server.line(READY)
    server.send(signal.SIGKILL)
    server.line("closed")


def test_after_the_arbiter_is_killed_its_ports_are_free_for_a_successor(start: Start) -> None:
    ports = both()
    server = start(**ports)
    server.line(READY)
    for _ in range(3):  # a worker that only looked each second would be gone by chance at times
        server.send(signal.SIGKILL)
        server.popen.wait(PATIENCE_S)
        server = start(**ports)
        server.line(READY)


# -- while it runs -------------------------------------------------------------------------------


def test_hup_reads_the_configuration_again_without_a_restart(start: Start) -> None:
    server = start(**both())
    server.line(READY)
    before = int(server.get())
    server.send(signal.SIGHUP)
    assert pid_of(server.line("reloaded")) == before
    assert int(server.get()) == before


def test_a_reload_that_fails_is_logged_and_serving_goes_on(start: Start, tmp_path: Path) -> None:
    server = start(**both(), start_marker=str(tmp_path / "broken"))
    server.line(READY)
    server.send(signal.SIGHUP)
    assert server.line("not reloaded").endswith('cause="config.json: not JSON"')
    assert server.get()


@pytest.mark.parametrize("interface", ["REST", "gRPC"])
def test_a_killed_worker_is_replaced_and_connections_wait(start: Start, interface: str) -> None:
    """The arbiter owns the sockets: a connection made meanwhile is answered by the next."""
    server = start(**both())
    server.line(READY)
    ask = server.get if interface == "REST" else server.call
    first = int(server.get())
    os.kill(first, signal.SIGKILL)
    second = int(ask())
    assert second != first
    assert f"pid={first} " in server.line("worker ended and is replaced")
    server.line(READY)
    assert int(server.call()) == int(server.get()) == second
    server.send(signal.SIGTERM)
    assert server.exit_code() == 0


def test_a_replacement_that_fails_to_start_is_tried_again_with_pauses(
    start: Start, tmp_path: Path
) -> None:
    marker = tmp_path / "started"
    server = start(**both(), start_marker=str(marker))
    server.line(READY)
    os.kill(int(server.get()), signal.SIGKILL)
    deaths = [server.line("is replaced") for _ in range(3)]
    assert [line.rpartition("pause_s=")[2] for line in deaths] == ["0", "1", "2"]
    assert (time_of(deaths[2]) - time_of(deaths[1])).total_seconds() > 0.9
    marker.unlink()
    server.line(READY)


def test_several_workers_share_both_ports(start: Start, gate: Gate) -> None:
    server = start(**both(), workers=2, start_gate=gate.path)
    pids = {pid_of(server.line("starting")) for _ in range(2)}
    gate.open(readers=2)
    server.line(READY)
    server.line(READY)
    seen: set[int] = set()
    until(lambda: seen.add(int(server.call())) or seen == pids)  # type: ignore[func-returns-value]
    server.send(signal.SIGHUP)
    assert {pid_of(server.line("reloaded")) for _ in range(2)} == pids
    server.send(signal.SIGTERM)
    assert server.exit_code() == 0

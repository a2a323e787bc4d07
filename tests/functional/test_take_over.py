"""SIGUSR2: another process takes over the ports, under load, and no request fails."""

import os
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import grpc
import httpx
import psutil

from tests.certificates import Authority
from tests.functional.servers import PLAIN, READY, SAMPLE_FLAGS, Server
from tests.functional.tiny import Gate, Start, both, pid_of
from tests.process import PATIENCE_S, Process, until

STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
QUESTION = b"\x0a\x08\x0a\x06digits"
"""GetModelStatusRequest: model_spec { name: "digits" }."""
PAUSE_S = 0.02
"""Between two requests of one thread: without it they took the processors from the one that starts.
"""

Ask = Callable[[], object]


class Asking:
    """Asks all the time, each in a thread; keeps every failure."""

    def __init__(self, asks: Sequence[Ask]) -> None:
        self.failures: list[str] = []
        self.answers = [0] * len(asks)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(place, ask)) for place, ask in enumerate(asks)
        ]

    def _run(self, place: int, ask: Ask) -> None:
        while not self._stop.wait(PAUSE_S):
            try:
                ask()
                self.answers[place] += 1
            except Exception as error:
                self.failures.append(f"{place}: {error!r}")

    def go_on(self, count: int = 5) -> None:
        """Wait until each has so many more answers."""
        goal = [before + count for before in self.answers]
        until(lambda: all(now >= then for now, then in zip(self.answers, goal, strict=True)))

    @contextmanager
    def running(self) -> Iterator["Asking"]:
        for thread in self._threads:
            thread.start()
        try:
            self.go_on()
            yield self
            self.go_on()
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(PATIENCE_S)
        assert self.failures == []


def replaced(server: Process, pid: int) -> int:
    """Have another process take over from `pid`, which then ends; give the new one."""
    os.kill(pid, signal.SIGUSR2)
    successor = pid_of(server.line("replacement started"))
    server.line("gRPC server listens on socket")
    server.line("server stops cause=SIGUSR2")
    server.line("server has stopped")
    return successor


class Opened(ExitStack):
    """Clients that stay open, and what asks over them."""

    def rest(self, url: str, verify: ssl.SSLContext | bool = PLAIN, path: str | None = None) -> Ask:
        transport = httpx.HTTPTransport(verify=verify, uds=path)
        client = self.enter_context(httpx.Client(transport=transport, timeout=PATIENCE_S))
        return lambda: client.get(url).raise_for_status()

    def grpc(
        self,
        target: str,
        method: str,
        question: bytes = b"",
        credentials: grpc.ChannelCredentials | None = None,
    ) -> Ask:
        channel = (
            grpc.secure_channel(target, credentials)
            if credentials
            else grpc.insecure_channel(target)
        )
        call = self.enter_context(channel).unary_unary(method)
        return lambda: call(question, timeout=PATIENCE_S)


def anew(opens: Callable[[Opened], Ask]) -> Ask:
    """Give what asks over a new connection each time."""

    def ask() -> None:
        with Opened() as opened:
            opens(opened)()

    return ask


def heard_by_systemd(path: Path) -> socket.socket:
    """Give the socket at which systemd hears of its services."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    found.bind(str(path))
    found.setblocking(False)
    return found


def noted(systemd: socket.socket, begin: str) -> list[str]:
    notes = []
    with closing(systemd), suppress(BlockingIOError):
        while True:
            notes.append(systemd.recv(4096).decode())
    return [note for note in notes if note.startswith(begin)]


def kept_and_anew(opened: Opened, *opens: Callable[[Opened], Ask]) -> list[Ask]:
    return [*(each(opened) for each in opens), *map(anew, opens)]


def test_no_request_fails(start: Start, tmp_path: Path) -> None:
    """Neither on new connections nor on those that are kept; over ports and UNIX sockets; twice."""
    rest, grpc = str(tmp_path / "rest"), str(tmp_path / "grpc")
    systemd = heard_by_systemd(tmp_path / "notify")
    told = {"NOTIFY_SOCKET": systemd.getsockname()}
    server = start(told, **both(), rest_socket_path=rest, grpc_socket_path=grpc)
    server.line(READY)
    url, target = f"http://127.0.0.1:{server.rest_port}/", f"127.0.0.1:{server.port}"
    with Opened() as opened:
        asks = kept_and_anew(
            opened,
            lambda each: each.rest(url),
            lambda each: each.rest(url, path=rest),
            lambda each: each.grpc(target, "/tiny.Tiny/Fast"),
            lambda each: each.grpc(f"unix:{grpc}", "/tiny.Tiny/Fast"),
        )
        with Asking(asks).running() as asking:
            second = replaced(server, server.popen.pid)
            asking.go_on()
            third = replaced(server, second)
    assert len({server.popen.pid, second, third}) == 3
    assert [f"MAINPID={pid}" for pid in (second, third)] == noted(systemd, "MAINPID=")
    assert server.popen.wait(PATIENCE_S) == 0


def test_with_tls_and_two_workers_it_waits_for_its_models(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.server()
    flags = (f"--tls_certificate={pair.certificate}", f"--tls_key={pair.key}")
    digits = (*SAMPLE_FLAGS, "--workers=2")
    credentials = grpc.ssl_channel_credentials(authority.path.read_bytes())
    context = ssl.create_default_context(cafile=authority.path)
    with Server("ie_serving", "model", *digits, *flags) as server, Opened() as opened:
        server.line(READY)
        asks = kept_and_anew(
            opened,
            lambda each: each.rest(
                f"https://localhost:{server.rest_port}/v2/models/digits/ready", context
            ),
            lambda each: each.grpc(f"localhost:{server.port}", STATUS, QUESTION, credentials),
        )
        with Asking(asks).running():
            server.send(signal.SIGUSR2)
            server.line("process takes over")
            server.line("state=AVAILABLE")
            server.line(READY)
            server.line("server stops cause=SIGUSR2")
            assert server.popen.wait(PATIENCE_S) == 0
        server.kill()


def test_a_stop_ends_the_one_that_is_about_to_take_over(start: Start, gate: Gate) -> None:
    server = start(**both(), start_gate=gate.path)
    gate.open()
    server.line(READY)
    server.send(signal.SIGUSR2)
    successor = psutil.Process(pid_of(server.line("replacement started")))
    server.line("starting")
    server.send(signal.SIGTERM)
    server.line(f"INFO .* replacement ended, this process stops pid={successor.pid}")
    assert server.popen.wait(PATIENCE_S) == 0
    until(lambda: not successor.is_running() or successor.status() == psutil.STATUS_ZOMBIE)
    assert "ERROR" not in server.log, "it is what the operator has asked for"


def test_a_stop_leaves_the_sockets_to_one_that_is_ready(start: Start, tmp_path: Path) -> None:
    """Even where the stop comes before the old process has looked whether the new one is ready."""
    path = str(tmp_path / "grpc")
    server = start(**both(), grpc_socket_path=path, look_s=PATIENCE_S)
    server.line("gRPC server listens on socket")
    before = server.get()
    server.send(signal.SIGUSR2)
    successor = pid_of(server.line("replacement started"))
    until(lambda: server.get() != before)  # the new one answers, so it has said that it is ready
    server.send(signal.SIGTERM)
    assert server.popen.wait(PATIENCE_S) == 0
    assert server.call() == server.call(target=f"unix:{path}") == server.get()
    assert psutil.pid_exists(successor)
    assert "ERROR" not in server.log


def test_a_successor_that_fails_leaves_everything_as_it_was(start: Start, tmp_path: Path) -> None:
    path = str(tmp_path / "grpc")
    options = {"start_marker": str(tmp_path / "started"), "grpc_socket_path": path}
    server = start(**both(), **options)
    server.line(READY)
    before = server.get()
    server.send(signal.SIGUSR2)
    line = server.line("process not replaced, it goes on")
    assert 'cause="the store is away"' in line
    assert server.get() == server.call() == server.call(target=f"unix:{path}") == before
    assert server.stop() == 0

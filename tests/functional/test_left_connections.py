"""Clients that leave at any point: they are not counted any more, and no stop waits for them.

A client leaves by closing its socket (FIN), by resetting it (RST), or by TLS's own farewell before
it closes. What of the server waits at that moment, for bytes of the client or for room in its
buffers, has to end.
"""

import json
import re
import shutil
import signal
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import pytest
from tensorflow import make_tensor_proto
from tensorflow_serving.apis import predict_pb2

from ie_serving.core.values.tensors import Array
from ie_serving.server.transport.http1.connection import INPUT_END_S
from tests.certificates import Authority
from tests.functional.protocols import http2_client as h2
from tests.functional.servers import READY, SAMPLE, Server, config_flag
from tests.process import PATIENCE_S, free_ports, until

SCRIPT = Path(__file__).with_name("gated_server.py")
KERNEL = '''
import numpy as np


class Large:
    """Gives twice what sockets hold, 4 MB."""

    def metadata(self):
        numbers = {"dtype": "float32", "shape": [-1]}
        return {"inputs": {"x": numbers}, "outputs": {"y": numbers}}

    def execute(self, inputs):
        return {"y": np.full(2_000_000, 0.5, np.float32)}
'''
INPUTS: Mapping[str, tuple[str, Array]] = {
    "waiting": ("image", np.zeros((1, 64), np.float32)),  # is never answered
    "large": ("x", np.zeros(1, np.float32)),
}
DRAIN_S = 100
"""Seconds for which the servers wait for requests that are answered."""
STOP_S = 20.0
"""Seconds that a stop may take without any."""
LEFT_S = 20.0
"""Seconds in which a client that has left must be forgotten; a request has 30 s."""
ENDED_S = 10.0
"""Seconds that a connection may be held open for a client that has been refused."""
RECEIVED = 4096
"""Bytes that the kernel keeps for a client that reads nothing."""

Step = tuple[bytes, bytes | int]
"""What is sent, and then what is waited for: these bytes, or so many."""
END: Final = 1 << 30
"""More than a server says before it ends a connection."""


def body_of(model: str) -> bytes:
    name, value = INPUTS[model]
    return json.dumps({"inputs": {name: value.tolist()}}).encode()


def post(model: str, *lines: str, body: bytes | None = None, length: int = 0) -> bytes:
    body = body_of(model) if body is None else body
    head = (
        f"POST /v1/models/{model}:predict HTTP/1.1",
        "host: x",
        f"content-length: {length or len(body)}",
        *lines,
    )
    return "\r\n".join((*head, "", "")).encode() + body


def upgrade(model: str) -> bytes:
    key = "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n"
    return (
        f"GET /v1/models/{model}:stream HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\n"
        f"upgrade: websocket\r\n{key}\r\n"
    ).encode()


def message(model: str) -> bytes:
    """A frame of a WebSocket."""
    content = body_of(model)
    size = (
        struct.pack(">BH", 254, len(content)) if len(content) > 125 else bytes([128 | len(content)])
    )
    return b"\x81" + size + bytes(4) + content


GET = b"GET /v1/models/waiting HTTP/1.1\r\nhost: x\r\n\r\n"
OK, SWITCHED = b"HTTP/1.1 200 ", b"HTTP/1.1 101 "

REST: Mapping[str, Sequence[Step]] = {
    "nothing is said": [],
    "a letter": [(b"P", b"")],
    "a part of a head": [(GET[:20], b"")],
    "no body yet": [(post("waiting", body=b"", length=9), b"")],
    "a part of a small body": [(post("waiting", length=1000), b"")],
    "a part of a large body": [(post("waiting", body=bytes(100_000), length=1 << 24), b"")],
    "a part of a body in chunks": [
        (
            b"POST /v1/models/waiting:predict HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n9\r\n{",
            b"",
        )
    ],
    "a body is asked for": [
        (post("waiting", "expect: 100-continue", body=b"", length=9), b"HTTP/1.1 100 ")
    ],
    "a request is worked on": [(post("waiting"), b"")],
    "another waits behind it": [(post("waiting") * 3, b"")],
    "between two requests": [(GET, OK)],
    "behind the last reply": [(GET.replace(b"x\r\n", b"x\r\nconnection: close\r\n"), OK)],
    "a reply is unread": [(post("large"), b"")],
    "a reply is read in part": [(post("large"), OK)],
    "a reply is unread, and another waits": [(post("large") * 2, b"")],
    "a refusal is unread": [(b"nonsense\r\n\r\n", b"")],
    "a refusal is read": [(b"nonsense\r\n\r\n", b"HTTP/1.1 ")],
    "a refusal comes before the body": [
        (post("waiting", body=b"", length=1 << 40), b"HTTP/1.1 413 "),
    ],
    "a refused body comes still": [(post("waiting", body=bytes(100_000), length=1 << 40), b"")],
    "an upgrade is asked for": [(upgrade("waiting"), b"")],
    "a WebSocket is open": [(upgrade("waiting"), SWITCHED)],
    "a part of a frame": [(upgrade("waiting"), SWITCHED), (message("waiting")[:9], b"")],
    "a message is worked on": [(upgrade("waiting"), SWITCHED), (message("waiting"), b"")],
    "many messages wait behind it": [
        (upgrade("waiting"), SWITCHED),
        (message("waiting") * 400, b""),
    ],
    "an answer is unread": [(upgrade("large"), SWITCHED), (message("large") * 3, 64)],
    "a WebSocket is closed": [(upgrade("waiting"), SWITCHED), (b"\x88\x80\0\0\0\0", b"\x88\0")],
    "a WebSocket is refused": [(upgrade("waiting"), SWITCHED), (b"\x83\x80\0\0\0\0", b"\x88")],
}


def predict(number: int, model: str, flags: int = h2.END_STREAM) -> bytes:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    name, value = INPUTS[model]
    request.inputs[name].CopyFrom(make_tensor_proto(value))
    content = request.SerializeToString()
    path = "/tensorflow.serving.PredictionService/Predict"
    return _called(number, path) + h2.data(
        number, struct.pack(">BL", 0, len(content)) + content, flags
    )


def _called(number: int, path: str) -> bytes:
    return h2.headers(number, h2.request(path=path))


STREAM = "/ie_serving.StreamService/PredictStream"
WIDE = h2.PREFACE + h2.settings((4, h2.MOST_WINDOW)) + h2.window_update(0, 1 << 30)
SETTINGS = 9
"""Bytes of a server's first frame at the least."""
PRI = h2.PREFACE

GRPC: Mapping[str, Sequence[Step]] = {
    "nothing is said": [],
    "a letter": [(PRI[:1], b"")],
    "a part of the preface": [(PRI[:9], b"")],
    "the preface": [(PRI, b"")],
    "no call": [(h2.HELLO, SETTINGS)],
    "a part of headers": [(h2.HELLO + h2.frame(h2.HEADERS, 0, 1, b"\x82"), SETTINGS)],
    "no message yet": [(h2.HELLO + h2.opened(1), SETTINGS)],
    "a part of a message": [(h2.HELLO + h2.opened(1) + h2.data(1)[:12], SETTINGS)],
    "a part of a large message": [
        (
            h2.HELLO + h2.opened(1) + h2.data(1, struct.pack(">BL", 0, 60_000) + bytes(9), 0),
            SETTINGS,
        )
    ],
    "a call is worked on": [(h2.HELLO + predict(1, "waiting"), b"")],
    "several are": [(h2.HELLO + b"".join(predict(n, "waiting") for n in (1, 3, 5)), b"")],
    "a call is reset": [(h2.HELLO + predict(1, "waiting") + h2.reset(1), SETTINGS)],
    "behind a reply": [(h2.HELLO + h2.call(1), 60)],
    "a reply waits for a window": [(h2.HELLO + predict(1, "large"), 2000)],
    "a reply is unread": [(WIDE + predict(1, "large"), b"")],
    "a reply is read in part": [(WIDE + predict(1, "large") + predict(3, "large"), 200_000)],
    "a conversation is open": [(h2.HELLO + _called(1, STREAM), SETTINGS)],
    "a message of it is worked on": [
        (h2.HELLO + _called(1, STREAM) + predict(1, "waiting", 0)[len(_called(1, STREAM)) :], b"")
    ],
    "another protocol is spoken": [(GET, b"")],
    "a fault is unread": [(h2.HELLO + h2.frame(h2.PUSH_PROMISE, 4, 1, bytes(9)), b"")],
    "a fault is read": [(h2.HELLO + h2.frame(h2.PUSH_PROMISE, 4, 1, bytes(9)), 40)],
}


def _hello() -> bytes:
    """A client's first message."""
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(
        ssl.MemoryBIO(), outgoing, server_hostname="localhost"
    )
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


HANDSHAKE: Mapping[str, Sequence[Step]] = {
    "nothing is said": [],
    "a part of a message": [(b"\x16\x03\x01\x00", b"")],
    "a whole one": [(_hello(), b"")],
    "it is answered": [(_hello(), 100)],
    "plain HTTP": [(GET, b"")],
    "plain HTTP is refused": [(GET, END)],
    "plain HTTP/2": [(h2.PREFACE, b"")],
}
OWED = ("a request is worked on", "another waits behind it")
"""Where a client of plain HTTP that closes at once may be one that still reads its replies."""

IDLE_REST = ("nothing is said", "between two requests", "a refusal is read")
IDLE_GRPC = ("nothing is said", "no call", "behind a reply", "a fault is read")


class Left(Server):
    """A server of the two models, whose connections can be counted.

    Args of the constructor:
        folder: where its files go.
        is_encrypted: it speaks TLS.
        is_shared: gRPC and REST have one port.
        flags: further ones.
    """

    def __init__(self, folder: Path, *flags: str, is_encrypted: bool, is_shared: bool) -> None:
        (folder / "large" / "1").mkdir(parents=True)
        (folder / "large" / "1" / "kernel.py").write_text(KERNEL)
        waiting = shutil.copytree(SAMPLE / "1", folder / "waiting" / "1")
        (waiting / "no_answers").touch()
        entries = ({"name": "waiting"}, {"name": "large", "kernel": "kernel.py"})
        models = ({**each, "base_path": each["name"]} for each in entries)
        file = config_flag(folder / "config.json", *models)
        self.authority = Authority(folder)
        if is_encrypted:
            pair = self.authority.server()
            flags += (f"--tls_certificate={pair.certificate}", f"--tls_key={pair.key}")
        # In f32: with bf16 the load would infer, and here nothing answers.
        flags += (
            "--allow_python",
            f"--drain_timeout_seconds={DRAIN_S}",
            "--inference_precision=f32",
        )
        ports = free_ports(1) * 2 if is_shared else free_ports(2)
        super().__init__(
            sys.executable,
            str(SCRIPT),
            "config",
            file,
            *flags,
            ports=ports,
        )
        self.line(READY)
        self.is_encrypted = is_encrypted
        scheme = "https" if is_encrypted else "http"
        trusted = ssl.create_default_context(cafile=self.authority.path)
        self.rest = self._opened.enter_context(
            httpx.Client(
                base_url=f"{scheme}://127.0.0.1:{self.rest_port}",
                verify=trusted,
                timeout=PATIENCE_S,
                trust_env=False,
            )
        )

    def gauges(self, *names: str) -> list[int]:
        """Give the sum of each gauge."""
        page = self.rest.get("/metrics").text
        found = [re.findall(rf"^ie_serving_{each}(?:{{.*}})? (\d+)$", page, re.M) for each in names]
        return [sum(map(int, each)) for each in found]

    def is_left(self) -> bool:
        """Tell whether only this client is connected, and no request is worked on."""
        return self.gauges("connections", "in_flight_requests", "streams_open") == [1, 0, 0]

    def client(self, steps: Sequence[Step], port: int, protocol: str = "") -> socket.socket:
        """Connect, and take the steps; `protocol` is agreed upon by TLS, without one TLS is not."""
        client = socket.socket()
        client.settimeout(PATIENCE_S)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED)
        client.connect(("127.0.0.1", port))
        if self.is_encrypted and protocol:
            context = ssl.create_default_context(cafile=self.authority.path)
            context.set_alpn_protocols([protocol])
            client = context.wrap_socket(client, server_hostname="localhost")
        for sent, awaited in steps:
            client.sendall(sent)
            _hear(client, awaited)
        return client


def _hear(client: socket.socket, awaited: bytes | int) -> None:
    heard = b""
    while len(heard) < awaited if isinstance(awaited, int) else awaited not in heard:
        more = client.recv(65536)
        if not more and awaited is END:
            return
        assert more, heard[:1000]
        heard += more


def close(client: socket.socket) -> None:
    client.close()


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def say_goodbye(client: socket.socket) -> None:
    """Close as TLS wants it, without waiting for the server to do the same."""
    if isinstance(client, ssl.SSLSocket):
        client.setblocking(False)
        with suppress(ssl.SSLWantReadError, ssl.SSLError):
            client.unwrap()
    client.close()


Leave = Callable[[socket.socket], None]
LEAVE = (close, reset, say_goodbye)


def leave_at(server: Left, point: str) -> Sequence[Leave]:
    """Give the ways in which a client has left for good."""
    if server.is_encrypted:
        return LEAVE
    return (reset,) if point in OWED else (close, reset)


SERVERS: Mapping[str, tuple[bool, bool, Sequence[str]]] = {
    "plain": (False, False, ()),
    "TLS": (True, False, ()),
    "one port": (False, True, ()),
    "one port, TLS": (True, True, ()),
    "grpcio": (False, False, ("--grpc_transport=grpcio",)),
    "grpcio, TLS": (True, False, ("--grpc_transport=grpcio",)),
}


def on(kept: str, kinds: Iterable[str] = SERVERS) -> list[Any]:
    """Give each kind of server; all but one by `make soak`."""
    return [kind if kind == kept else pytest.param(kind, marks=pytest.mark.soak) for kind in kinds]


def half(points: Iterable[str], first: int) -> list[Any]:
    """Give every other point from the first on, and those that matter most; all by `make soak`."""
    kept = {*[*points][first::2], *OWED}
    return [p if p in kept else pytest.param(p, marks=pytest.mark.soak) for p in points]


BUT_TLS = [kind for kind in SERVERS if kind != "TLS"]
ENCRYPTED = [kind for kind, (is_encrypted, *_) in SERVERS.items() if is_encrypted]


def start(folder: Path, kind: str) -> Left:
    is_encrypted, is_shared, flags = SERVERS[kind]
    return Left(folder, *flags, is_encrypted=is_encrypted, is_shared=is_shared)


@pytest.fixture(scope="module", params=SERVERS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Left]:
    with closing(start(tmp_path_factory.mktemp("left"), request.param)) as started:
        yield started


def leaves(client: socket.socket, server: Left, leave: Leave) -> None:
    """Let a client leave, and wait until the server holds nothing of it."""
    leave(client)
    until(server.is_left, LEFT_S)


@pytest.mark.parametrize("server", on("plain", BUT_TLS), indirect=True)
@pytest.mark.parametrize("point", half(REST, 0))
def test_rest(server: Left, point: str) -> None:
    for leave in leave_at(server, point):
        leaves(server.client(REST[point], server.rest_port, "http/1.1"), server, leave)


@pytest.mark.parametrize("server", ["TLS"], indirect=True)
@pytest.mark.parametrize("point", half(REST, 1))
def test_rest_over_tls(server: Left, point: str) -> None:
    test_rest(server, point)


@pytest.mark.parametrize("server", ["one port", "one port, TLS"], indirect=True)
@pytest.mark.parametrize("point", [*IDLE_REST, *OWED])
def test_rest_on_one_port(server: Left, point: str) -> None:
    test_rest(server, point)


@pytest.mark.parametrize("server", on("plain", BUT_TLS), indirect=True)
@pytest.mark.parametrize("point", half(GRPC, 0))
def test_a_client_of_grpc_that_leaves_is_not_counted_any_more(server: Left, point: str) -> None:
    for leave in LEAVE:
        leaves(server.client(GRPC[point], server.port, "h2"), server, leave)


@pytest.mark.parametrize("server", ["TLS"], indirect=True)
@pytest.mark.parametrize("point", half(GRPC, 1))
def test_a_client_of_grpc_over_tls_that_leaves_is_not_counted_any_more(
    server: Left, point: str
) -> None:
    test_a_client_of_grpc_that_leaves_is_not_counted_any_more(server, point)


@pytest.mark.parametrize("server", list(SERVERS)[2:], indirect=True)
@pytest.mark.parametrize("point", [*IDLE_GRPC, "a call is worked on"])
def test_a_client_of_grpc_that_leaves_other_servers_is_not_counted_any_more(
    server: Left, point: str
) -> None:
    test_a_client_of_grpc_that_leaves_is_not_counted_any_more(server, point)


@pytest.mark.parametrize("server", ENCRYPTED, indirect=True)
@pytest.mark.parametrize("point", HANDSHAKE)
def test_a_client_that_leaves_its_handshake_is_not_counted_any_more(
    server: Left, point: str
) -> None:
    for port in (server.rest_port, server.port):
        for leave in (close, reset):
            leaves(server.client(HANDSHAKE[point], port), server, leave)


@pytest.mark.parametrize("server", ["plain", "one port"], indirect=True)
def test_one_that_closes_while_it_waits_has_left(server: Left) -> None:
    client = server.client([(post("waiting"), b"")], server.rest_port)
    until(lambda: server.gauges("in_flight_requests") == [1])
    heard = time.monotonic()
    until(lambda: time.monotonic() - heard > INPUT_END_S)
    client.close()
    until(server.is_left, LEFT_S)


@pytest.mark.parametrize("server", ["plain", "TLS"], indirect=True)
def test_one_that_is_refused_while_it_sends_is_heard_out_and_ended(server: Left) -> None:
    client = server.client(REST["a refused body comes still"], server.rest_port, "http/1.1")
    _hear(client, b"HTTP/1.1 413 ")
    for _ in range(5):
        client.sendall(bytes(100_000))
    until(server.is_left, ENDED_S)
    client.close()


def everyone(server: Left) -> Iterator[tuple[socket.socket, Leave]]:
    """Connect one for each point and each way to leave; give it with that way."""
    points = [
        *((REST[name], server.rest_port, "http/1.1", leave_at(server, name)) for name in REST),
        *((steps, server.port, "h2", LEAVE) for steps in GRPC.values()),
    ]
    if server.is_encrypted:
        for port in (server.rest_port, server.port):
            points += ((steps, port, "", (close, reset)) for steps in HANDSHAKE.values())
    for steps, port, protocol, ways in points:
        for leave in ways:
            yield server.client(steps, port, protocol), leave


@pytest.mark.parametrize("kind", on("TLS"))
def test_no_stop_waits_for_those_that_have_left(tmp_path: Path, kind: str) -> None:
    with closing(start(tmp_path, kind)) as server:
        for client, leave in everyone(server):
            leave(client)
        server.send(signal.SIGTERM)
        assert server.exit_code(STOP_S) == 0
    assert "eof_received" not in server.log  # a warning of the event loop


@pytest.mark.parametrize("kind", on("plain"))
def test_no_stop_waits_for_those_that_leave_meanwhile(tmp_path: Path, kind: str) -> None:
    with closing(start(tmp_path, kind)) as server:
        clients = [*everyone(server)]
        server.send(signal.SIGTERM)
        server.line("server stops")
        for client, leave in clients:
            leave(client)
        assert server.exit_code(STOP_S) == 0


@pytest.mark.parametrize("kind", on("plain", [*SERVERS][:4]))
def test_no_stop_waits_for_idle_ones_to_leave(tmp_path: Path, kind: str) -> None:
    """They read nothing, so that they neither see that the server ends nor say so.

    The library of grpcio waits for such ones as long as the drain may take.
    """
    with closing(start(tmp_path, kind)) as server:
        clients = [
            *(server.client(REST[point], server.rest_port, "http/1.1") for point in IDLE_REST),
            *(server.client(GRPC[point], server.port, "h2") for point in IDLE_GRPC),
        ]
        server.send(signal.SIGTERM)
        assert server.exit_code(STOP_S) == 0
        for client in clients:
            client.close()

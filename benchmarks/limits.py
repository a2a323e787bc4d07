"""The limits of the wire: how fast the same bytes go through when nothing is computed.

One child process answers both ways: over a bare TCP connection, and by gRPC's own core (the
package `grpcio`, a generic method without a codec). It answers as many bytes as the model's outputs
have, whatever was sent. What a server with the engine reaches is told beside these.
"""

import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import grpc

from benchmarks.calls import Call
from benchmarks.generators import h2load
from benchmarks.load import HOST, LARGEST, Sample
from benchmarks.quick import grpc_client

SIZES = struct.Struct("<QQ")
"""Before each request over TCP: its bytes, and those of the reply."""
THREADS = 4


@dataclass(frozen=True)
class Exchange:
    """A request and the number of bytes that answer it."""

    body: bytes
    reply_bytes: int

    @property
    def call(self) -> Call:
        """The same over gRPC; the method's name tells the reply's size."""
        return Call(f"/limits.Echo/{self.reply_bytes}", self.body, lambda reply: {})


def measured(exchange: Exchange, seconds: float) -> dict[str, float]:
    """Give the exchanges a second by each limit, one at a time."""
    with _echo() as (tcp_port, grpc_port):
        return {
            "TCP echo": tcp(tcp_port, exchange, seconds).rps,
            "gRPC's core, no inference": h2load(grpc_port, exchange.call, 1, seconds).rps,
            "gRPC's core, no inference, Python client": grpc_client(
                grpc_port, exchange.call, 1, seconds
            ).rps,
        }


def tcp(port: int, exchange: Exchange, seconds: float) -> Sample:
    """Exchange over one bare connection for `seconds`."""
    latencies: list[float] = []
    reply = bytearray(exchange.reply_bytes)
    with socket.create_connection((HOST, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        started = now = time.perf_counter()
        while now < started + seconds:
            connection.sendall(SIZES.pack(len(exchange.body), exchange.reply_bytes))
            connection.sendall(exchange.body)
            _read(connection, memoryview(reply))
            before, now = now, time.perf_counter()
            latencies.append(now - before)
    return Sample.of(now - started, latencies)


@contextmanager
def _echo() -> Iterator[tuple[int, int]]:
    """Run the child process; give its ports for TCP and gRPC."""
    child = subprocess.Popen(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdin and child.stdout
        tcp_port, grpc_port = map(int, child.stdout.readline().split())
        yield tcp_port, grpc_port
        child.stdin.close()


def _read(connection: socket.socket, into: memoryview) -> None:
    """Fill `into`. Raises: EOFError, where the other side ends before."""
    while into:
        got = connection.recv_into(into)
        if not got:
            raise EOFError("the connection ended within a message")
        into = into[got:]


def _serve_tcp(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            try:
                _answer(connection)
            except EOFError:
                continue


def _answer(connection: socket.socket) -> None:
    sizes = bytearray(SIZES.size)
    request = bytearray()
    while True:
        _read(connection, memoryview(sizes))
        request_bytes, reply_bytes = SIZES.unpack(sizes)
        if len(request) != max(request_bytes, reply_bytes):
            request = bytearray(max(request_bytes, reply_bytes))
        _read(connection, memoryview(request)[:request_bytes])
        connection.sendall(memoryview(request)[:reply_bytes])


class _Echo(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types of its own
    """Answers every method with as many bytes as its name says."""

    def __init__(self) -> None:
        self._replies: dict[str, bytes] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(
            partial(self._reply, handler_call_details.method)
        )

    def _reply(self, method: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        if method not in self._replies:
            self._replies[method] = bytes(int(method.rpartition("/")[2]))
        return self._replies[method]


def main() -> None:
    """Serve until the standard input ends."""
    listener = socket.create_server((HOST, 0))
    threading.Thread(target=_serve_tcp, args=(listener,), daemon=True).start()
    server = grpc.server(futures.ThreadPoolExecutor(THREADS), options=LARGEST)
    server.add_generic_rpc_handlers((_Echo(),))
    grpc_port = server.add_insecure_port(f"{HOST}:0")
    server.start()
    print(listener.getsockname()[1], grpc_port, flush=True)
    sys.stdin.read()
    server.stop(0)


if __name__ == "__main__":
    main()

"""`make walk`: the way of one small request through the server, function by function.

The server's own pieces (`lifecycle.serve` around `ServingApplication`, on uvloop) run in one thread
and a client that speaks raw bytes in another. When the server is warm, `sys.setprofile` writes down
what one request enters. Counted is

- every entry of a function of `ie_serving`; each resumption of a generator or a coroutine is one
  more. Comprehensions and generator expressions are part of the function they are written in, as
  Python 3.12 compiles the former;
- a change of file whenever one entry is in another file than the entry before it, and with it one
  more visit of that file. Returns count for nothing.

From the first byte of the request until the event loop has nothing left to do for it. Busy polling
is off, since its turns depend on time.
"""

import argparse
import asyncio
import logging
import socket
import sys
import tempfile
import textwrap
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType

import hpack
import numpy as np
import orjson
import uvloop

import ie_serving
from benchmarks.calls import tfs_grpc, tfs_rest
from benchmarks.wire import Array
from ie_serving.app.application import ServingApplication
from ie_serving.app.workers import Workers
from ie_serving.config.dialects import ie_serving as dialect
from ie_serving.core.runtime.handover import Handover, Handovers
from ie_serving.server.process.deadly_loads import LoadNotes
from ie_serving.server.process.lifecycle import Orders, serve
from ie_serving.server.process.ports import bind

PROJECT = Path(__file__).resolve().parents[1]
SAMPLE = PROJECT / "examples" / "models" / "digits"
PACKAGE = Path(ie_serving.__file__).parent
DESIGN = PROJECT / "docs" / "design" / "request-path.md"
BEGIN, END = "<!-- walk: begin -->", "<!-- walk: end -->"
HOST = "127.0.0.1"
PATIENCE_S = 30.0
WARM_UP = 20
"""Requests before the one that is followed: caches are filled, latencies learnt."""
REPEATS = 5
"""Requests that are followed. The shortest way counts: a timer may fall into one of them."""
EXPRESSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")
END_STREAM, END_HEADERS, ACK = 0x1, 0x4, 0x1
DATA, HEADERS, SETTINGS = 0x0, 0x1, 0x4

WIDTH = 120
"""Characters of a line of the page at most; longer ones are wrapped."""

Exchange = Callable[[], None]
"""Sends one request and returns when its reply has come."""


@dataclass(frozen=True)
class Entry:
    """One function that was entered.

    Attributes:
        file: relative to the package.
        name: of the function, without its class.
    """

    file: str
    name: str


@dataclass(frozen=True)
class Way:
    """What one request has entered, in order."""

    entries: tuple[Entry, ...]

    @property
    def visits(self) -> list[tuple[str, list[str]]]:
        """Each visit of a file, with the functions that were entered during it."""
        runs = groupby(self.entries, lambda entry: entry.file)
        return [(file, [entry.name for entry in run]) for file, run in runs]

    @property
    def functions(self) -> int:
        """How many entries there were."""
        return len(self.entries)

    @property
    def files(self) -> int:
        """How many files were met."""
        return len({entry.file for entry in self.entries})

    @property
    def changes(self) -> int:
        """How often the next entry was in another file."""
        return len(self.visits) - 1

    @property
    def visits_of(self) -> Counter[str]:
        """How often each file was entered from another."""
        return Counter(file for file, _ in self.visits)

    def page(self) -> str:
        """Write it for people: a line for each visit, then what was met most often."""
        width = max(len(file) for file, _ in self.visits)
        lines = [f"{file:<{width}}  {_repeated(names)}" for file, names in self.visits]
        often = [f"{file} {times}" for file, times in self.visits_of.most_common() if times > 1]
        met = f"met more than once: {', '.join(often) or 'none'}"
        return "\n".join((*lines, textwrap.fill(met, WIDTH, subsequent_indent="    ")))

    def sums(self) -> str:
        """Write how long it is."""
        return f"{self.functions} functions, {self.files} files, {self.changes} changes of file"


def ways() -> dict[str, Way]:
    """Follow one small Predict over each interface, on the sample model."""
    pixels = orjson.loads((PROJECT / "examples" / "digits" / "held_out.json").read_bytes())
    inputs = {"image": np.array(pixels["image"][:1], np.float32)}
    with _running() as server:
        clients = {"REST": _rest(server.rest_port, inputs), "gRPC": _grpc(server.port, inputs)}
        return {interface: server.follow(client) for interface, client in clients.items()}


class Recorder:
    """Writes down entries while it is on, in the thread that turned it on."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._files: dict[CodeType, str | None] = {}

    def start(self) -> None:
        self.entries = []
        sys.setprofile(self._event)

    def stop(self) -> None:
        sys.setprofile(None)

    def _event(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in self._files:
            self._files[code] = _own_file(code)
        file = self._files[code]
        if file and code.co_name not in EXPRESSIONS:
            self.entries.append(Entry(file, code.co_name))


class Server:
    """The server in a thread of its own."""

    def __init__(self, port: int, rest_port: int, argv: list[str]) -> None:
        self.port, self.rest_port = port, rest_port
        self._recorder = Recorder()
        self._ready = threading.Event()
        self._parsed = dialect.parse(argv, {})
        self._thread = threading.Thread(target=lambda: uvloop.run(self._serve()), daemon=True)

    def start(self) -> None:
        self._thread.start()
        if not self._ready.wait(PATIENCE_S):
            raise TimeoutError("the server does not start")

    def stop(self) -> None:
        self._on_loop(self._orders.stop.set)
        self._thread.join(PATIENCE_S)

    def follow(self, exchange: Exchange) -> Way:
        for _ in range(WARM_UP):
            exchange()
        found = []
        for _ in range(REPEATS):
            self._on_loop(self._recorder.start)
            exchange()
            self._on_loop(self._recorder.stop)
            found.append(Way(tuple(self._recorder.entries)))
        return min(found, key=lambda way: way.functions)

    def _on_loop(self, act: Callable[[], None]) -> None:
        """Call `act` on the server's loop, after all that waits there, and wait for it."""
        done = threading.Event()

        def call() -> None:
            act()
            done.set()

        self._loop.call_soon_threadsafe(call)
        if not done.wait(PATIENCE_S):
            raise TimeoutError("the server's event loop does not turn")

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._orders = Orders()
        settings = self._parsed.settings
        notes = LoadNotes({}, Handover().write)
        handovers = Handovers(*(Handover() for _ in Handovers._fields))
        application = ServingApplication(
            settings, self._parsed.storage, handovers, notes, Workers()
        )
        ports = bind(settings.server)
        await serve(application, settings.server, ports, self._orders, self._ready.set)


@contextmanager
def _running() -> Iterator[Server]:
    with ExitStack() as held:
        probes = [held.enter_context(socket.create_server((HOST, 0))) for _ in range(2)]
        port, rest_port = (int(probe.getsockname()[1]) for probe in probes)
    with tempfile.TemporaryDirectory() as scratch:
        server = Server(port, rest_port, _command_line(port, rest_port, scratch))
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _command_line(port: int, rest_port: int, scratch: str) -> list[str]:
    given = {
        "model_name": "digits",
        "model_path": SAMPLE,
        "port": port,
        "rest_port": rest_port,
        "host": HOST,
        "busy_poll_microseconds": 0,
        "drain_delay_seconds": 0,
        "cache_dir": scratch,
    }
    return ["model", *(f"--{name}={value}" for name, value in given.items())]


def _own_file(code: CodeType) -> str | None:
    path = Path(code.co_filename)
    return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else None


def _repeated(names: list[str]) -> str:
    runs = ((name, len(list(run))) for name, run in groupby(names))
    return ", ".join(f"{name} x{times}" if times > 1 else name for name, times in runs)


def _rest(port: int, inputs: Mapping[str, Array]) -> Exchange:
    """A client with one kept connection, which sends the headers that curl sends."""
    call = tfs_rest("digits", inputs)
    head = (
        f"POST {call.path} HTTP/1.1\r\nHost: {HOST}:{port}\r\n"
        "User-Agent: walk\r\nAccept: */*\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(call.body)}\r\n\r\n"
    )
    request = head.encode() + call.body
    connection = socket.create_connection((HOST, port), PATIENCE_S)
    replies = connection.makefile("rb")

    def exchange() -> None:
        connection.sendall(request)
        status, length = replies.readline(), 0
        while (line := replies.readline().lower()) not in (b"\r\n", b""):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        reply = replies.read(length)
        if b" 200 " not in status:
            raise ConnectionError(f"{status!r} {reply!r}")

    return exchange


def _grpc(port: int, inputs: Mapping[str, Array]) -> Exchange:
    """A client with one kept connection, which sends the frames that a gRPC library sends."""
    call = tfs_grpc("digits", inputs)
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": call.path,
        ":authority": f"{HOST}:{port}",
        "te": "trailers",
        "content-type": "application/grpc",
        "user-agent": "walk",
        "grpc-accept-encoding": "identity, deflate, gzip",
    }
    connection = socket.create_connection((HOST, port), PATIENCE_S)
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(SETTINGS, 0, 0, b""))
    connection.sendall(_frame(SETTINGS, ACK, 0, b""))
    replies = connection.makefile("rb")
    encoder, decoder = hpack.Encoder(), hpack.Decoder()
    streams = iter(range(1, 1 << 20, 2))

    def exchange() -> None:
        stream = next(streams)
        block = encoder.encode(headers.items())
        data = b"\0" + len(call.body).to_bytes(4, "big") + call.body
        connection.sendall(
            _frame(HEADERS, END_HEADERS, stream, block) + _frame(DATA, END_STREAM, stream, data)
        )
        fields: dict[str, str] = {}
        while "grpc-status" not in fields:
            kind, payload = _read_frame(replies.read)
            if kind == HEADERS:
                fields.update(dict(decoder.decode(payload)))
        if fields["grpc-status"] != "0":
            raise ConnectionError(f"{fields}")

    return exchange


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big")
    return head + payload


def _read_frame(read: Callable[[int], bytes]) -> tuple[int, bytes]:
    head = read(9)
    if len(head) < 9:
        raise ConnectionError("the server has closed the connection")
    return head[3], read(int.from_bytes(head[:3], "big"))


def fenced(found: str) -> str:
    """Put the page into a block of code; by hand or eagerly, a coroutine begins all the same."""
    return f"\n```\n{found.replace('begin_eagerly', 'begin_unawaited_by_hand')}\n```\n"


def page(found: Mapping[str, Way]) -> str:
    """Write all ways, one below the other."""
    parts = (f"{name} Predict: {way.sums()}\n\n{way.page()}" for name, way in found.items())
    return "\n\n".join(parts)


def documented() -> str:
    """Give the page as docs/design/request-path.md has it."""
    return DESIGN.read_text().split(BEGIN)[1].split(END)[0]


def main() -> None:
    """Print the ways, and write them into docs/design/request-path.md."""
    argparse.ArgumentParser(prog="make walk", description=__doc__).parse_args()
    logging.disable(logging.INFO)
    found = page(ways())
    print(found)
    before, _, rest = DESIGN.read_text().partition(BEGIN)
    DESIGN.write_text(f"{before}{BEGIN}{fenced(found)}{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()

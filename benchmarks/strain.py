"""Measure what should not happen: small requests starved by large ones, or slowed by many models.

The first table times small requests alone and beside a stream of 20 MB JSON bodies. The second
times the same request while 1, 100 and 1,000 models are served and polled once a second. The third
asks a server of one model and one of 1,000 in turns: the ratio of their requests a second. Both
servers are bound to one CPU and the client to another: where the kernel chooses, its choice of a
server's CPU differs for minutes and makes 10 % of a single client's requests a second.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import numpy as np
import psutil
import uvloop

from benchmarks import measure, models, servers
from benchmarks.calls import Call, tfs_grpc, tfs_rest
from benchmarks.engine import Loop
from benchmarks.environments import ROOT
from benchmarks.load import (
    Sample,
    asking_grpc,
    asking_rest,
    load_grpc,
    load_in_turns,
    load_rest,
)
from benchmarks.report import table
from benchmarks.servers import Server, project
from benchmarks.subjects import Question

COUNTS = (1, 100, 1000)
LARGE_ROWS = 250_000
"""Rows of 10 numbers with five decimals: a body of 20 MB."""
CLIENTS = {"gRPC": (load_grpc, tfs_grpc), "REST": (load_rest, tfs_rest)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-strain", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="load for each measurement")
    parser.add_argument("--in-turns", action="store_true", help="print the third table alone")
    given = parser.parse_args()
    models.write(ROOT / "models")
    server = project("working-tree", None)
    if not given.in_turns:
        print(starvation(server, given.seconds), end="\n\n")
        print(crowd(server, given.seconds), end="\n\n")
    print(in_turns(server, given.seconds))


def starvation(server: Server, seconds: float) -> str:
    """Compare small requests alone with small requests beside large ones."""
    rows = []
    with _started(server, 1) as running:
        large = tfs_rest("m0", {"x": _numbers(LARGE_ROWS)})
        for transport, (load, dialect) in CLIENTS.items():
            port = _port(running, transport)
            small = dialect("m0", {"x": _numbers(1)})
            alone = uvloop.run(load(port, small, 1, seconds))
            with _flood(running.target.rest_port, large, seconds + 2):
                beside = uvloop.run(load(port, small, 1, seconds))
            rows += [[f"{transport}, alone", *_times(alone)]]
            rows += [[f"{transport}, beside {len(large.body) >> 20} MB of JSON", *_times(beside)]]
    return table(["small requests, c1", "p50 ms", "p99 ms", "requests/s"], rows)


def crowd(server: Server, seconds: float) -> str:
    """Compare one model's requests while more and more models are served."""
    rows = []
    for count in COUNTS:
        with _started(server, count) as running:
            samples = {
                transport: uvloop.run(
                    load(_port(running, transport), dialect("m0", {"x": _numbers(1)}), 16, seconds)
                )
                for transport, (load, dialect) in CLIENTS.items()
            }
            memory = measure.memory_mb(running.pid)
        rows.append(
            [
                f"{count:,}",
                *(f"{sample.rps:,.0f}" for sample in samples.values()),
                f"{running.ready_s:.1f}",
                f"{memory:.0f}",
            ]
        )
    heads = [f"{transport} c16, requests/s" for transport in CLIENTS]
    return table(["models", *heads, "ready s", "MB"], rows)


def in_turns(server: Server, seconds: float) -> str:
    """Compare the requests of one model on two servers, one of them with many more models."""
    rows = []
    with _started(server, 1) as few, _started(server, COUNTS[-1]) as many, _apart(few, many):
        for transport, (_, dialect) in CLIENTS.items():
            call = dialect("m0", {"x": _numbers(1)})
            ports = [_port(running, transport) for running in (few, many)]
            for concurrency in (1, 16):
                asked = _asked_in_turns(transport, ports, call, concurrency, seconds)
                one, other = (sample.rps for sample in uvloop.run(asked))
                cells = [f"{one:,.0f}", f"{other:,.0f}", f"{other / one:.3f}"]
                rows.append([f"{transport} c{concurrency}", *cells])
    return table(["requests/s, in turns", "1 model", f"{COUNTS[-1]:,} models", "ratio"], rows)


@contextmanager
def _apart(*asked: servers.Running) -> Iterator[None]:
    """Bind servers to the last CPU, and this process to the others, if there are any."""
    cpus = sorted(os.sched_getaffinity(0))
    for each in asked:
        for process in psutil.Process(each.pid).children(recursive=True):
            for thread in process.threads():
                os.sched_setaffinity(thread.id, cpus[-1:])
    os.sched_setaffinity(0, cpus[:-1] or cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cpus)


async def _asked_in_turns(
    transport: str, ports: Sequence[int], call: Call, concurrency: int, seconds: float
) -> list[Sample]:
    async with AsyncExitStack() as stack:
        asks = [
            await stack.enter_async_context(
                asking_grpc(port, call)
                if transport == "gRPC"
                else asking_rest(port, call, concurrency)
            )
            for port in ports
        ]
        return await load_in_turns(asks, concurrency, seconds)


@contextmanager
def _started(server: Server, count: int) -> Iterator[servers.Running]:
    """Start the server with `count` models, all of the same small repository."""
    repository = ROOT / "models" / "dummy"
    inputs = {"x": _numbers(1)}
    question = Question(
        "m0", repository, inputs, Loop(repository / "1" / "model.xml", inputs).outputs()
    )
    entries = [
        {"config": {"name": f"m{index}", "base_path": str(repository)}} for index in range(count)
    ]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch)
        (path / "config.json").write_text(json.dumps({"model_config_list": entries}))
        probe = tfs_rest("m0", inputs)
        target = servers.target("m0", repository, path)
        crowded = Server(server.name, server.install, _serve_config, tfs_grpc, tfs_rest)
        with servers.running(crowded, target, probe, question.judge(probe)) as running:
            yield running


def _serve_config(environment: Path, target: servers.Target) -> list[str]:
    return [
        *(str(environment / "bin" / "ie_serving"), "config"),
        *("--config_path", str(target.scratch / "config.json")),
        *("--port", str(target.grpc_port), "--rest_port", str(target.rest_port)),
    ]


@contextmanager
def _flood(port: int, call: Call, seconds: float) -> Iterator[None]:
    """Send `call` again and again from another process."""
    process = multiprocessing.get_context("spawn").Process(
        target=_send, args=(port, call.path, call.body, seconds)
    )
    process.start()
    try:
        yield
    finally:
        process.join(seconds + 60)
    if process.exitcode:
        raise RuntimeError("the stream of large requests failed")


def _send(port: int, path: str, body: bytes, seconds: float) -> None:
    uvloop.run(load_rest(port, Call(path, body, lambda reply: {}), 1, seconds))


def _port(running: servers.Running, transport: str) -> int:
    target = running.target
    return target.grpc_port if transport == "gRPC" else target.rest_port


def _times(sample: Sample) -> list[str]:
    return [f"{sample.p50_ms:.2f}", f"{sample.p99_ms:.2f}", f"{sample.rps:,.0f}"]


def _numbers(rows: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    values = np.random.default_rng(models.SEED).random((rows, 10), np.float32)
    return np.round(values, 5)


if __name__ == "__main__":
    main()

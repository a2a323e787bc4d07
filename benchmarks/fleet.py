"""Measure many models under a budget of memory that holds few of them, asked as Zipf has it.

A first server loads as many models as are to fit, which tells the budget. A second one, with that
budget, serves all of them on demand. Requests are sent at a rate, whether earlier ones are answered
or not: as Zipf has it, and, in turns with that, to models that are all in memory, which is what
hits are compared with. Every request counts: one that fails ends the run.
"""

import argparse
import asyncio
import http.client
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import psutil
from openvino import opset13 as ops

from benchmarks import servers
from benchmarks.calls import tfs_rest
from benchmarks.fleet_simulation import least_recently_used, predict, zipf
from benchmarks.load import HOST, OK
from benchmarks.report import ratio, spread, table
from benchmarks.servers import Running, project

SEED = 7
WIDTH = 512
"""Of each model's one layer: 1 MB of weights, so that a thousand models are 1 GB."""
LOOK_S = 0.05
"""Seconds between two looks at the resident bytes."""
BODY = json.dumps({"instances": [[0.5] * WIDTH]}).encode()
ALONE_PART = 2
"""Of the measured seconds, one in so many is added for requests to models that are in memory: their
99th percentile needs some thousand requests."""


@dataclass
class Seen:
    """What the clients have seen: order of the models that were asked, and each reply's seconds."""

    asked: list[int] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)


@dataclass(kw_only=True)
class Run:
    """What one run has measured.

    Attributes:
        budget: bytes.
        idle: share of a processor that the server takes while no request comes.
        asked: every model that was asked, in order; those before the first round included.
        counts: metrics of the server, of the rounds as Zipf has it alone.
        alone_ms, hits_ms: of each round, 99th percentile of requests to models in memory alone, and
            beside loads.
    """

    budget: int
    idle: float = 0.0
    asked: list[tuple[int, bool]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    seen: Seen = field(default_factory=Seen)
    alone_ms: list[float] = field(default_factory=list)
    hits_ms: list[float] = field(default_factory=list)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-fleet", description=__doc__)
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--asked", type=int, help="the models that are asked at all (all)")
    parser.add_argument("--held", type=int, default=200, help="models that the budget holds")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=4, help="parts of these seconds")
    parser.add_argument("--rate", type=float, default=20.0, help="requests a second, at random")
    parser.add_argument("--warm", type=int, help="requests before these (four for each held)")
    parser.add_argument("--exponent", type=float, default=1.0, help="of Zipf's law")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        models = write_models(folder, given.models)
        with serving(folder, models, ()) as running:
            ask_each(running, range(given.held))
            run = Run(budget=worker_of(running).memory_info().rss)
        flags = ("--model_memory_budget_bytes", str(run.budget))
        with serving(folder, models, flags) as running:
            run.idle = idle_share(running)
            measure(running, given, run)
    print(report(given, run))


def measure(running: Running, given: argparse.Namespace, run: Run) -> None:
    """Warm up, then measure in rounds."""
    generator = np.random.default_rng(SEED)
    shares = zipf(given.asked or given.models, given.exponent)
    warm = 4 * given.held if given.warm is None else given.warm
    # As fast as four clients get replies: until the budget is full, nothing is measured.
    choices = list(map(int, generator.choice(len(shares), warm, p=shares)))
    asyncio.run(in_turn(running, choices, 4))
    run.asked += [(model, False) for model in choices]
    part_s = given.seconds / given.rounds
    kept = zipf(max(1, given.held // 4), given.exponent)
    for _ in range(given.rounds):
        ask_each(running, range(len(kept)))
        run.asked += [(model, False) for model in range(len(kept))]
        alone = asyncio.run(at_rate(running, kept, given.rate, part_s / ALONE_PART, generator))
        run.asked += [(model, False) for model in alone.asked]
        before = counted(running)
        seen = asyncio.run(at_rate(running, shares, given.rate, part_s, generator))
        counts = counted(running)
        run.asked += [(model, True) for model in seen.asked]
        held = counts.pop("held")
        counts.subtract(before)
        run.counts.update(counts)
        run.counts["held"] = held
        run.seen.asked += seen.asked
        run.seen.took_s += seen.took_s
        run.seen.resident += seen.resident
        run.alone_ms.append(float(np.percentile(alone.took_s, 99)) * 1e3)
        hits, _ = divided(seen.took_s, int(counts["waits"]))
        run.hits_ms.append(float(np.percentile(hits, 99)) * 1e3)


def divided(took_s: Sequence[float], loads: int) -> tuple[Any, Any]:
    """Give the seconds of hits and of requests that waited for a load, which take longest."""
    ordered = np.sort(took_s)
    return ordered[: len(ordered) - loads], ordered[len(ordered) - loads :]


def write_models(folder: Path, count: int) -> Path:
    """Write the repositories, whose files are one file each by hard links; give their directory."""
    x = ops.parameter([-1, WIDTH], np.float32, name="x")
    weights = np.random.default_rng(SEED).random((WIDTH, WIDTH), np.float32)
    y = ops.matmul(x, ops.constant(weights), False, False)
    y.output(0).set_names({"y"})
    ov.save_model(ov.Model([y], [x]), folder / "model.xml", compress_to_fp16=False)
    models = folder / "models"
    for number in range(count):
        version = models / f"m{number}" / "1"
        version.mkdir(parents=True)
        for name in ("model.xml", "model.bin"):
            (version / name).hardlink_to(folder / name)
    return models


@contextmanager
def serving(folder: Path, models: Path, flags: Sequence[str]) -> Iterator[Running]:
    """Serve every model on demand."""

    def command(environment: Path, target: servers.Target) -> list[str]:
        return [
            *(str(environment / "bin" / "ie_serving"), "config", "--model_repository", str(models)),
            *("--load", "on_demand", "--port", "0", "--rest_port", str(target.rest_port)),
            *("--inference_precision", "f32", "--log_level", "WARNING", *flags),
            *("--cache_dir", str(folder / "cache")),
        ]

    tree = project("working-tree", None)
    server = servers.Server(tree.name, tree.install, command, None, tfs_rest)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        target = servers.target("m0", folder / "models" / "m0", Path(scratch))
        call = tfs_rest("m0", {"x": np.full((1, WIDTH), 0.5, np.float32)})
        with servers.running(server, target, call, lambda reply: None) as running:
            yield running


def worker_of(running: Running) -> psutil.Process:
    """Give the process that has the models: the arbiter's only child."""
    return psutil.Process(running.pid).children()[0]


def ask_each(running: Running, models: Sequence[int]) -> None:
    """Ask models in turn."""
    asyncio.run(in_turn(running, models, 1))


async def in_turn(running: Running, models: Sequence[int], clients: int) -> None:
    """Ask models in turn, with so many requests at once."""
    connections, rest = Connections(running.target.rest_port), iter(models)

    async def client() -> None:
        for model in rest:
            await connections.ask(model)

    await asyncio.gather(*(client() for _ in range(clients)))
    connections.close()


class Connections:
    """Connections to the server, as many as requests are under way at once."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, model: int) -> float:
        """Ask one model; give the seconds that its reply took. Raises: SystemExit."""
        reader, writer = await self._connection()
        path = f"/v1/models/m{model}:predict"
        head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(BODY)}\r\n\r\n"
        began = time.perf_counter()
        writer.write(head.encode() + BODY)
        reply = await reader.readuntil(b"\r\n\r\n")
        lines = (line.partition(b":") for line in reply.lower().split(b"\r\n"))
        length = next(int(value) for name, _, value in lines if name == b"content-length")
        body = await reader.readexactly(length)
        took_s = time.perf_counter() - began
        if not reply.startswith(OK):
            raise SystemExit(f"a request failed: m{model}: {reply!r} {body[:300]!r}")
        self._free.append((reader, writer))
        return took_s

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._free:
            reader, writer = self._free.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()  # the server closes connections that are idle for a minute
        return await asyncio.open_connection(HOST, self._port)

    def close(self) -> None:
        """Close those that are free."""
        for _, writer in self._free:
            writer.close()


async def at_rate(
    running: Running, shares: Any, rate: float, seconds: float, generator: np.random.Generator
) -> Seen:
    """Ask models by their shares, at random times, whether earlier requests are answered or not."""
    seen, connections, asking = Seen(), Connections(running.target.rest_port), set()
    process = worker_of(running)

    async def one(model: int) -> None:
        seen.took_s.append(await connections.ask(model))

    async def look() -> None:
        while True:
            seen.resident.append(process.memory_info().rss)
            await asyncio.sleep(LOOK_S)

    with first_of_all():
        looking = asyncio.create_task(look())
        end = due = time.perf_counter()
        end += seconds
        while (due := due + generator.exponential(1 / rate)) < end:
            await asyncio.sleep(due - time.perf_counter())
            model = int(generator.choice(len(shares), p=shares))
            seen.asked.append(model)
            asking.add(asyncio.create_task(one(model)))
        await asyncio.gather(*asking)
        looking.cancel()
    connections.close()
    return seen


@contextmanager
def first_of_all() -> Iterator[None]:
    """Never wait for a CPU, as a client on another machine, where this process is allowed to."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def idle_share(running: Running, seconds: float = 5.0) -> float:
    """Give the share of a processor that the server takes while nobody asks."""
    process = worker_of(running)
    before = _spent_s(process)
    time.sleep(seconds)
    return (_spent_s(process) - before) / seconds


def _spent_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def counted(running: Running) -> Counter[str]:
    """Sum the metrics of models loaded on demand over all models; count those in memory."""
    connection = http.client.HTTPConnection(HOST, running.target.rest_port)
    connection.request("GET", "/metrics")
    totals: Counter[str] = Counter()
    for line in connection.getresponse().read().decode().splitlines():
        value = line.rpartition(" ")[2]
        for name in ("requests", "waits", "unloads"):
            if line.startswith(f"ie_serving_on_demand_{name}_total{{"):
                totals[name] += int(float(value))
        if line.startswith("ie_serving_versions{") and 'state="AVAILABLE"' in line:
            totals["held"] += int(float(value))
    return totals


def report(given: argparse.Namespace, run: Run) -> str:
    """Tabulate."""
    seen, waits = run.seen, run.counts["waits"]
    requests, held = len(seen.asked), run.counts["held"]
    hits_s, loads_s = divided(seen.took_s, waits)
    guess = predict(
        zipf(given.asked or given.models, given.exponent),
        replicas=1,
        held=held,
        by_hash=False,
        requests_per_second=requests / given.seconds,
        load_ms=float(np.mean(loads_s) * 1e3) if waits else 1.0,
        service_ms=float(np.mean(hits_s) * 1e3),
    )
    rows = [
        ["requests, all answered", f"{requests}, {requests / given.seconds:.0f} a second"],
        ["loads a second", f"{waits / given.seconds:.1f}"],
        ["loads a second, predicted", f"{guess.loads_per_second:.1f}"],
        ["budget, MB", f"{run.budget / 1e6:.0f}"],
        ["most resident bytes of it", f"{max(seen.resident) / run.budget:.3f}"],
        ["models in memory at the end", str(held)],
        ["hits", f"{1 - waits / run.counts['requests']:.4f}"],
        [f"hits, predicted for {held} models", f"{guess.hits:.4f}"],
        [f"hits of an LRU of {given.held}", f"{_lru(run, given.held):.4f}"],
        [f"hits of an LRU of {held}", f"{_lru(run, held):.4f}"],
        ["p99 of all, ms", f"{np.percentile(seen.took_s, 99) * 1e3:.0f}"],
        ["p99 of all, ms, predicted", f"{guess.p99_ms:.0f}"],
        ["p50 of hits, ms", f"{np.percentile(hits_s, 50) * 1e3:.2f}"],
        ["p99 of hits, ms", spread(run.hits_ms, 2)],
        ["p99 of models in memory, alone, ms", spread(run.alone_ms, 2)],
        ["their ratio", ratio(run.hits_ms, run.alone_ms)],
        ["p50, p99 of loads, ms", _percentiles(loads_s)],
        ["processor share while idle", f"{run.idle:.3f}"],
    ]
    return table([f"{given.models} models, Zipf {given.exponent}", ""], rows)


def _lru(run: Run, held: int) -> float:
    models, counts = zip(*run.asked, strict=True)
    return least_recently_used(models, held, counts)


def _percentiles(took_s: Any) -> str:
    if not len(took_s):
        return "-"
    return f"{np.percentile(took_s, 50) * 1e3:.0f}, {np.percentile(took_s, 99) * 1e3:.0f}"


if __name__ == "__main__":
    main()

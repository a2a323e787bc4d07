"""Measure many models under a budget of memory that holds few of them, asked as Zipf has it.

A first server loads as many models as are to fit, which tells the budget. A second one, with that
budget, serves all of them on demand. Every request counts: one that fails ends the run.
"""

import argparse
import http.client
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import openvino as ov
import psutil
from openvino import opset13 as ops

from benchmarks import servers
from benchmarks.calls import tfs_rest
from benchmarks.fleet_simulation import least_recently_used, predict, zipf
from benchmarks.load import HOST
from benchmarks.report import table
from benchmarks.servers import Running, project

SEED = 7
CHOICES = 4_000_000
"""Of each client: more than it asks for in the ten minutes of the longest run."""
WIDTH = 512
"""Of each model's one layer: 1 MB of weights, so that a thousand models are 1 GB."""
LOOK_S = 0.05
"""Seconds between two looks at the resident bytes."""
BODY = json.dumps({"instances": [[0.5] * WIDTH]})


@dataclass
class Seen:
    """What the clients have seen: order of the models that were asked, and each reply's seconds."""

    asked: list[int] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    failed: list[str] = field(default_factory=list)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-fleet", description=__doc__)
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--asked", type=int, help="the models that are asked at all (all)")
    parser.add_argument("--held", type=int, default=200, help="models that the budget holds")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warm_seconds", type=float, default=10.0, help="before these")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--exponent", type=float, default=1.0, help="of Zipf's law")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        models = write_models(folder, given.models)
        with serving(folder, models, ()) as running:
            ask_each(running, range(given.held))
            budget = worker_of(running).memory_info().rss
            alone_s = np.percentile(ask_each(running, [0] * 2000), 99)
        flags = ("--model_memory_budget_bytes", str(budget))
        with serving(folder, models, flags) as running:
            idle = idle_share(running)
            warm = ask_as_zipf(running, given, given.warm_seconds, seed=1000)
            before = counted(running)
            seen = ask_as_zipf(running, given, given.seconds, seed=0)
            counts = counted(running)
            for name in ("requests", "waits", "unloads"):
                counts[name] -= before[name]
    print(report(given, budget, (warm, seen), counts, float(alone_s), idle))


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


def ask(connection: http.client.HTTPConnection, model: int) -> float:
    """Ask one model; give the seconds that its reply took. Raises: RuntimeError."""
    began = time.perf_counter()
    connection.request("POST", f"/v1/models/m{model}:predict", BODY)
    reply = connection.getresponse()
    body = reply.read()
    if reply.status != 200:
        raise RuntimeError(f"m{model}: {reply.status} {body[:300]!r}")
    return time.perf_counter() - began


def ask_each(running: Running, models: Sequence[int]) -> list[float]:
    """Ask models in turn."""
    connection = http.client.HTTPConnection(HOST, running.target.rest_port)
    return [ask(connection, model) for model in models]


def idle_share(running: Running, seconds: float = 5.0) -> float:
    """Give the share of a processor that the server takes while nobody asks."""
    process = worker_of(running)
    before = _spent_s(process)
    time.sleep(seconds)
    return (_spent_s(process) - before) / seconds


def _spent_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def ask_as_zipf(running: Running, given: argparse.Namespace, seconds: float, *, seed: int) -> Seen:
    """Let clients ask models by rank, the first most often."""
    seen, end = Seen(), time.monotonic() + seconds
    shares = zipf(given.asked or given.models, given.exponent)

    def client(seed: int) -> None:
        generator = np.random.default_rng(seed)
        choices = generator.choice(len(shares), CHOICES, p=shares)
        connection = http.client.HTTPConnection(HOST, running.target.rest_port)
        for model in map(int, choices):
            if time.monotonic() > end or seen.failed:
                return
            with seen.lock:
                seen.asked.append(model)
            try:
                seen.took_s.append(ask(connection, model))
            except (RuntimeError, OSError) as error:
                seen.failed.append(str(error))

    clients = [
        threading.Thread(target=client, args=(seed + number,)) for number in range(given.clients)
    ]
    for each in clients:
        each.start()
    process = worker_of(running)
    while any(each.is_alive() for each in clients):
        seen.resident.append(process.memory_info().rss)
        time.sleep(LOOK_S)
    if seen.failed:
        raise SystemExit(f"a request failed: {seen.failed[0]}")
    return seen


def counted(running: Running) -> dict[str, float]:
    """Sum the metrics of models loaded on demand over all models; count those in memory."""
    connection = http.client.HTTPConnection(HOST, running.target.rest_port)
    connection.request("GET", "/metrics")
    totals = dict.fromkeys(("requests", "waits", "unloads", "held"), 0.0)
    for line in connection.getresponse().read().decode().splitlines():
        value = line.rpartition(" ")[2]
        for name in ("requests", "waits", "unloads"):
            if line.startswith(f"ie_serving_on_demand_{name}_total{{"):
                totals[name] += float(value)
        if line.startswith("ie_serving_versions{") and 'state="AVAILABLE"' in line:
            totals["held"] += float(value)
    return totals


def report(
    given: argparse.Namespace,
    budget: int,
    runs: tuple[Seen, Seen],
    counts: dict[str, float],
    alone_s: float,
    idle: float,
) -> str:
    """Tabulate."""
    warm, seen = runs
    asked, skipped = warm.asked + seen.asked, len(warm.asked)
    requests = len(seen.asked)
    hits = 1 - counts["waits"] / counts["requests"]
    took = np.sort(seen.took_s)[: int(requests * hits)]  # loads take longest
    held = int(counts["held"])
    loads_s = np.sort(seen.took_s)[len(took) :]
    guess = predict(
        zipf(given.asked or given.models, given.exponent),
        replicas=1,
        held=held,
        by_hash=False,
        requests_per_second=requests / given.seconds,
        load_ms=float(np.mean(loads_s) * 1e3) if len(loads_s) else 1.0,
        service_ms=float(np.mean(took) * 1e3),
    )
    rows = [
        ["requests, all answered", f"{requests}, {requests / given.seconds:.0f} a second"],
        ["loads a second", f"{counts['waits'] / given.seconds:.1f}"],
        ["loads a second, predicted", f"{guess.loads_per_second:.1f}"],
        ["budget, MB", f"{budget / 1e6:.0f}"],
        ["most resident bytes of it", f"{max(seen.resident) / budget:.3f}"],
        ["models in memory at the end", str(held)],
        ["hits", f"{hits:.4f}"],
        [f"hits, predicted for {held} models", f"{guess.hits:.4f}"],
        [
            f"hits of an LRU of {given.held}",
            f"{least_recently_used(asked, given.held, skipped):.4f}",
        ],
        [f"hits of an LRU of {held}", f"{least_recently_used(asked, held, skipped):.4f}"],
        ["p99 of all, ms", f"{np.percentile(seen.took_s, 99) * 1e3:.0f}"],
        ["p99 of all, ms, predicted", f"{guess.p99_ms:.0f}"],
        ["p99 of hits, ms", f"{np.percentile(took, 99) * 1e3:.2f}"],
        ["p99 of one model alone, ms", f"{alone_s * 1e3:.2f}"],
        ["p50, p99 of loads, ms", _percentiles(seen.took_s, len(took))],
        ["processor share while idle", f"{idle:.3f}"],
    ]
    return table([f"{given.models} models, Zipf {given.exponent}", ""], rows)


def _percentiles(took_s: Sequence[float], hits: int) -> str:
    loads = np.sort(took_s)[hits:] * 1e3
    return f"{np.percentile(loads, 50):.0f}, {np.percentile(loads, 99):.0f}" if len(loads) else "-"


if __name__ == "__main__":
    main()

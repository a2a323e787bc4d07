"""Measure kernels: processes beside threads, batches, instances, and what one that hangs costs.

So are hooks, and graphs of two models. One server has all of them; every figure is a ratio, or a
count, within one run.
"""

import argparse
import asyncio
import json
import re
import subprocess
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import grpc
import numpy as np
import openvino as ov

from benchmarks import models, servers
from benchmarks.calls import Call, tfs_grpc, tfs_rest
from benchmarks.environments import PROJECT, ROOT
from benchmarks.load import HOST, LARGEST, ask_grpc, load_grpc
from benchmarks.report import ratio, spread, table
from benchmarks.servers import Running, Server, Target, project

CLIENTS = 32
PATIENCE_S = 60.0
TURNS = 8
"""Stretches of a round, every second one with calls that hang: other work hurts both alike."""
HANGS_MS = 500
WARM_S = 1.0
"""Load before a measurement, in seconds."""
CODE = """
import os, threading, time
import numpy as np

NUMBERS = {"dtype": "float32", "shape": [-1]}

class Same:
    def metadata(self):
        return {"inputs": {"x": NUMBERS}, "outputs": {"y": NUMBERS}}

class Adds(Same):
    def execute(self, inputs):
        return {"y": inputs["x"] + np.float32(1)}

class Works(Same):
    def execute(self, inputs):
        time.sleep(0.005)
        return {"y": inputs["x"]}

class Hangs(Same):
    def execute(self, inputs):
        if inputs["x"][0] > 0:
            threading.Event().wait()
        return {"y": inputs["x"]}

class Batches(Same):
    batches = calls = 0
    def execute_batch(self, calls):
        time.sleep(0.002)
        self.batches += 1
        self.calls += len(calls)
        return [np.float32([self.batches, self.calls])] * len(calls)
"""
PROCESS = {"isolation": "process"}
HOOKS = """
def preprocess(inputs, ctx):
    return inputs

def postprocess(outputs, ctx):
    return outputs
"""
MODELS: dict[str, dict[str, Any]] = {
    "plain": {},
    "hooked": {"hooks": "hooks.py"},
    "inline": {"kernel": "kernel.py:Adds", "isolation": "inline"},
    "thread": {"kernel": "kernel.py:Adds"},
    "process": {"kernel": "kernel.py:Adds", **PROCESS},
    "batches": {"kernel": "kernel.py:Batches", "max_batch_size": 64},
    "elastic": {
        "kernel": "kernel.py:Works",
        **PROCESS,
        "instances": {"min": 1, "max": 3, "idle_seconds": 1},
    },
    "hangs": {"kernel": "kernel.py:Hangs", "max_concurrency": 4, "timeout_ms": HANGS_MS},
    "hangs_apart": {"kernel": "kernel.py:Hangs", **PROCESS, "timeout_ms": HANGS_MS},
}
LAYERS = (1, 6, 12, 24, 64)
"""Sizes of the models in graphs, about 15 us to 1 ms each."""
CHAIN: dict[str, Any] = {
    "steps": {
        "first": {"model": "a", "in": {"x": "request.x"}},
        "last": {"model": "b", "in": {"x": "first.y"}},
    },
    "outputs": {"y": "last.y"},
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-kernels", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="load for each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--installed", type=Path, help="environment that has the server already")
    given = parser.parse_args()
    server = project("working-tree", None)
    if given.installed:
        server = replace(server, install=cache(given.installed.absolute))
    with tempfile.TemporaryDirectory() as scratch, _started(server, Path(scratch)) as running:
        asyncio.run(_measure(server, running.target, given.rounds, given.seconds))


async def _measure(server: Server, target: Target, rounds: int, seconds: float) -> None:
    await _hooks(target, rounds, seconds)
    await _graphs(server, target, rounds, seconds)
    await _large(target, rounds, seconds)
    await _hanging(target, rounds, seconds)
    print(f"mean batch of {CLIENTS} clients: {await _mean_batch(target, seconds):.1f}")
    print(f"processes under load and after: {await _elastic(target, seconds)}, no call failed")


async def _hooks(target: Target, rounds: int, seconds: float) -> None:
    """One client, a small model: how much longer does a request take with empty hooks around it?"""
    x = np.ones((1, 10), np.float32)
    calls = {name: tfs_grpc(name, {"x": x}) for name in ("plain", "hooked")}
    seen: list[tuple[float, float, float]] = []
    async with grpc.aio.insecure_channel(f"{HOST}:{target.grpc_port}") as channel:
        await _in_turns(channel, calls, WARM_S)  # hooks begin in threads
        for _ in range(rounds):
            plain, hooked = (await _in_turns(channel, calls, seconds)).values()
            # By pairs: a spell in which all takes twice as long is in both, and in no difference.
            more = np.subtract(hooked, plain)
            seen.append((median(plain), median(hooked), float(np.median(more))))
    us = [[1e3 * ms for ms in column] for column in zip(*seen, strict=True)]
    row = [spread(us[0]), spread(us[1]), spread(us[2], 1), ratio(us[2], us[0])]
    heads = ["p50 us, plain", "empty hooks", "more, by pairs", "of plain"]
    print(table(heads, [row]), end="\n\n")


async def _graphs(server: Server, target: Target, rounds: int, seconds: float) -> None:
    """Two models one after the other: how much longer does a graph of them take?"""
    python = server.install() / "bin" / "python"
    rows = []
    for layers in LAYERS:
        two, one, more = _in_process(python, target.scratch, layers, rounds, seconds / 2)
        asked = await _over_grpc(target, layers, rounds, seconds / 2)
        rows.append(
            [
                *(f"{median(two) / 2:,.0f} us", spread(two), spread(one), spread(more, 1)),
                *(ratio(one, two), spread(asked[0]), spread(asked[1]), ratio(asked[1], asked[0])),
            ]
        )
    process = ["two calls, us", "graph", "more, by pairs", "ratio"]
    heads = ["models of", *process, "gRPC: two requests, us", "graph", "ratio"]
    print(table(heads, rows), end="\n\n")


def _in_process(
    python: Path, scratch: Path, layers: int, rounds: int, seconds: float
) -> list[list[float]]:
    """Give, round by round, the microseconds of two calls, of the graph, and of the difference."""
    options = {"shape": (1, models.WIDTH), "rounds": (rounds,), "seconds": (seconds,)}
    command = [
        *(str(python), str(PROJECT / "benchmarks" / "graph_steps.py")),
        *(str(scratch / f"dense{layers}" / "1"), json.dumps(CHAIN)),
        *(word for name, each in options.items() for word in (f"--{name}", *map(str, each))),
    ]
    found = subprocess.run(command, cwd=scratch, check=True, capture_output=True, text=True)
    columns = zip(*json.loads(found.stdout.splitlines()[-1]), strict=True)
    return [list(column) for column in columns]


async def _over_grpc(
    target: Target, layers: int, rounds: int, seconds: float
) -> tuple[list[float], list[float]]:
    """Give, round by round, the microseconds of two requests, and of one to the graph."""
    x = np.ones((1, models.WIDTH), np.float32)
    calls = {name: tfs_grpc(f"{name}{layers}", {"x": x}) for name in ("a", "b", "graph")}
    two, one = [], []
    async with grpc.aio.insecure_channel(f"{HOST}:{target.grpc_port}") as channel:
        await _in_turns(channel, calls, WARM_S)
        for _ in range(rounds):
            ms = await _in_turns(channel, calls, seconds)
            two.append(1e3 * float(np.median(np.add(ms["a"], ms["b"]))))
            one.append(1e3 * float(np.median(ms["graph"])))
    return two, one


async def _large(target: Target, rounds: int, seconds: float) -> None:
    """4 MB in, 4 MB out, one client: how much more does a process take than a thread?"""
    x = np.ones(1 << 20, np.float32)
    calls = {name: tfs_grpc(name, {"x": x}) for name in ("inline", "thread", "process")}
    seen: dict[str, list[float]] = {name: [] for name in calls}
    async with grpc.aio.insecure_channel(f"{HOST}:{target.grpc_port}", options=LARGEST) as channel:
        for _ in range(rounds):
            ms = await _in_turns(channel, calls, seconds)
            for name, several in ms.items():
                seen[name].append(float(np.median(several)))
    rows = [[name, spread(ms, 2), ratio(ms, seen["inline"])] for name, ms in seen.items()]
    print(table(["4 MB in and out", "p50 ms", "of inline"], rows), end="\n\n")


async def _in_turns(
    channel: grpc.aio.Channel, calls: dict[str, Call], seconds: float
) -> dict[str, list[float]]:
    """Ask one after the other, again and again: whatever else the machine does hurts all alike.

    To and fro, since a request right after one of another model may take longer than its own work.
    """
    ms: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls.items())
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, call in order:
            began = time.perf_counter()
            await channel.unary_unary(call.path)(call.body, timeout=PATIENCE_S)
            ms[name].append((time.perf_counter() - began) * 1e3)
        order.reverse()
    return ms


async def _hanging(target: Target, rounds: int, seconds: float) -> None:
    """How long do requests of a neighbour take while calls of other kernels hang?"""
    rows = []
    for other in ("hangs", "hangs_apart"):
        seen: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(rounds):
            ms: dict[bool, list[float]] = {False: [], True: []}
            for turn in range(TURNS):
                hangs = bool(turn % 2)
                ms[hangs] += await _beside(target, other, hangs, 2 * seconds / TURNS)
            for hangs, several in ms.items():
                seen[hangs].append(float(np.percentile(several, 99)))
        cells = [spread(seen[False], 2), spread(seen[True], 2), ratio(seen[True], seen[False])]
        rows.append([other, *cells])
    print(table(["p99 ms of a neighbour", "alone", "beside", "ratio"], rows), end="\n\n")


async def _beside(target: Target, other: str, hangs: bool, seconds: float) -> list[float]:
    """Give the milliseconds of small requests, one after the other."""
    over = asyncio.Event()
    beside = asyncio.ensure_future(_hang(target, other, over)) if hangs else None
    small = {"small": tfs_grpc("thread", {"x": np.ones(4, np.float32)})}
    async with grpc.aio.insecure_channel(f"{HOST}:{target.grpc_port}") as channel:
        found = await _in_turns(channel, small, seconds)
    over.set()
    if beside is not None:
        await beside
    return found["small"]


async def _hang(target: Target, model: str, over: asyncio.Event) -> None:
    """Ask for what hangs, again and again."""
    call = tfs_grpc(model, {"x": np.ones(4, np.float32)})
    async with grpc.aio.insecure_channel(f"{HOST}:{target.grpc_port}") as channel:
        method = channel.unary_unary(call.path)
        while not over.is_set():
            try:
                await method(call.body, timeout=PATIENCE_S)
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.1)


async def _mean_batch(target: Target, seconds: float) -> float:
    call = tfs_grpc("batches", {"x": np.ones(4, np.float32)})

    async def counts() -> Any:
        return call.decode(await ask_grpc(target.grpc_port, call))["y"]

    before = await counts()
    await load_grpc(target.grpc_port, call, CLIENTS, seconds)
    batches, calls = await counts() - before
    return float(calls / batches)


async def _elastic(target: Target, seconds: float) -> list[int]:
    """Load, which fails where a call does, then wait; give how many there were, in order."""
    call = tfs_grpc("elastic", {"x": np.ones(4, np.float32)})
    await load_grpc(target.grpc_port, call, 8, 2 * seconds)
    end = time.perf_counter() + PATIENCE_S
    found: list[int] = []
    while time.perf_counter() < end and found[-1:] != [1]:
        await load_grpc(target.grpc_port, call, 1, 0.5)
        log = (target.scratch / "log.txt").read_text()
        found = [int(n) for n in re.findall(r"kernel instances changed.* instances=(\d+)", log)]
    return [1, *found]


@contextmanager
def _started(server: Server, scratch: Path) -> Iterator[Running]:
    """Serve all kernels."""
    for name in MODELS:
        version = scratch / name / "1"
        version.mkdir(parents=True)
        (version / "kernel.py").write_text(textwrap.dedent(CODE))
    for name in ("plain", "hooked"):
        ov.save_model(models.dummy(), scratch / name / "1" / "model.xml", compress_to_fp16=False)
        (scratch / name / "1" / "hooks.py").write_text(HOOKS)
    entries = [
        {"config": {"name": n, "base_path": str(scratch / n), **own}} for n, own in MODELS.items()
    ]
    graphs = []
    for layers in LAYERS:
        folder = scratch / f"dense{layers}"
        dense = models.dense(layers)
        ov.save_model(dense, folder / "1" / "model.xml", compress_to_fp16=False)
        names = {name: f"{name}{layers}" for name in ("a", "b")}
        entries += [{"config": {"name": n, "base_path": str(folder)}} for n in names.values()]
        steps = {n: {**step, "model": names[step["model"]]} for n, step in CHAIN["steps"].items()}
        graphs.append({**CHAIN, "name": f"graph{layers}", "steps": steps})
    config = {"model_config_list": entries, "graphs": graphs}
    (scratch / "config.json").write_text(json.dumps(config))
    probe = tfs_rest("thread", {"x": np.ones(2, np.float32)})

    def right(reply: bytes) -> None:
        probe.check(reply, {"y": np.full(2, 2.0)})

    def command(environment: Path, target: Target) -> list[str]:
        return [
            *(str(environment / "bin" / "ie_serving"), "config", "--allow_python"),
            *("--config_path", str(target.scratch / "config.json")),
            *("--port", str(target.grpc_port), "--rest_port", str(target.rest_port)),
        ]

    target = servers.target("thread", ROOT / "models", scratch)
    with servers.running(replace(server, command=command), target, probe, right) as running:
        yield running


if __name__ == "__main__":
    main()

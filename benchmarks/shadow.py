"""Measure what requests feel of a shadow: a version that takes many times as long.

One server has both versions. A steady stream of requests to the first, in turns without a shadow
and with all requests sampled for the second one. The setting is changed without a load.
"""

import argparse
import json
import re
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks import models, servers
from benchmarks.calls import Call, tfs_grpc, tfs_rest
from benchmarks.engine import Loop
from benchmarks.environments import ROOT
from benchmarks.generators import need, steady
from benchmarks.report import ratio, spread, table
from benchmarks.servers import Target, project
from benchmarks.subjects import Question

ALONE, BESIDE = "without a shadow", "with a shadow"
FIGURES = ("p50 ms", "p99 ms", "max ms")
PATIENCE_S = 60.0
SETTLE_S = 2.0
"""Seconds in which a change of the file is taken."""
COUNTED = re.compile(r'^ie_serving_shadow_requests_total\{.*result="(\w+)"\} (\d+)', re.MULTILINE)
COMPARED = ("same", "different")
SHADOW = {"version": 2, "sampling_rate": 1}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-shadow", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="load for each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rps", type=int, default=50, help="requests a second")
    parser.add_argument("--layers", type=int, default=2, help="of the first version")
    parser.add_argument("--times", type=int, default=10, help="as many layers has the shadow")
    parser.add_argument("--transport", choices=("gRPC", "REST"), default="gRPC")
    parser.add_argument(
        "--client-first",
        action="store_true",
        help="let the client never wait for a CPU, as one on another machine; needs root",
    )
    parser.add_argument("--installed", type=Path, help="environment that has the server already")
    given = parser.parse_args()
    need()
    with tempfile.TemporaryDirectory() as folder:
        _run(given, Path(folder))


def _run(given: argparse.Namespace, scratch: Path) -> None:
    for number, times in ((1, 1), (2, given.times)):
        made = models.write_slow(ROOT / f"slow-{given.layers * times}", given.layers * times)
        (scratch / "m").mkdir(exist_ok=True)
        (scratch / "m" / str(number)).symlink_to(made)
    inputs = {"x": np.full((1, 10), 0.5, np.float32)}
    expected = Loop(scratch / "m" / "1" / "model.xml", inputs).outputs()
    question = Question("m", scratch / "m", inputs, expected)
    probe = tfs_rest("m", inputs)
    _configure(scratch, {})

    def command(environment: Path, target: Target) -> list[str]:
        return [
            *(str(environment / "bin" / "ie_serving"), "config"),
            *("--config_path", str(scratch / "config.json")),
            *("--port", str(target.grpc_port), "--rest_port", str(target.rest_port)),
            *("--config_poll_wait_seconds", "0.1"),
        ]

    server = replace(project("working-tree", None), command=command)
    if given.installed:
        server = replace(server, install=cache(given.installed.absolute))
    call = (tfs_grpc if given.transport == "gRPC" else tfs_rest)("m", inputs)
    seen: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    counts: dict[str, int] = {}
    with servers.running(
        server, servers.target("m", scratch / "m", scratch), probe, question.judge(probe)
    ) as running:
        for turn in range(given.rounds):
            for situation in (ALONE, BESIDE)[:: -1 if turn % 2 else 1]:
                _switch(scratch, running.target, probe, situation == BESIDE)
                seen[situation].append(_measured(given, running.target, call))
                counts = _counts(running.target)
    alone, beside = (list(zip(*seen[each], strict=True)) for each in (ALONE, BESIDE))
    rows = [
        [name, spread(before, 2), spread(meanwhile, 2), ratio(meanwhile, before)]
        for name, before, meanwhile in zip(FIGURES, alone, beside, strict=True)
    ]
    print(table([f"{given.transport}, {given.rps} requests/s", ALONE, BESIDE, "ratio"], rows))
    print("\nsampled requests:", ", ".join(f"{n} {each}" for each, n in counts.items()))


def _measured(given: argparse.Namespace, target: Target, call: Call) -> tuple[float, float, float]:
    port = target.grpc_port if given.transport == "gRPC" else target.rest_port
    first = given.client_first
    took = steady(given.transport, port, call, given.rps, given.seconds, client_first=first)
    p50, p99 = np.percentile(took, (50, 99))
    return float(p50), float(p99), float(max(took))


def _switch(scratch: Path, target: Target, probe: Call, wanted: bool) -> None:
    """Take the shadow away; if it is wanted, set it anew, and wait until it has answered once."""
    _configure(scratch, {})
    time.sleep(SETTLE_S)
    if not wanted:
        return
    before, end = _compared(target), time.monotonic() + PATIENCE_S
    _configure(scratch, {"shadow": SHADOW})
    while _compared(target) == before:
        if time.monotonic() > end:
            raise TimeoutError("the shadow answers nothing")
        url = f"http://127.0.0.1:{target.rest_port}{probe.path}"
        urllib.request.urlopen(urllib.request.Request(url, probe.body)).read()
        time.sleep(0.05)


def _configure(scratch: Path, keys: Mapping[str, object]) -> None:
    entry = {
        **{"name": "m", "base_path": str(scratch / "m"), "model_version_policy": {"all": {}}},
        **{"traffic": {"1": 100}, **keys},
    }
    beside = scratch / "new.json"
    beside.write_text(json.dumps({"model_config_list": [{"config": entry}]}))
    beside.rename(scratch / "config.json")


def _counts(target: Target) -> dict[str, int]:
    url = f"http://127.0.0.1:{target.rest_port}/metrics"
    page = urllib.request.urlopen(url).read().decode()
    return {result: int(number) for result, number in COUNTED.findall(page)}


def _compared(target: Target) -> int:
    counts = _counts(target)
    return sum(counts.get(each, 0) for each in COMPARED)


if __name__ == "__main__":
    main()

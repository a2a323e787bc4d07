"""Measure what a small model's requests feel of a large model that is loaded and unloaded.

One server has both. A steady stream of small requests, the same alone and beside a loop in which
the large model changes its version again and again: each change loads 500 MB and frees 500 MB.
"""

import argparse
import json
import os
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TextIO

import numpy as np

from benchmarks import models, servers
from benchmarks.calls import tfs_grpc, tfs_rest
from benchmarks.engine import Loop
from benchmarks.environments import ROOT
from benchmarks.generators import need, steady
from benchmarks.report import ratio, spread, table
from benchmarks.servers import Running, Server, Target, project
from benchmarks.subjects import Question

PATIENCE_S = 120.0
TRANSPORTS = ("gRPC", "REST")
ALONE, BESIDE = "alone", "beside loads"
FIGURES = ("p50 ms", "p99 ms", "max ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-stall", description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="load for each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rps", type=int, default=200, help="small requests a second")
    parser.add_argument("--transport", choices=TRANSPORTS, action="append")
    parser.add_argument(
        "--client-first",
        action="store_true",
        help="let the client never wait for a CPU, as one on another machine; needs root",
    )
    parser.add_argument("--flag", action="append", default=[], help="further flag of the server")
    parser.add_argument("--installed", type=Path, help="environment that has the server already")
    given = parser.parse_args()
    need()
    models.write(ROOT / "models")
    large = models.write_large(ROOT / "large")
    server = project("working-tree", None)
    if given.installed:
        server = replace(server, install=cache(given.installed.absolute))
    run = Run(given.transport or TRANSPORTS, given.rps, given.seconds, given.client_first)
    with tempfile.TemporaryDirectory() as scratch:
        with _started(server, large, Path(scratch), given.flag) as (running, question):
            switches = Switches(running.target, large)
            for turn in range(given.rounds):
                run.round(running, question, switches, turn)
        print(run.table(), end="\n\n")
        print(f"{switches.count} changes of version, {spread(switches.took_s, 2)} s each")


@dataclass(frozen=True)
class Run:
    """The settings of one run, and what it has seen: figures by transport and situation."""

    transports: tuple[str, ...]
    rps: int
    seconds: float
    client_first: bool
    seen: dict[tuple[str, str], list[tuple[float, float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def round(self, running: Running, question: Question, switches: "Switches", turn: int) -> None:
        """Measure each case once, in turns."""
        for transport in self.transports:
            for situation in (ALONE, BESIDE)[:: -1 if turn % 2 else 1]:
                figures = self._measured(running, question, transport, situation, switches)
                self.seen[transport, situation].append(figures)

    def _measured(
        self,
        running: Running,
        question: Question,
        transport: str,
        situation: str,
        switches: "Switches",
    ) -> tuple[float, float, float]:
        dialect = tfs_grpc if transport == "gRPC" else tfs_rest
        target = running.target
        port = target.grpc_port if transport == "gRPC" else target.rest_port
        call = dialect(question.model, question.inputs)
        with switches.under_way(situation == BESIDE):
            milliseconds = steady(
                transport, port, call, self.rps, self.seconds, client_first=self.client_first
            )
        p50, p99 = np.percentile(milliseconds, (50, 99))
        return float(p50), float(p99), float(max(milliseconds))

    def table(self) -> str:
        """Tabulate p50, p99 and the longest, and their ratios."""
        rows = []
        for transport in self.transports:
            alone, beside = (
                list(zip(*self.seen[transport, each], strict=True)) for each in (ALONE, BESIDE)
            )
            for name, before, meanwhile in zip(FIGURES, alone, beside, strict=True):
                cells = [spread(before, 2), spread(meanwhile, 2), ratio(meanwhile, before)]
                rows.append([f"{transport}, {name}", *cells])
        return table(["small requests", ALONE, BESIDE, "ratio"], rows)


class Switches:
    """Changes the large model's version again and again.

    The server's log tells when a change has come to its end: to ask the server would add requests,
    each with a connection of its own, to those that are measured.

    Attributes:
        count: how many changes came to their end.
        took_s: how long each took, until the new version served and the old one was gone.
    """

    def __init__(self, target: Target, large: Path) -> None:
        self._base = target.scratch / "large"
        self._log = target.log
        self._large = large
        self._version = 1
        self.took_s: list[float] = []

    @property
    def count(self) -> int:
        """How many changes came to their end."""
        return len(self.took_s)

    @contextmanager
    def under_way(self, wanted: bool) -> Iterator[None]:
        """Change versions while the block runs, if that is wanted; the last change ends after."""
        if not wanted:
            yield
            return
        over = threading.Event()
        thread = threading.Thread(target=self._run, args=(over,))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(PATIENCE_S)

    def _run(self, over: threading.Event) -> None:
        with self._log.open() as lines:
            lines.seek(0, os.SEEK_END)
            while not over.is_set():
                began = time.perf_counter()
                self._version += 1
                (self._base / str(self._version)).symlink_to(self._large)
                _await(lines, f"version={self._version} state=AVAILABLE")
                _await(lines, f"version={self._version - 1} state=END")
                (self._base / str(self._version - 1)).unlink()
                self.took_s.append(time.perf_counter() - began)


def _await(lines: TextIO, wanted: str) -> None:
    """Read a log that is being written until a line of the large model has come.

    Raises:
        TimeoutError: it does not come.
    """
    end, line = time.perf_counter() + PATIENCE_S, ""
    while time.perf_counter() < end:
        line += lines.readline()
        if not line.endswith("\n"):  # its end is not written yet
            time.sleep(0.05)
        elif f"model=large {wanted}" in line:
            return
        else:
            line = ""
    raise TimeoutError(f"{wanted} did not come")


@contextmanager
def _started(
    server: Server, large: Path, scratch: Path, flags: list[str]
) -> Iterator[tuple[Running, Question]]:
    """Serve a small model, and version 1 of the large one."""
    (scratch / "large").mkdir()
    (scratch / "large" / "1").symlink_to(large)
    small = ROOT / "models" / "dummy"
    entries = [
        {"config": {"name": name, "base_path": str(path)}}
        for name, path in {"small": small, "large": scratch / "large"}.items()
    ]
    (scratch / "config.json").write_text(json.dumps({"model_config_list": entries}))
    inputs = {"x": np.full((1, 10), 0.5, np.float32)}
    expected = Loop(small / "1" / "model.xml", inputs).outputs()
    question = Question("small", small, inputs, expected)
    probe = tfs_rest("small", inputs)

    def command(environment: Path, target: Target) -> list[str]:
        return [
            *(str(environment / "bin" / "ie_serving"), "config"),
            *("--config_path", str(target.scratch / "config.json")),
            *("--port", str(target.grpc_port), "--rest_port", str(target.rest_port)),
            *("--file_system_poll_wait_seconds", "0.1", *flags),
        ]

    asked = replace(server, command=command)
    target = servers.target("small", small, scratch)
    with servers.running(asked, target, probe, question.judge(probe)) as running:
        yield running, question


if __name__ == "__main__":
    main()

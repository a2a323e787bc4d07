"""All that one run measured, and the report that is made of it."""

import datetime
import platform
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.environments import packages
from benchmarks.report import ratio, spread, table
from benchmarks.servers import Server
from benchmarks.subjects import Measurement

SHOWN = (
    *("openvino", "grpcio", "falcon", "fastapi", "uvicorn", "orjson"),
    *("nvidia-pytriton", "kserve", "mlserver"),
)


class Key(NamedTuple):
    """One line of the tables, for one server."""

    server: str
    case: str
    load: str
    concurrency: int

    @property
    def title(self) -> str:
        """Name the line, whichever the server."""
        return f"{self.case}, {self.load} c{self.concurrency}"


class Process(NamedTuple):
    """One start of a server with one model."""

    ready_s: float
    idle_mb: float
    peak_mb: float


@dataclass
class Results:
    """Lists have one entry for each round.

    Attributes:
        measured: every line of every server.
        engine: inferences per second without a server, and exchanges without the engine, by limit
            and case.
        processes: by server and model.
        failures: what could not be measured, by server, case or model, and load, with its reason.
    """

    measured: dict[Key, list[Measurement]] = field(default_factory=lambda: defaultdict(list))
    engine: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    processes: dict[tuple[str, str], list[Process]] = field(
        default_factory=lambda: defaultdict(list)
    )
    failures: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def report(self, servers: Sequence[Server], rounds: int, seconds: float) -> str:
        """Write everything as Markdown, the first two servers being compared with the others."""
        names = [server.name for server in servers]
        parts = [
            f"# Benchmark of {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}",
            f"{machine()}. {rounds} interleaved rounds of {seconds:g} s for each case; medians, "
            "with the furthest round's distance from them. c is the number of concurrent requests. "
            "Server and load share the processors: only ratios inside this table mean anything. "
            '"Triton" is Triton\'s Python backend, driven by PyTriton.',
            versions(servers),
            f"## Requests per second\n\n{self._matrix(names, _rps)}",
            f"## Ratio of {names[0]} to each\n\n{self._ratios(names)}",
            f"## Ratio of {names[1]} to each\n\n{self._ratios([*names[1:], names[0]])}",
            f"## p50 / p99, ms\n\n{self._matrix(names, _latency)}",
            f"## Processor time for each request, µs\n\n{self._matrix(names, _cpu)}",
            f"## Limits: the engine alone and the wire alone, a second\n\n{self._engine_table()}",
            f"## Processes\n\n{self._process_table()}",
            *([f"## Not measured\n\n{self._failure_list()}"] if self.failures else []),
        ]
        return "\n\n".join(parts) + "\n"

    def _titles(self) -> dict[str, Key]:
        return {key.title: key for key in self.measured}

    def _matrix(self, names: Sequence[str], cell: Callable[[list[Measurement]], str]) -> str:
        rows = []
        for title, key in self._titles().items():
            of = [self.measured.get(key._replace(server=name), []) for name in names]
            rows.append([title, *(cell(measured) if measured else "" for measured in of)])
        return table(["case", *names], rows)

    def _ratios(self, names: Sequence[str]) -> str:
        rows = []
        for title, key in self._titles().items():
            ours, *others = (self.measured.get(key._replace(server=name), []) for name in names)
            cells = [
                ratio([m.sample.rps for m in ours], [m.sample.rps for m in theirs])
                if ours and len(ours) == len(theirs)
                else ""
                for theirs in others
            ]
            rows.append([title, *cells])
        return table(["case", *names[1:]], rows)

    def _engine_table(self) -> str:
        rows = [[case, way, spread(values)] for (way, case), values in self.engine.items()]
        return table(["case", "limit", "per second"], rows)

    def _process_table(self) -> str:
        rows = [
            [
                f"{server}, {model}",
                spread([process.ready_s for process in starts], 2),
                spread([process.idle_mb for process in starts]),
                spread([process.peak_mb for process in starts]),
            ]
            for (server, model), starts in self.processes.items()
        ]
        return table(["server, model", "first reply s", "idle MB", "peak MB"], rows)

    def _failure_list(self) -> str:
        return "\n".join(
            f"- {' '.join(filter(None, what))}: {' '.join(reason.split())[:300]}"
            for what, reason in self.failures.items()
        )


def _rps(measured: list[Measurement]) -> str:
    return spread([m.sample.rps for m in measured])


def _latency(measured: list[Measurement]) -> str:
    return " / ".join(
        spread([value(m) for m in measured], 2)
        for value in (lambda m: m.sample.p50_ms, lambda m: m.sample.p99_ms)
    )


def _cpu(measured: list[Measurement]) -> str:
    return spread([m.cpu_us for m in measured])


def machine() -> str:
    """Describe processor, cores, system and Python."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return (
        f"{names[0]}, {len(names)} cores, {platform.platform()}, Python {platform.python_version()}"
    )


def versions(servers: Sequence[Server]) -> str:
    """List what each server's environment holds, of the packages that matter for speed."""
    lines = []
    for server in servers:
        held = packages(server.install())
        shown = [f"{name} {held[name]}" for name in SHOWN if name in held]
        lines.append(f"- {server.name}: {', '.join(shown)}")
    return "\n".join(lines)

"""Measure several workers beside one: requests, processor time, memory, and how even the load is.

`--scale` measures 1, 2, 4 ... workers, as many as there are processors, and fits Amdahl's law.

Server and load generator share the processors. Where a request costs the generator as much as the
server, two processors leave two workers little to win; where the server does nearly all of the
work, as with large JSON, the second worker has a processor for itself.
"""

import argparse
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import psutil

from benchmarks import measure, models
from benchmarks.engine import Loop
from benchmarks.environments import ROOT
from benchmarks.generators import h2load, need, wrk
from benchmarks.report import spread, table
from benchmarks.servers import project, with_flags
from benchmarks.subjects import Load, Question, Subject, started

CONNECTIONS = 16
Servers = Mapping[str, Sequence[str]]
"""By name in the tables: the flags."""
SERVERS: Servers = {
    "1": (),
    "2": ("--workers", "2"),
    "2, no busy polling": ("--workers", "2", "--busy_poll_microseconds", "0"),
}


@dataclass(frozen=True)
class Case:
    """What is asked, and by which generator."""

    name: str
    model: str
    transport: str
    load: Load


CASES = (
    Case("gRPC small", "dummy_b1", "gRPC", partial(h2load, connections=CONNECTIONS)),
    Case("REST small", "dummy_b1", "REST", wrk),
    Case("REST 100 rows of 784", "mnist_b100", "REST", wrk),
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-workers", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="load for each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--scale", action="store_true", help="1, 2, 4 ... workers, and Amdahl's law"
    )
    given = parser.parse_args()
    need()
    models.write(ROOT / "models")
    servers = doubled(os.cpu_count() or 1) if given.scale else SERVERS
    found = {case.name: _found(case, servers, given) for case in CASES}
    rows = [[case, name, *of[name].cells()] for case, of in found.items() for name in of]
    print(table(["c16", "workers", "requests/s", "CPU us", "p99 ms", "least busy"], rows))
    if given.scale:
        print(table(["c16", "share that more workers do not shorten"], _shares(found)))
    print(table(["workers, ResNet-50's shape (102 MB of weights)", "PSS MB"], _memory(servers)))


def doubled(processors: int) -> Servers:
    """Give servers of 1, 2, 4 ... workers, and one of as many as there are processors."""
    counts = [1 << power for power in range(processors.bit_length())]
    return {str(n): ("--workers", str(n)) for n in sorted({*counts, processors})}


def serial_share(rates: Mapping[int, float]) -> float:
    """Fit Amdahl's law to requests a second by workers: the share that stays as long as with one.

    With the share s, n workers are 1 / (s + (1 - s) / n) times as fast as one; s is that of the
    least squares of the times. Above 1: more workers are slower than one.
    """
    one = rates[1]
    shorter = {n: 1 - 1 / n for n in rates if n > 1}
    saved = {n: 1 - one / rates[n] for n in shorter}
    return 1 - sum(saved[n] * shorter[n] for n in shorter) / sum(s * s for s in shorter.values())


@dataclass
class _Found:
    """What one server did, round by round."""

    rps: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    least: list[float] = field(default_factory=list)

    def measure(self, subject: Subject, case: Case, seconds: float) -> None:
        before = _spent(subject)
        found = subject.load(case.transport, case.load, CONNECTIONS, seconds)
        spent = [used - before[pid] for pid, used in _spent(subject).items()]
        self.rps.append(found.sample.rps)
        self.cpu_us.append(found.cpu_us)
        self.p99_ms.append(found.sample.p99_ms)
        self.least.append(100 * min(spent) / sum(spent))

    def cells(self) -> list[str]:
        times = (spread(self.rps, 0), spread(self.cpu_us, 0), spread(self.p99_ms, 2))
        return [*times, f"{min(self.least):.0f} %"]


def _found(case: Case, servers: Servers, given: argparse.Namespace) -> dict[str, _Found]:
    """Measure the servers in turns."""
    found = {name: _Found() for name in servers}
    with ExitStack() as stack:
        subjects = {
            name: stack.enter_context(_started(case.model, flags))
            for name, flags in servers.items()
        }
        for _ in range(given.rounds):
            for name, subject in subjects.items():
                found[name].measure(subject, case, given.seconds)
    return found


def _shares(found: Mapping[str, Mapping[str, _Found]]) -> list[list[str]]:
    rates = {
        case: {int(name): median(each.rps) for name, each in of.items()}
        for case, of in found.items()
    }
    return [[case, f"{serial_share(of):.2f}"] for case, of in rates.items() if len(of) > 1]


def _spent(subject: Subject) -> dict[int, float]:
    """Processor time of each worker, the arbiter's children."""
    workers = psutil.Process(subject.running.pid).children()
    times = {each.pid: each.cpu_times() for each in workers}
    return {pid: each.user + each.system for pid, each in times.items()}


def _memory(servers: Servers) -> list[list[str]]:
    rows = []
    for name in filter(str.isdecimal, servers):
        with _started("resnet50", servers[name]) as subject:
            subject.load("REST", wrk, 4, 1.0)
            rows.append([name, f"{measure.memory_mb(subject.running.pid):.0f}"])
    return rows


@contextmanager
def _started(name: str, flags: Sequence[str]) -> Iterator[Subject]:
    case = next(case for case in models.CASES if case.name == name)
    repository = ROOT / "models" / case.model
    inputs = case.inputs()
    expected = Loop(repository / "1" / "model.xml", inputs).outputs()
    question = Question(case.model, repository, inputs, expected)
    server = with_flags(project("working-tree", None), flags)
    with tempfile.TemporaryDirectory() as scratch, started(server, question, Path(scratch)) as it:
        yield it


if __name__ == "__main__":
    main()

"""Measure several workers beside one: requests, processor time, memory, and how even the load is.

Server and load generator share the processors, so that on two of them two workers can win little:
what counts there is what a request costs, and that each worker has its half.
"""

import argparse
import tempfile
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

import psutil

from benchmarks import measure, models
from benchmarks.engine import Loop
from benchmarks.environments import ROOT
from benchmarks.generators import h2load, need, wrk
from benchmarks.report import spread, table
from benchmarks.servers import project, with_flags
from benchmarks.subjects import Question, Subject, started

CONNECTIONS = 16
WORKERS = (1, 2)
LOADS = {"gRPC": partial(h2load, connections=CONNECTIONS), "REST": wrk}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-workers", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="load for each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    need()
    models.write(ROOT / "models")
    print(_speed(given), end="\n\n")
    print(_memory())


def _speed(given: argparse.Namespace) -> str:
    rows = {(transport, n): _Row() for transport in LOADS for n in WORKERS}
    with ExitStack() as stack:
        subjects = {n: stack.enter_context(_started("dummy_b1", n, stack)) for n in WORKERS}
        for _ in range(given.rounds):
            for (transport, n), row in rows.items():
                row.measure(subjects[n], transport, given.seconds)
    heads = ["small request, c16", "workers", "requests/s", "CPU us", "p99 ms", "least busy worker"]
    return table(heads, [[transport, str(n), *row.cells()] for (transport, n), row in rows.items()])


class _Row:
    """One load of a server with so many workers, over all rounds."""

    def __init__(self) -> None:
        self._rps: list[float] = []
        self._cpu_us: list[float] = []
        self._p99_ms: list[float] = []
        self._least: list[float] = []

    def measure(self, subject: Subject, transport: str, seconds: float) -> None:
        before = _spent(subject)
        found = subject.load(transport, LOADS[transport], CONNECTIONS, seconds)
        spent = {pid: used - before.get(pid, 0.0) for pid, used in _spent(subject).items()}
        self._rps.append(found.sample.rps)
        self._cpu_us.append(found.cpu_us)
        self._p99_ms.append(found.sample.p99_ms)
        self._least.append(100 * min(spent.values()) / sum(spent.values()))

    def cells(self) -> list[str]:
        return [
            spread(self._rps, 0),
            spread(self._cpu_us, 0),
            spread(self._p99_ms, 2),
            f"{spread(self._least, 0)} %",
        ]


def _spent(subject: Subject) -> dict[int, float]:
    """Processor time of each worker, the arbiter's children."""
    workers = psutil.Process(subject.running.pid).children()
    times = {each.pid: each.cpu_times() for each in workers}
    return {pid: each.user + each.system for pid, each in times.items()}


def _memory() -> str:
    rows = []
    for n in WORKERS:
        with ExitStack() as stack:
            subject = stack.enter_context(_started("resnet50", n, stack))
            subject.load("REST", wrk, 4, 1.0)
            rows.append([str(n), f"{measure.memory_mb(subject.running.pid):.0f}"])
    return table(["workers, ResNet-50's shape (102 MB of weights)", "PSS MB"], rows)


def _started(name: str, workers: int, stack: ExitStack) -> AbstractContextManager[Subject]:
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    case = next(case for case in models.CASES if case.name == name)
    repository = ROOT / "models" / case.model
    inputs = case.inputs()
    expected = Loop(repository / "1" / "model.xml", inputs).outputs()
    question = Question(case.model, repository, inputs, expected)
    server = with_flags(project("working-tree", None), ("--workers", str(workers)))
    return started(server, question, scratch)


if __name__ == "__main__":
    main()

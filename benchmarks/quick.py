"""Measure the sample in two minutes: beside the engine alone, another revision, other Pythons.

Servers are started anew in each round, since starts differ by 10 to 20 % in what they then take for
a request. Within it they are asked in turns, a request or a burst of them at a time, so that
whatever else the machine does hits all alike.
Only the ratios inside one run mean anything.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import uvloop

from benchmarks import measure
from benchmarks.calls import Call
from benchmarks.engine import Loop
from benchmarks.environments import PROJECT
from benchmarks.load import Sample, load_grpc
from benchmarks.report import ratio, spread, table
from benchmarks.results import Process
from benchmarks.servers import Server, project
from benchmarks.subjects import Measurement, Question, Subject, load_subjects, started

SAMPLE = PROJECT / "examples" / "models" / "digits"
NEWEST = SAMPLE / "2" / "model.xml"
CASES = (("gRPC", 1), ("gRPC", 16), ("REST", 1), ("REST", 16))

Results = dict[tuple[str, str, int], list[Measurement]]
"""By server, transport and concurrency: one measurement a round."""


def grpc_client(port: int, call: Call, concurrency: int, seconds: float) -> Sample:
    """Load with `grpc.aio`."""
    return uvloop.run(load_grpc(port, call, concurrency, seconds))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-quick", description=__doc__)
    parser.add_argument("--base", help="Git revision to compare the working tree with")
    parser.add_argument(
        "--pythons",
        nargs="*",
        default=[],
        help="interpreters that run the working tree, such as python3.12: compared with this one",
    )
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="load for each server, case and round"
    )
    given = parser.parse_args()
    contenders = [project("working-tree", None)]
    contenders += [project("base", given.base)] if given.base else []
    contenders += [project(Path(python).name, None, python) for python in given.pythons]
    pixels = json.loads((PROJECT / "examples/digits/held_out.json").read_text())["image"]
    inputs = {"image": np.array(pixels[:1], np.float32)}
    alone = Loop(NEWEST, inputs)
    question = Question("digits", SAMPLE, inputs, alone.outputs())
    run = Run(contenders, question, alone, given.seconds)
    for turn in range(given.rounds):
        run.round(contenders[:: -1 if turn % 2 else 1])
    print(speed_table([server.name for server in contenders], run.results, run.engine))
    print()
    print(process_table(run.processes))


@dataclass(frozen=True)
class Run:
    """The settings of one run and what it has measured so far, one entry for each round."""

    contenders: list[Server]
    question: Question
    alone: Loop
    seconds: float
    results: Results = field(default_factory=lambda: defaultdict(list))
    engine: list[float] = field(default_factory=list)
    processes: dict[str, list[Process]] = field(default_factory=lambda: defaultdict(list))

    def round(self, order: list[Server]) -> None:
        """Start the servers anew and measure each case.

        All run at once, and all but the one under load are idle.
        """
        self.engine.append(self.alone.load(self.seconds).rps)
        with ExitStack() as stack:
            subjects = {server.name: self._start(stack, server) for server in order}
            idle_mb = {name: measure.memory_mb(s.running.pid) for name, s in subjects.items()}
            for transport, concurrency in CASES:
                several = list(subjects.values())
                found = load_subjects(several, transport, concurrency, self.seconds)
                for name, measured in zip(subjects, found, strict=True):
                    self.results[name, transport, concurrency].append(measured)
            for name, subject in subjects.items():
                peak_mb = measure.peak_mb(subject.running.pid)
                process = Process(subject.running.ready_s, idle_mb[name], peak_mb)
                self.processes[name].append(process)

    def _start(self, stack: ExitStack, server: Server) -> Subject:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return stack.enter_context(started(server, self.question, scratch))


def speed_table(names: list[str], results: Results, engine: list[float]) -> str:
    """Tabulate requests per second, and the ratio of the first server to each of the others."""
    rows = [["OpenVINO, plain loop", spread(engine), *[""] * (4 if len(names) > 1 else 3)]]
    for transport, concurrency in CASES:
        first = [m.sample.rps for m in results[names[0], transport, concurrency]]
        for name in names:
            measured = results[name, transport, concurrency]
            row = _row(f"{name}, {transport} c{concurrency}", measured)
            if len(names) > 1:
                others = [m.sample.rps for m in measured]
                row.append("" if name == names[0] else ratio(first, others))
            rows.append(row)
    headings = ["case", "requests/s", "p50 ms", "p99 ms", "CPU µs/request"]
    return table([*headings, f"{names[0]} to it"] if len(names) > 1 else headings, rows)


def _row(title: str, measured: list[Measurement]) -> list[str]:
    return [
        title,
        spread([m.sample.rps for m in measured]),
        spread([m.sample.p50_ms for m in measured], 2),
        spread([m.sample.p99_ms for m in measured], 2),
        spread([m.cpu_us for m in measured]),
    ]


def process_table(processes: dict[str, list[Process]]) -> str:
    """Tabulate what each server took to start, and held in memory."""
    rows = [
        [
            name,
            *(
                spread(values, digits)
                for values, digits in zip(zip(*starts, strict=True), (2, 0, 0), strict=True)
            ),
        ]
        for name, starts in processes.items()
    ]
    return table(["process tree", "first reply s", "idle MB", "peak MB"], rows)


if __name__ == "__main__":
    main()

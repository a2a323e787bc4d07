"""Measure every case beside other servers and the engine alone; takes about half an hour.

In each round every server is started for every model, one at a time, and answers every case.
Servers get what `make bench` installs for them under `.venv-bench`; only the load generators come
from the system's packages. Only ratios inside one run mean anything.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import grpc

from benchmarks import generators, limits, measure, models, page
from benchmarks.calls import WrongReplyError, oip_grpc, oip_rest, oip_rest_binary, tfs_grpc
from benchmarks.engine import AS_IT_LIKES, ONE_BY_ONE, Loop, benchmark_app
from benchmarks.environments import ROOT
from benchmarks.models import CASES, MODELS, Case
from benchmarks.peers.catalog import PEERS, TRITON
from benchmarks.quick import grpc_client
from benchmarks.results import Key, Process, Results
from benchmarks.servers import Server, project, with_flags
from benchmarks.shared import oip_grpc_shared
from benchmarks.subjects import Load, Question, Subject, started

LOADS: dict[str, tuple[str, Load]] = {
    "gRPC": ("gRPC", generators.h2load),
    "gRPC, Python client": ("gRPC", grpc_client),
    "gRPC, shared memory": ("gRPC, shared memory", generators.h2load),
    "REST": ("REST", generators.wrk),
    "REST, binary": ("REST, binary", generators.wrk),
}
"""By name in the report: the transport, and the generator that loads it."""

OURS = project("ie_serving", None)
BY_V2 = replace(
    with_flags(OURS, ("--shared_memory", "true")),
    name="ie_serving, v2",
    grpc=oip_grpc,
    rest=oip_rest,
)
"""Asked by the Open Inference Protocol, as Triton is."""

FAILURES = (WrongReplyError, TimeoutError, grpc.aio.AioRpcError, OSError)


class Asked(NamedTuple):
    """One case, ready: the engine alone with its inputs, and the question with its answer."""

    case: Case
    loop: Loop
    question: Question


@dataclass(frozen=True)
class Run:
    """One run's settings and what it has measured so far."""

    contenders: Sequence[Server]
    cases: Sequence[Case]
    seconds: float
    results: Results = field(default_factory=Results)

    def round(self) -> None:
        """Measure everything once."""
        for model in MODELS:
            asked = [_asked(case) for case in self.cases if case.model == model]
            self._engine(asked)
            self._limits(asked)
            for server in self.contenders if asked else ():
                self._serve(server, asked)

    def _engine(self, asked: list[Asked]) -> None:
        for case, loop, _ in asked:
            self.results.engine["plain Python loop", case.name].append(loop.load(self.seconds).rps)
            for hint, options in (("latency", ONE_BY_ONE), ("throughput", AS_IT_LIKES)):
                rps = benchmark_app(_file(case.model), case.shape, self.seconds, options)
                self.results.engine[f"benchmark_app, {hint}", case.name].append(rps)

    def _limits(self, asked: list[Asked]) -> None:
        """Exchange the bytes of each case with nothing behind the wire."""
        for case, _, question in asked:
            reply = sum(values.nbytes for values in question.expected.values())
            body = tfs_grpc(question.model, question.inputs).body
            found = limits.measured(limits.Exchange(body, reply), self.seconds)
            for limit, rps in found.items():
                self.results.engine[limit, case.name].append(rps)

    def _serve(self, server: Server, asked: list[Asked]) -> None:
        """Start one server for one model and put all its cases to it."""
        first = asked[0].question
        with tempfile.TemporaryDirectory() as scratch:
            try:
                with started(server, first, Path(scratch)) as subject:
                    self._ask(server, subject, asked)
            except TimeoutError as error:
                self.results.failures[server.name, first.model, ""] = str(error)

    def _ask(self, server: Server, subject: Subject, asked: list[Asked]) -> None:
        pid = subject.running.pid
        idle_mb = measure.memory_mb(pid)
        for case, _, question in asked:
            self._load(server, subject.asked(question), case)
        process = Process(subject.running.ready_s, idle_mb, measure.peak_mb(pid))
        self.results.processes[server.name, subject.running.target.model].append(process)

    def _load(self, server: Server, subject: Subject, case: Case) -> None:
        """Load one case in every way; what fails is noted and left out of the tables."""
        for key, transport, by in _lines(server, case):
            if not subject.speaks(transport):
                continue
            print(f"{server.name}: {case.name}, {key.load} c{key.concurrency}", file=sys.stderr)
            try:
                measured = subject.load(transport, by, key.concurrency, self.seconds)
                self.results.measured[key].append(measured)
            except FAILURES as error:
                self.results.failures[server.name, case.name, key.load] = str(error)


def _lines(server: Server, case: Case) -> Iterator[tuple[Key, str, Load]]:
    for name, (transport, by) in LOADS.items():
        for concurrency in case.concurrency.get(transport, ()):
            yield Key(server.name, case.name, name, concurrency), transport, by


def _asked(case: Case) -> Asked:
    inputs = case.inputs()
    loop = Loop(_file(case.model), inputs)
    repository = _file(case.model).parent.parent
    return Asked(case, loop, Question(case.model, repository, inputs, loop.outputs()))


def _in_each_way(server: Server) -> Server:
    """Give the server, asked by Triton's extensions of the Open Inference Protocol too."""
    further = {"REST, binary": oip_rest_binary, "gRPC, shared memory": oip_grpc_shared}
    return replace(server, further=further)


def _file(model: str) -> Path:
    return ROOT / "models" / model / "1" / "model.xml"


def main() -> None:
    """Measure, print the report, and write it where it was asked for."""
    names = [server.name for server in PEERS]
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="load for each case and round")
    parser.add_argument("--peers", nargs="*", default=names, choices=names)
    parser.add_argument("--cases", nargs="*", default=[case.name for case in CASES])
    parser.add_argument("--report", type=Path, default=page.RESULTS)
    given = parser.parse_args()
    generators.need()
    models.write(ROOT / "models")
    peers = [_in_each_way(p) if p is TRITON else p for p in PEERS if p.name in given.peers]
    contenders = [OURS, _in_each_way(BY_V2), *peers]
    run = Run(contenders, [case for case in CASES if case.name in given.cases], given.seconds)
    for _ in range(given.rounds):
        run.round()
    text = run.results.report(contenders, given.rounds, given.seconds)
    given.report.write_text(text)
    if given.report == page.RESULTS:
        page.write()
    print(text)


if __name__ == "__main__":
    main()

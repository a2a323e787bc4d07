"""Measure what gathering requests into batches wins, and that it costs a lone client nothing.

Small convolution nets and small transformers, one row a request, at several concurrencies: the
same server with and without `--max_batch_size`, and Triton with and without its dynamic batcher, in
interleaved rounds. Triton runs the same file with OpenVINO in its Python backend, which joins what
the batcher hands over: it brings no backend of its own for OpenVINO outside of its containers.

Before that OpenVINO itself is measured, one row alone and each of a full batch, with the threads
that suit each best: what it wins, the last column, is more than a server can win.
"""

import argparse
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks import models
from benchmarks.engine import Loop
from benchmarks.environments import ROOT
from benchmarks.generators import h2load, need, wrk
from benchmarks.peers.catalog import TRITON, triton_in_batches
from benchmarks.report import ratio, spread, table
from benchmarks.servers import Server, project, with_flags
from benchmarks.subjects import Load, Measurement, Question, Subject, started
from benchmarks.wire import Array

CONCURRENCY = (1, 16, 64, 256)
ENGINE_S = 1.0
"""Seconds for which OpenVINO alone is measured, for each number of rows and threads."""
CLIENT: Mapping[str, Load] = {"gRPC": h2load, "REST": wrk}
OFF, ON = "alone", "in batches"
TRITON_OFF, TRITON_ON = "Triton alone", "Triton in batches"
RATIOS = ((ON, OFF), (TRITON_ON, TRITON_OFF), (ON, TRITON_ON))
"""What is divided by what."""

Key = tuple[str, str, int, str]
"""Model, transport, concurrency; contender."""


def convnet_input(random: np.random.Generator) -> Array:
    """Give one digit; two decimals, so that its JSON is not what is measured."""
    return np.round(random.random((1, 1, 28, 28), np.float32), 2)


def transformer_input(random: np.random.Generator) -> Array:
    """Give one text."""
    return random.integers(0, models.WORDS, (1, models.TOKENS)).astype(np.int32)


def query_input(random: np.random.Generator) -> Array:
    """Give one text of a few words."""
    return random.integers(0, models.WORDS, (1, models.FEW_TOKENS)).astype(np.int32)


def speech_input(random: np.random.Generator) -> Array:
    """Give the features of one second of speech."""
    return np.round(random.random((1, 1, *models.SPEECH), np.float32), 2)


def resnet20_input(random: np.random.Generator) -> Array:
    """Give one small picture."""
    return np.round(random.random((1, 3, 32, 32), np.float32), 2)


INPUTS: Mapping[str, Callable[[np.random.Generator], Array]] = {
    "convnet": convnet_input,
    "transformer": transformer_input,
    "query": query_input,
    "resnet20": resnet20_input,
    "femnist": convnet_input,
    "keywords": speech_input,
    "bert_tiny": transformer_input,
    "bert_mini": transformer_input,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-batching", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="load for each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", choices=sorted(INPUTS), action="append", help="default: all")
    parser.add_argument("--transport", choices=sorted(CLIENT), action="append")
    parser.add_argument("--concurrency", type=int, action="append", help="default: 1 to 256")
    parser.add_argument("--batch", type=int, default=64, help="max_batch_size")
    parser.add_argument("--flag", action="append", default=[], help="further flag of the server")
    parser.add_argument("--no-triton", action="store_true", help="leave Triton out")
    parser.add_argument("--installed", type=Path, help="environment that has the server already")
    given = parser.parse_args()
    need()
    models.write(ROOT / "models")
    names = given.model or list(INPUTS)
    engine = {name: _engine_alone(name, given.batch) for name in names}
    print(_engine_table(engine, given.batch))
    run = Run(
        wins={name: _wins(found) for name, found in engine.items()},
        contenders=_contenders(given),
        transports=given.transport or list(CLIENT),
        concurrency=given.concurrency or CONCURRENCY,
        seconds=given.seconds,
    )
    for turn in range(given.rounds):
        for model in names:
            run.round(_question(model), turn)
    print(run.table())


@dataclass(frozen=True)
class Run:
    """The settings of one run and what it has measured so far, one entry for each round.

    Attributes:
        wins: what OpenVINO alone wins, by model.
    """

    wins: Mapping[str, float]
    contenders: Mapping[str, Server]
    transports: Sequence[str]
    concurrency: Sequence[int]
    seconds: float
    seen: dict[Key, list[Measurement]] = field(default_factory=lambda: defaultdict(list))

    def round(self, question: Question, turn: int) -> None:
        """Measure each case once, the contenders in turns; all run, and all but one are idle."""
        order = list(self.contenders)[:: -1 if turn % 2 else 1]
        with ExitStack() as stack:
            subjects = {name: self._start(stack, name, question) for name in order}
            for transport in self.transports:
                for concurrency in self.concurrency:
                    for name, subject in subjects.items():
                        by = CLIENT[transport]
                        measured = subject.load(transport, by, concurrency, self.seconds)
                        key = (question.model, transport, concurrency, name)
                        self.seen[key].append(measured)

    def _start(self, stack: ExitStack, name: str, question: Question) -> Subject:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return stack.enter_context(started(self.contenders[name], question, scratch))

    def table(self) -> str:
        """Tabulate requests per second, p99 and processor time, and the ratios of the first."""
        cases = dict.fromkeys(key[:3] for key in self.seen)
        rows = [
            [f"{model}, {transport} c{c}", *self._row((model, transport, c))]
            for model, transport, c in cases
        ]
        heads = [
            f"{name}, {what}"
            for name in self.contenders
            for what in ("requests/s", "p99 ms", "CPU µs")
        ]
        ratios = [f"{mine} / {other}" for mine, other in self._ratios()]
        return table(["case", *heads, *ratios, "OpenVINO wins"], rows)

    def _ratios(self) -> list[tuple[str, str]]:
        return [pair for pair in RATIOS if set(pair) <= set(self.contenders)]

    def _row(self, case: tuple[str, str, int]) -> list[str]:
        seen = {name: self.seen[(*case, name)] for name in self.contenders}
        cells = []
        for measured in seen.values():
            cells += [
                spread([m.sample.rps for m in measured]),
                spread([m.sample.p99_ms for m in measured], 2),
                spread([m.cpu_us for m in measured]),
            ]
        rps = {name: [m.sample.rps for m in measured] for name, measured in seen.items()}
        ratios = [ratio(rps[mine], rps[other]) for mine, other in self._ratios()]
        return [*cells, *ratios, f"{self.wins[case[0]]:.2f}"]


def _contenders(given: argparse.Namespace) -> dict[str, Server]:
    server = _installed(given.installed) if given.installed else project("working-tree", None)
    ours = {
        OFF: with_flags(server, given.flag),
        ON: with_flags(server, [*given.flag, f"--max_batch_size={given.batch}"]),
    }
    if given.no_triton:
        return ours
    return {**ours, TRITON_OFF: TRITON, TRITON_ON: triton_in_batches(given.batch)}


@dataclass(frozen=True)
class Alone:
    """What OpenVINO takes for a row by itself, and for each of a full batch, in microseconds."""

    threads: int
    alone_us: float
    each_us: float


def _engine_alone(model: str, batch: int) -> list[Alone]:
    """Measure OpenVINO with one thread, and with one for each processor."""
    one = INPUTS[model](np.random.default_rng(models.SEED))
    path = ROOT / "models" / model / "1" / "model.xml"
    found = []
    for threads in dict.fromkeys((1, len(os.sched_getaffinity(0)))):
        properties = {"INFERENCE_NUM_THREADS": str(threads), "NUM_STREAMS": "1"}
        alone_us, each_us = (
            Loop(path, {"x": np.repeat(one, count, 0)}, properties).shortest_s(ENGINE_S)
            / (count * 1e-6)
            for count in (1, batch)
        )
        found.append(Alone(threads, alone_us, each_us))
    return found


def _wins(found: Sequence[Alone]) -> float:
    """Give what a batch wins where both have the threads that suit them best."""
    return min(each.alone_us for each in found) / min(each.each_us for each in found)


def _engine_table(engine: Mapping[str, Sequence[Alone]], batch: int) -> str:
    rows = [
        [
            *(name, str(each.threads)),
            *(f"{each.alone_us:.0f}", f"{each.each_us:.0f}", f"{each.alone_us / each.each_us:.2f}"),
        ]
        for name, found in engine.items()
        for each in found
    ]
    return table(["OpenVINO alone", "threads", "µs alone", f"µs each of {batch}", "wins"], rows)


def _question(model: str) -> Question:
    inputs = {"x": INPUTS[model](np.random.default_rng(models.SEED))}
    repository = ROOT / "models" / model
    expected = Loop(repository / "1" / "model.xml", inputs).outputs()
    return Question(model, repository, inputs, expected)


def _installed(environment: Path) -> Server:
    return replace(project("installed", None), install=cache(environment.absolute))


if __name__ == "__main__":
    main()

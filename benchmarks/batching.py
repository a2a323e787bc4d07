"""Measure what gathering requests into batches wins, and that it costs a lone client nothing.

A small convolution net and a small transformer, one row a request, at several concurrencies: the
same server with and without `--max_batch_size`, in interleaved rounds.
"""

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks import models
from benchmarks.engine import Loop
from benchmarks.environments import ROOT
from benchmarks.generators import h2load, wrk
from benchmarks.report import ratio, spread, table
from benchmarks.servers import Server, Target, project
from benchmarks.subjects import Load, Measurement, Question, Subject, started
from benchmarks.wire import Array

CONCURRENCY = (1, 16, 64, 256)
CLIENT: Mapping[str, Load] = {"gRPC": h2load, "REST": wrk}
OFF, ON = "alone", "in batches"

Key = tuple[str, str, int, str]
"""Model, transport, concurrency; with or without batches."""


def convnet_input(random: np.random.Generator) -> Array:
    """Give one digit; two decimals, so that its JSON is not what is measured."""
    return np.round(random.random((1, 1, 28, 28), np.float32), 2)


def transformer_input(random: np.random.Generator) -> Array:
    """Give one text."""
    return random.integers(0, models.WORDS, (1, models.TOKENS)).astype(np.int32)


INPUTS: Mapping[str, Callable[[np.random.Generator], Array]] = {
    "convnet": convnet_input,
    "transformer": transformer_input,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-batching", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="load for each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", choices=sorted(INPUTS), action="append", help="default: both")
    parser.add_argument("--transport", choices=sorted(CLIENT), action="append")
    parser.add_argument("--batch", type=int, default=64, help="max_batch_size")
    parser.add_argument("--flag", action="append", default=[], help="further flag of the server")
    parser.add_argument("--installed", type=Path, help="environment that has the server already")
    given = parser.parse_args()
    models.write(ROOT / "models")
    server = _installed(given.installed) if given.installed else project("working-tree", None)
    run = Run(
        contenders={
            OFF: _with(server, given.flag),
            ON: _with(server, [*given.flag, f"--max_batch_size={given.batch}"]),
        },
        transports=given.transport or list(CLIENT),
        seconds=given.seconds,
    )
    for turn in range(given.rounds):
        for model in given.model or INPUTS:
            run.round(_question(model), turn)
    print(run.table())


@dataclass(frozen=True)
class Run:
    """The settings of one run and what it has measured so far, one entry for each round."""

    contenders: Mapping[str, Server]
    transports: list[str]
    seconds: float
    seen: dict[Key, list[Measurement]] = field(default_factory=lambda: defaultdict(list))

    def round(self, question: Question, turn: int) -> None:
        """Measure each case once, the contenders in turns; all run, and all but one are idle."""
        order = list(self.contenders)[:: -1 if turn % 2 else 1]
        with ExitStack() as stack:
            subjects = {name: self._start(stack, name, question) for name in order}
            for transport in self.transports:
                for concurrency in CONCURRENCY:
                    for name, subject in subjects.items():
                        by = CLIENT[transport]
                        measured = subject.load(transport, by, concurrency, self.seconds)
                        key = (question.model, transport, concurrency, name)
                        self.seen[key].append(measured)

    def _start(self, stack: ExitStack, name: str, question: Question) -> Subject:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return stack.enter_context(started(self.contenders[name], question, scratch))

    def table(self) -> str:
        """Tabulate requests per second, p99 and processor time, with the ratio of the first."""
        cases = dict.fromkeys(key[:3] for key in self.seen)
        rows = [
            [f"{model}, {transport} c{c}", *self._row((model, transport, c))]
            for model, transport, c in cases
        ]
        heads = [
            f"{name}, {what}" for name in (OFF, ON) for what in ("requests/s", "p99 ms", "CPU µs")
        ]
        return table(["case", *heads, "ratio"], rows)

    def _row(self, case: tuple[str, str, int]) -> list[str]:
        off, on = (self.seen[(*case, name)] for name in (OFF, ON))
        cells = []
        for seen in (off, on):
            cells += [
                spread([m.sample.rps for m in seen]),
                spread([m.sample.p99_ms for m in seen], 2),
                spread([m.cpu_us for m in seen]),
            ]
        return [*cells, ratio([m.sample.rps for m in on], [m.sample.rps for m in off])]


def _question(model: str) -> Question:
    inputs = {"x": INPUTS[model](np.random.default_rng(models.SEED))}
    repository = ROOT / "models" / model
    expected = Loop(repository / "1" / "model.xml", inputs).outputs()
    return Question(model, repository, inputs, expected)


def _installed(environment: Path) -> Server:
    return replace(project("installed", None), install=cache(environment.absolute))


def _with(server: Server, flags: list[str]) -> Server:
    def command(environment: Path, target: Target) -> list[str]:
        return [*server.command(environment, target), *flags]

    return replace(server, command=command)


if __name__ == "__main__":
    main()

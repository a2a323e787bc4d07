"""Measure which share of OpenVINO's own speed the server gives, on ResNet-50's shape.

Beside `benchmark_app` on one core, in turns, with one stream; the load generator has
another core. And under a quota of one processor: what the server makes of it, beside what
`benchmark_app` makes of it with OpenVINO's defaults. Both are asked for as many images at once.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import models
from benchmarks.engine import Loop, benchmark_app
from benchmarks.environments import ROOT
from benchmarks.generators import h2load, need
from benchmarks.report import ratio, spread, table
from benchmarks.servers import project, with_flags
from benchmarks.subjects import Question, started

RESNET = next(case for case in models.CASES if case.name == "resnet50")
FILE = ROOT / "models" / RESNET.model / "1" / "model.xml"
AT_ONCE = 2
"""Requests, enough to keep one stream busy while an answer is on its way."""
QUOTAS = Path("/sys/fs/cgroup/cpu")
"""Version 1 of control groups, where it is mounted; version 2 otherwise."""
PERIOD_US = 100_000
"""The kernel's default."""


@dataclass(frozen=True)
class Place:
    """Where server and `benchmark_app` run in turns, and how they are told of it.

    Attributes:
        engine: entered by whoever starts the server or the tool.
        client: entered by whoever starts the load generator.
        flags: of the server.
        options: of the tool.
    """

    engine: "Room"
    client: "Room"
    flags: Sequence[str] = ()
    options: Sequence[str] = ()


class Room:
    """Processors, or a share of them, for the processes that are started inside of it."""

    def __init__(self, *, cores: Sequence[int] = (), group: Path | None = None) -> None:
        self._cores = cores
        self._group = group

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Have this process, and what it starts meanwhile, in here."""
        before = os.sched_getaffinity(0)
        if self._cores:
            os.sched_setaffinity(0, self._cores)
        if self._group:
            _move_into(self._group)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)
            if self._group:
                _move_into(self._group.parent)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-share", description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0, help="load for each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    need()
    models.write(ROOT / "models")
    with _one_processor() as group:
        rows = [_row(name, place, given) for name, place in _places(group).items()]
    print(table(["ResNet-50", "ie_serving/s", "benchmark_app/s", "ratio"], rows))


def _places(group: Path) -> Mapping[str, Place]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        sys.exit("this takes two cores: one for the server, one for the load generator")
    first, second = Room(cores=cores[:1]), Room(cores=cores[1:2])
    one_stream = ("--plugin_config", '{"NUM_STREAMS": 1}')
    return {
        "one core, one stream": Place(
            first, second, one_stream, ("-hint", "none", "-nstreams", "1")
        ),
        "quota of 1 CPU, defaults": Place(Room(group=group), Room()),
    }


def _row(name: str, place: Place, given: argparse.Namespace) -> list[str]:
    """Measure both in turns, and tabulate."""
    ours, theirs = [], []
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = with_flags(project("working-tree", None), place.flags)
        question = _question()
        with place.engine.entered():
            subject = stack.enter_context(started(server, question, scratch))
        for _ in range(given.rounds):
            with place.client.entered():
                ours.append(subject.load("gRPC", h2load, AT_ONCE, given.seconds).sample.rps)
            with place.engine.entered():
                options = ("-nireq", str(AT_ONCE), *place.options)
                theirs.append(benchmark_app(FILE, RESNET.shape, given.seconds, options))
    return [name, spread(ours, 1), spread(theirs, 1), ratio(ours, theirs)]


def _question() -> Question:
    inputs = RESNET.inputs()
    outputs = Loop(FILE, inputs).outputs()
    return Question(RESNET.model, FILE.parent.parent, inputs, outputs)


@contextmanager
def _one_processor() -> Iterator[Path]:
    """Make a control group whose processes have one processor's time together; needs root.

    Source: cgroup-v1/cpusets.rst and cgroup-v2.rst of the kernel.
    """
    version_1 = QUOTAS.is_dir()
    group = (QUOTAS if version_1 else QUOTAS.parent) / f"bench-{os.getpid()}"
    group.mkdir()
    try:
        if version_1:
            (group / "cpu.cfs_quota_us").write_text(str(PERIOD_US))
        else:
            (group / "cpu.max").write_text(f"{PERIOD_US} {PERIOD_US}")
        yield group
    finally:
        group.rmdir()


def _move_into(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))


if __name__ == "__main__":
    main()

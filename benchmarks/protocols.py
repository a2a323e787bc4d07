"""Measure a small request by the Open Inference Protocol beside TensorFlow Serving's Predict.

One server and one model, asked by both in turns, over one interface. Only the ratios inside one run
mean anything.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.calls import oip_grpc, oip_rest
from benchmarks.engine import Loop
from benchmarks.environments import PROJECT
from benchmarks.generators import h2load, need, wrk
from benchmarks.quick import NEWEST, SAMPLE
from benchmarks.report import ratio, spread, table
from benchmarks.servers import project
from benchmarks.subjects import Measurement, Question, Subject, started

PREDICT, INFER = "Predict", "ModelInfer"
CONCURRENCY = (1, 16)
LOADS = {"gRPC": h2load, "REST": wrk}
TURNS = 4
"""Of each protocol with each concurrency in a round; the machine's speed drifts within a second."""

Results = dict[tuple[str, int], list[Measurement]]
"""By protocol and concurrency: one measurement a turn."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-protocols", description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--rows", type=int, default=1, help="of the sample in a request")
    parser.add_argument("--seconds", type=float, default=1.0, help="load for each case and round")
    parser.add_argument("--interface", choices=LOADS, default="gRPC")
    given = parser.parse_args()
    load = LOADS[given.interface]
    need()
    pixels = json.loads((PROJECT / "examples/digits/held_out.json").read_text())["image"]
    inputs = {"image": np.resize(np.array(pixels, np.float32), (given.rows, 64))}
    question = Question("digits", SAMPLE, inputs, Loop(NEWEST, inputs).outputs())
    results: Results = defaultdict(list)
    for turn in range(given.rounds):
        with ExitStack() as stack:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            server = project("working-tree", None)
            subject = stack.enter_context(started(server, question, scratch))
            other = replace(server, grpc=oip_grpc, rest=oip_rest)
            by_infer = Subject(other, question, subject.running)
            asked = [(PREDICT, subject), (INFER, by_infer)]
            for each in range(TURNS * len(CONCURRENCY)):
                many = CONCURRENCY[each // TURNS]
                for name, one in asked[:: -1 if (turn + each) % 2 else 1]:
                    measured = one.load(given.interface, load, many, given.seconds / TURNS)
                    results[name, many].append(measured)
    headings = ["case", "requests/s", "CPU µs/request", "ratio of CPU to Predict's"]
    print(table(headings, [_row(name, many, results) for name, many in results]))


def _row(name: str, many: int, results: Results) -> list[str]:
    own, base = ([each.cpu_us for each in results[protocol, many]] for protocol in (name, PREDICT))
    speed = spread([each.sample.rps for each in results[name, many]])
    return [f"{name}, c{many}", speed, spread(own), ratio(own, base) if name != PREDICT else ""]

"""`make bench-hosted`: requests through host parts, beside TensorFlow in process.

Models of text, look-ups, Examples and images, written by TensorFlow. Each request is sent over gRPC
to a server, and the same values are given to TensorFlow in this process, one call after the other
in turns, so that whatever else the machine does hits both alike. Servers start anew in each round.
Needs tensorflow, so it runs in the environment of the tests.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from benchmarks import environments, hosted_models, servers
from benchmarks.calls import tfs_rest
from benchmarks.hosted_models import Inputs
from benchmarks.load import HOST, LARGEST
from benchmarks.report import table
from benchmarks.servers import Server, Target

COUNTS = (1, 16, 256)
PATH = "/tensorflow.serving.PredictionService/Predict"
NOTHING = "nothing"
"""The model whose first answer tells that a server is ready, and what a request costs anyway."""
Call = Callable[[], Any]
Judge = Callable[[Inputs], Inputs]
"""Answers as TensorFlow does, from numpy's values to numpy's."""
Waits = dict[tuple[str, int, str], list[float]]
"""Seconds of the median call in each round, by model, rows of a request, and who answered."""
JUDGE = "TensorFlow"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-hosted", description=__doc__)
    parser.add_argument("--base", help="Git revision to compare the working tree with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each cell and round")
    parser.add_argument("--only", nargs="*", default=list(hosted_models.MODELS), metavar="MODEL")
    given = parser.parse_args()
    models = list(dict.fromkeys([NOTHING, *given.only]))
    names = {"working tree": environments.PROJECT}
    if given.base:
        names["base"] = environments.snapshot(given.base)
    found: Waits = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for name in models:
            hosted_models.MODELS[name].write(root / name / "1")
        judges = {name: _judge(root / name / "1") for name in models}
        for _ in range(given.rounds):
            _round(root, names, judges, given.seconds, found)
    print(table(_headings(names), [*_rows(found, names, models)]))


def _judge(directory: Path) -> Judge:
    loaded = tf.saved_model.load(str(directory))  # kept: its variables live as long as it

    def answer(inputs: Inputs) -> Inputs:
        given = {name: tf.constant(value) for name, value in inputs.items()}
        found = loaded.signatures["serving_default"](**given)
        return {name: value.numpy() for name, value in found.items()}

    return answer


def _round(
    root: Path,
    names: Mapping[str, Path],
    judges: Mapping[str, Judge],
    seconds: float,
    found: Waits,
) -> None:
    with ExitStack() as stack:
        channels = {
            name: stack.enter_context(_serving(source, root, judges))
            for name, source in names.items()
        }
        for model, judge in judges.items():
            for count in COUNTS:
                inputs = hosted_models.MODELS[model].inputs(count)
                calls: dict[str, Call] = {JUDGE: partial(judge, inputs)}
                for name, channel in channels.items():
                    calls[name] = _call(channel, model, inputs)
                    _check(calls[name](), judge(inputs), model)
                for name, took in _in_turns(calls, seconds).items():
                    found[model, count, name].append(took)


def _call(channel: grpc.Channel, model: str, inputs: Inputs) -> Call:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    return partial(channel.unary_unary(PATH), request.SerializeToString())


def _check(reply: bytes, expected: Inputs, model: str) -> None:
    """Compare a reply with TensorFlow's. Raises: WrongReplyError."""
    outputs = predict_pb2.PredictResponse.FromString(reply).outputs
    for name, value in expected.items():
        got = tf.make_ndarray(outputs[name])
        if not np.allclose(got, value, rtol=0.02, atol=0.02 * np.abs(value).max()):
            raise servers.WrongReplyError(f"{model}: {name!r} is {got}, TensorFlow says {value}")


def _in_turns(calls: Mapping[str, Call], seconds: float) -> Mapping[str, float]:
    """Give the seconds of the median call of each, called one after the other."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    until = time.perf_counter() + seconds
    order, drawn = list(calls), random.Random(0)
    while time.perf_counter() < until or len(took[JUDGE]) < 5:
        for name in order:
            began = time.perf_counter()
            calls[name]()
            took[name].append(time.perf_counter() - began)
        drawn.shuffle(order)  # what ran before has warmed, or emptied, the caches
    return {name: median(each) for name, each in took.items()}


@contextmanager
def _serving(source: Path, root: Path, models: Sequence[str]) -> Iterator[grpc.Channel]:
    """Serve all models by the project as it is in `source`; gives a channel to the server."""

    def command(_: Path, target: Target) -> list[str]:
        entries = [{"config": {"name": name, "base_path": str(root / name)}} for name in models]
        config = target.scratch / "config.json"
        config.write_text(json.dumps({"model_config_list": entries}))
        ports = ("--port", str(target.grpc_port), "--rest_port", str(target.rest_port))
        run = "import sys; from ie_serving.app.command_line import main; sys.exit(main())"
        return [sys.executable, "-c", run, "config", "--config_path", str(config), *ports]

    server = Server(
        str(source),
        lambda: _built(source),
        command,
        None,
        tfs_rest,
        variables=lambda _, target: {"PYTHONPATH": str(source)},
    )
    probe = tfs_rest(NOTHING, hosted_models.MODELS[NOTHING].inputs(1))
    with tempfile.TemporaryDirectory() as scratch:
        target = servers.target(NOTHING, root, Path(scratch))
        with (
            servers.running(server, target, probe, lambda body: None),
            grpc.insecure_channel(f"{HOST}:{target.grpc_port}", options=LARGEST) as channel,
        ):
            yield channel


def _built(source: Path) -> Path:
    if not (source / "ie_serving/wire/protobuf/protos/descriptors.binpb").exists():
        build = (sys.executable, "setup.py", "--quiet", "build_protos")
        subprocess.run(build, cwd=source, check=True)
    return source


def _headings(names: Sequence[str]) -> list[str]:
    return ["model", "rows", f"{JUDGE} ms", *(f"{n} {w}" for n in names for w in ("ms", "ratio"))]


def _rows(found: Waits, names: Sequence[str], models: Sequence[str]) -> Iterator[list[str]]:
    for model in models:
        for count in COUNTS:
            base = found[model, count, JUDGE]
            row = [model, str(count), f"{median(base) * 1e3:.2f}"]
            for name in names:
                own = found[model, count, name]
                ratios = [mine / other for mine, other in zip(own, base, strict=True)]
                row += [f"{median(own) * 1e3:.2f}", f"{median(ratios):.2f}"]
            yield row


if __name__ == "__main__":
    main()

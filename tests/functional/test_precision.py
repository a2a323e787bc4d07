"""`inference_precision: auto`, and where the precision in use is told, over both interfaces."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from ie_serving.core.values.tensors import Array
from tests.functional.asking import predict_request
from tests.functional.conftest import Serve
from tests.functional.load import failure
from tests.functional.servers import Server, config_flag, rpc_refused
from tests.functional.storage.serving import several
from tests.process import PATIENCE_S, Process, output_of
from tests.unit.engines.openvino.models import parameter, result, save

HAS = ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
LOWER = {name for name, word in (("bf16", "BF16"), ("f16", "FP16")) if word in HAS} or {"f32"}
"""What may be chosen of this machine's precisions where the tolerance is wide."""
NARROW_CPU = {"ONEDNN_MAX_CPU_ISA": "AVX2"}
"""Lets OpenVINO use no more of a CPU than what has float32 alone."""
WIDTH, ROWS = 768, 64
MODELS = ("wide", "strict", "bare", "named")


def write(directory: Path, *, recorded: bool) -> None:
    """Write three layers, and a request for the warm-up."""
    random = np.random.default_rng(7)
    x = parameter("x", (-1, WIDTH))
    y = x
    for _ in range(3):
        weights = random.standard_normal((WIDTH, WIDTH)).astype(np.float32) / np.sqrt(WIDTH)
        y = op.relu(op.matmul(y, op.constant(weights.astype(np.float32)), False, False))
    save(directory, [result("y", y)], [x])
    if recorded:
        log = prediction_log_pb2.PredictionLog()
        log.predict_log.request.CopyFrom(predict_request("m", x=rows(ROWS)))
        path = directory / "assets.extra" / "tf_serving_warmup_requests"
        path.parent.mkdir()
        with tf.io.TFRecordWriter(str(path)) as writer:
            writer.write(log.SerializeToString())


def direct(path: Path, precision: str) -> Callable[[Array], Array]:
    """Give OpenVINO without a server."""
    config = {"INFERENCE_PRECISION_HINT": precision}
    model = ov.Core().compile_model(path, "CPU", config)
    return lambda x: np.asarray(model({"x": x})["y"])


def rows(count: int) -> Array:
    return np.random.default_rng(3).standard_normal((count, WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    write(root / "recorded" / "1", recorded=True)
    write(root / "bare" / "1", recorded=False)
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    entries: list[dict[str, object]] = [
        {"name": "wide", "base_path": "recorded", "precision_tolerance": 0.05},
        {"name": "strict", "base_path": "recorded", "precision_tolerance": 0},
        {"name": "bare", "base_path": "bare"},
        {"name": "named", "base_path": "recorded", "inference_precision": "f32"},
    ]
    flags = (config_flag(root / "config.json", *entries), "--inference_precision=auto")
    with Server("ie_serving", "config", *flags) as started:
        yield started.ready()


def precisions(server: Server) -> dict[str, str]:
    """Give the precision of each model, as the metrics tell it."""
    pattern = r'signatures\{model_name="(\w+)",precision="(\w+)"\} 1'
    return dict(re.findall(pattern, server.rest.get("/metrics").text))


def answered(server: Server, model: str, x: Array) -> tuple[Array, Array]:
    """Ask over gRPC and over REST."""
    over_grpc = server.prediction.Predict(predict_request(model, x=x), PATIENCE_S).outputs["y"]
    body = {"inputs": {"x": x.tolist()}}
    over_rest = server.rest.post(f"/v1/models/{model}:predict", json=body).json()["outputs"]
    return np.asarray(tf.make_ndarray(over_grpc)), np.array(over_rest, np.float32)


@pytest.mark.parametrize("model", MODELS)
def test_a_model_computes_in_the_precision_that_was_chosen(
    server: Server, root: Path, model: str
) -> None:
    """Its answers over both interfaces are those of OpenVINO in that precision."""
    x = rows(2)
    answers = answered(server, model, x)
    chosen = precisions(server)[model]
    path = root / "bare" / "1" / "model.xml"
    expected, full = direct(path, chosen)(x), direct(path, "f32")(x)
    # Another number of threads adds up in another order, which lower precisions show.
    atol = (1e-5 if chosen == "f32" else 2e-3) * np.abs(full).max()
    for found in answers:
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
        apart = np.abs(found - full).max() > 1e-4 * np.abs(full).max()
        assert apart == (chosen != "f32")


def test_metrics_and_log_tell_it(server: Server) -> None:
    found = precisions(server)
    wide, bare = found.pop("wide"), found.pop("bare")
    assert found == dict.fromkeys(("strict", "named"), "f32")
    assert bare in {"f32", *LOWER}  # of which no requests are known: by those that are made up
    chosen = [line for line in server.lines if "precision chosen" in line]
    assert len(chosen) == 3  # not of the model whose precision is named
    if "f32" in LOWER:
        assert any("the device has no lower" in line for line in chosen)
    # A processor may have a lower precision that is no faster, or that fails in an inference.
    why = ("of the time of f32", "tf_serving_warmup_requests fails")
    refused = any(each in line for each in why for line in chosen)
    assert wide in LOWER or (wide == "f32" and refused)


def test_a_dry_run_tells_it(root: Path) -> None:
    """Of a precision that is named: no time is measured."""
    base = f"--model_base_path={root / 'bare'}"
    command = ("tensorflow_model_server", "--dry_run", "--model_name=m", base)
    process = Process(*command, "--mixed_precision=bfloat16")
    # Where it is slow, on CPUs with AVX-512 alone, it is no capability, and computed all the same.
    asked = {"INFERENCE_PRECISION_HINT": "bf16"}
    compiled = ov.Core().compile_model(root / "bare" / "1" / "model.xml", "CPU", asked)
    has = compiled.get_property("INFERENCE_PRECISION_HINT") == ov.Type.bf16
    assert process.exit_code() == (0 if has else 1)
    assert process.lines[0].startswith("model m, version 1" + ("" if has else ": not served: CPU"))
    served, refused = "  serving_default: served by OpenVINO, in bf16", "change --mixed_precision"
    assert (served if has else refused) in process.lines[1]


def test_a_cpu_without_lower_precisions_computes_in_f32(root: Path) -> None:
    flags = (f"--model_path={root / 'recorded'}", "--inference_precision=auto")
    lines = output_of("ie_serving", "check", *flags, env=NARROW_CPU)
    assert lines == ["model recorded, version 1", "  serving_default: served by OpenVINO"]


def test_a_precision_that_the_cpu_lacks_fails_its_model_alone(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    """Both interfaces say why, and the other model answers as OpenVINO does."""
    models = {
        name: {"base_path": str(root / "bare"), "inference_precision": name}
        for name in ("f16", "f32")
    }
    flags = (*several(tmp_path / "config.json", models), "--allow_unavailable_models")
    server = serve("ie_serving", *flags, env=NARROW_CPU)
    (over_grpc,) = server.status("f16")
    for cause in (over_grpc.status.error_message, failure(server, 1, "f16")):
        assert "CPU does not compute in f16" in cause
    with rpc_refused("NOT_FOUND"):
        server.prediction.Predict(predict_request("f16", x=rows(1)), PATIENCE_S)
    body = {"inputs": rows(1).tolist()}
    assert server.rest.post("/v1/models/f16:predict", json=body).status_code == 404
    expected = direct(root / "bare" / "1" / "model.xml", "f32")(rows(2))
    for found in answered(server, "f32", rows(2)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())

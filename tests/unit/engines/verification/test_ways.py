"""Ways that live tuning tries: OpenVINO's graph for known shapes, and the second engine."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest
from onnx import TensorProto, helper

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.generated_requests import ValueKind
from ie_serving.engines.layers import live_tuning
from ie_serving.engines.layers.layer import Layer
from ie_serving.engines.layers.live_tuning import LiveTuningLayer
from ie_serving.engines.onnxruntime.driver import OnnxRuntimeEngine
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.preprocessing import Preprocessing
from ie_serving.engines.verification import verified_engine
from ie_serving.engines.verification.verdict import Findings
from ie_serving.engines.verification.verified_engine import VerifiedEngine
from tests.onnx_models import Of, save_onnx, save_repeated
from tests.process import PATIENCE_S
from tests.unit.engines.openvino.models import copies, parameter, result, save

AGREES = Findings("onnxruntime 1", 9)
SIZE, LONG = 256, 80
"""Numbers of a row, and products of a model that is tuned."""


class Found:
    """Gives findings without a comparison."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    def findings(self, *_: Any, **__: Any) -> Findings:
        return self._findings


def write(directory: Path, layers: int, rows: int | str = "n") -> Path:
    """Write y = relu(x) by so many products of ONNX."""
    nodes, name = [], "x"
    for layer in range(layers):
        nodes.append(helper.make_node("MatMul", [name, "one"], [f"m{layer}"]))
        nodes.append(helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"]))
        name = f"r{layer}"
    nodes.append(helper.make_node("Identity", [name], ["y"]))
    end, one = Of(TensorProto.FLOAT, [rows, SIZE]), np.eye(SIZE, dtype=np.float32)
    return save_onnx(directory / "model.onnx", nodes, {"x": end}, {"y": end}, one=one).parent


def write_known(directory: Path) -> Path:
    """Write the same as OpenVINO's IR, for one row."""
    x = y = parameter("x", [1, SIZE])
    for _ in range(LONG):
        y = op.relu(op.matmul(y, op.constant(np.eye(SIZE, dtype=np.float32)), False, False))
    return save(directory, [result("y", y)], [x])


def write_pairs(directory: Path) -> Path:
    """Write a graph with an operation that orders equal numbers otherwise if sizes are known."""
    x = parameter("x", [-1, 4])
    pairs = op.topk(x, np.int64(2), 1, "max", "value").output(0)
    return save(directory, [result("y", pairs)], [x])


def write_heavy(directory: Path) -> Path:
    """Write a graph whose weights take more memory than a second model may."""
    x = parameter("x", [-1, SIZE])
    weights = op.constant(np.zeros((SIZE, 33 << 12), np.float32))
    return save(directory, [result("y", op.matmul(x, weights, False, False))], [x])


class Elsewhere(OnnxRuntimeEngine):
    """Compiles another directory: an engine that takes as long as that."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def compile(self, directory: Path, options: EngineOptions) -> Any:
        return super().compile(self._directory, options)


def layer_of(model: CompiledModel) -> LiveTuningLayer | None:
    while not isinstance(model, LiveTuningLayer):
        if not isinstance(model, Layer):
            return None
        model = model.inner
    return model


async def infer(model: CompiledModel, inputs: Mapping[str, Array]) -> Array:
    return (await model.infer(model.signatures[SERVING_DEFAULT], inputs, copies))["y"]


async def until(
    caplog: pytest.LogCaptureFixture, text: str, model: CompiledModel, rows: int = 1
) -> None:
    caplog.set_level(logging.INFO)
    given = {"x": np.ones((rows, SIZE), np.float32)}

    async def ask() -> None:
        while text not in caplog.text:
            np.testing.assert_allclose(await infer(model, given), given["x"], 1e-5)
            await asyncio.sleep(0)

    await asyncio.wait_for(ask(), PATIENCE_S)


async def test_the_second_engine_serves_if_it_is_faster(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_tuning, "LEAST_COST_S", 0.0)
    own, other = write(tmp_path / "own", LONG, rows=1), write(tmp_path / "other", 1, rows=1)
    verified = VerifiedEngine(OpenVinoEngine(), Elsewhere(other), Found(AGREES))
    model = verified.compile(own, EngineOptions())
    await until(caplog, "way=onnxruntime", model)
    model.close()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
async def test_openvino_keeps_values_that_engines_treat_differently(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    value: float,
) -> None:
    monkeypatch.setattr(live_tuning, "LEAST_COST_S", 0.0)
    own, other = write(tmp_path / "own", LONG, rows=1), write(tmp_path / "other", 0, rows=1)
    verified = VerifiedEngine(OpenVinoEngine(), Elsewhere(other), Found(AGREES))
    model = verified.compile(own, EngineOptions())
    await until(caplog, "way=onnxruntime", model)
    row = np.ones((1, SIZE), np.float32)
    row[0, 0] = value
    expected = await infer(OpenVinoEngine().compile(own, EngineOptions()), {"x": row})
    np.testing.assert_array_equal(await infer(model, {"x": row}), expected)
    assert not np.array_equal(expected, row, equal_nan=True)  # the other engine would give it
    model.close()


async def test_openvino_serves_known_shapes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_tuning, "LEAST_COST_S", 0.0)
    # Beside other work, its shortest request may be no shorter; a functional test has one that is.
    monkeypatch.setattr(live_tuning, "SHARE", 1e9)
    monkeypatch.setattr(live_tuning, "LEAST_GAIN_S", -1e9)
    verified = VerifiedEngine(OpenVinoEngine(), OnnxRuntimeEngine(), Found(AGREES))
    model = verified.compile(
        save_repeated(tmp_path / "model.onnx", LONG).parent, EngineOptions(driver="openvino")
    )
    await until(caplog, 'way="known shapes"', model, rows=100)
    model.close()


@pytest.mark.parametrize("driver", ["auto", "openvino"])
@pytest.mark.parametrize("change", ["replaced", "deleted"])
async def test_files_that_change_after_the_load_open_no_way(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    change: str,
) -> None:
    monkeypatch.setattr(live_tuning, "LEAST_COST_S", 0.0)
    verified = VerifiedEngine(OpenVinoEngine(), OnnxRuntimeEngine(), Found(AGREES))
    model = verified.compile(write(tmp_path, LONG), EngineOptions(driver=driver))
    if change == "replaced":
        write(tmp_path, 1)
    else:
        (tmp_path / "model.onnx").unlink()
    await until(caplog, 'way="as loaded"', model)
    assert change == "deleted" or "upload changed files as a new version" in caplog.text
    model.close()


def own(**options: Any) -> EngineOptions:
    return EngineOptions().having(OpenVinoOptions(**options))


@pytest.mark.parametrize(
    ("findings", "options", "ways"),
    [
        pytest.param(AGREES, EngineOptions(), ["known shapes", "onnxruntime"], id="usual"),
        pytest.param(
            Findings(why_not="no time"), EngineOptions(), ["known shapes"], id="not compared"
        ),
        pytest.param(
            Findings("onnxruntime 1", 9, crashed={ValueKind.FINITE: "onnxruntime ended"}),
            EngineOptions(),
            ["known shapes"],
            id="crashed",
        ),
        pytest.param(AGREES, EngineOptions(driver="openvino"), ["known shapes"], id="OpenVINO"),
        pytest.param(AGREES, own(inference_precision="bf16"), ["known shapes"], id="a precision"),
        pytest.param(
            AGREES,
            own(inference_precision="bf16", is_precision_tried=True),
            ["known shapes", "onnxruntime"],
            id="a precision by trial",
        ),
        pytest.param(AGREES, own(batch_size=2), ["onnxruntime"], id="a setting for the batch"),
        pytest.param(AGREES, EngineOptions(verify="off"), ["known shapes"], id="no second engine"),
    ],
)
def test_ways_are_what_was_compared(
    tmp_path: Path, findings: Findings, options: EngineOptions, ways: list[str]
) -> None:
    verified = VerifiedEngine(OpenVinoEngine(), OnnxRuntimeEngine(), Found(findings))
    model = verified.compile(write(tmp_path, LONG), options)
    tuned = layer_of(model)
    assert tuned is not None
    assert [way.name for way in tuned.ways] == ways
    model.close()


@pytest.mark.parametrize(
    ("written", "options"),
    [
        pytest.param(partial(write, layers=1), EngineOptions(), id="short"),
        pytest.param(write_known, EngineOptions(), id="known sizes and no second engine"),
        pytest.param(partial(write, layers=LONG), own(shape=(2, SIZE)), id="a setting for sizes"),
        pytest.param(partial(write, layers=LONG), own(live_tuning="off"), id="off"),
        pytest.param(partial(write, layers=LONG), EngineOptions(ahead=True), id="batches"),
        pytest.param(
            partial(write, layers=LONG),
            EngineOptions().having(Preprocessing(mean=(1.0,))),
            id="preprocessing",
        ),
    ],
)
def test_other_models_are_not_tuned(
    tmp_path: Path, written: Callable[[Path], Path], options: EngineOptions
) -> None:
    verified = VerifiedEngine(OpenVinoEngine(), OnnxRuntimeEngine(), Found(AGREES))
    model = verified.compile(written(tmp_path), options)
    assert layer_of(model) is None
    model.close()


def test_a_large_model_is_not_tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified_engine, "MOST_TUNED", 1 << 10)
    verified = VerifiedEngine(OpenVinoEngine(), OnnxRuntimeEngine(), Found(AGREES))
    model = verified.compile(write(tmp_path, LONG), EngineOptions())
    assert layer_of(model) is None
    model.close()


@pytest.mark.parametrize(
    "replaced", [pytest.param(True, id="replaced"), pytest.param(False, id="gone")]
)
def test_files_that_changed_since_the_load_are_no_way(tmp_path: Path, replaced: bool) -> None:
    verified = VerifiedEngine(OpenVinoEngine(), OnnxRuntimeEngine(), Found(AGREES))
    model = verified.compile(write(tmp_path, LONG), EngineOptions())
    tuned = layer_of(model)
    assert tuned is not None
    if replaced:
        write(tmp_path, LONG + 1)
    else:
        (tmp_path / "model.onnx").unlink()
    for way in tuned.ways:
        with pytest.raises(LoadFailed, match="have changed since it was loaded"):
            way.opens({"x": (1, SIZE)})
    model.close()


async def test_openvino_compiles_for_shapes(tmp_path: Path) -> None:
    model = OpenVinoEngine().compile_for(write(tmp_path, 2), EngineOptions(), {"x": (1, SIZE)})
    assert model.signatures[SERVING_DEFAULT].inputs["x"].shape == (1, SIZE)
    row = np.ones((1, SIZE), np.float32)
    np.testing.assert_array_equal(await infer(model, {"x": row}), row)
    model.close()


@pytest.mark.parametrize(
    ("written", "shape", "cause"),
    [
        pytest.param(write_pairs, (2, 4), "TopK may give other outputs", id="another order"),
        pytest.param(write_heavy, (1, SIZE), "much memory twice", id="weights"),
        pytest.param(partial(write, layers=1), (1, 3), "shape", id="sizes that do not fit"),
    ],
)
def test_openvino_does_not_compile_for_shapes(
    tmp_path: Path, written: Callable[[Path], Path], shape: tuple[int, ...], cause: str
) -> None:
    with pytest.raises(LoadFailed, match=cause):
        OpenVinoEngine().compile_for(written(tmp_path), EngineOptions(), {"x": shape})

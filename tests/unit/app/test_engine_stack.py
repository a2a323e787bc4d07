"""What a default load of one model compiles, with all layers around its engine."""

import hashlib
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from onnx import helper

from ie_serving.app.engine_stack import VERIFIER, drivers, engine
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.tensorflow.fallback import TensorFlowFallback
from ie_serving.engines.verification import child
from ie_serving.engines.verification.verdict import ComparisonTask
from tests.onnx_models import save_onnx

WEIGHTS = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
F32 = EngineOptions().having(OpenVinoOptions(inference_precision="f32"))


def write_ir(directory: Path) -> None:
    write_onnx(directory)
    ov.save_model(ov.Core().read_model(directory / "model.onnx"), directory / "model.xml")
    (directory / "model.onnx").unlink()


def write_onnx(directory: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    save_onnx(directory / "model.onnx", nodes, {"x": ["n", 64]}, {"y": ["n", 64]}, w=WEIGHTS)


def keras() -> Any:
    import keras

    layers = [keras.Input((64,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(3, "softmax")]
    return keras.Sequential(layers)


def write_saved_model(directory: Path) -> None:
    """Write the signatures `serve` and `serving_default`, which compute the same."""
    keras().export(directory, verbose=False)


def write_lite(directory: Path) -> None:
    import tensorflow as tf

    data = tf.lite.TFLiteConverter.from_keras_model(keras()).convert()
    (directory / "model.tflite").write_bytes(data)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the programs that are compiled: graph, weights and properties of each."""
    programs: list[str] = []
    compile_model = ov.Core.compile_model

    def counting(core: ov.Core, model: ov.Model, device: str, config: Mapping[str, Any]) -> Any:
        digest = hashlib.sha256()
        for each in model.get_ordered_ops():
            shapes = [str(output.get_partial_shape()) for output in each.outputs()]
            digest.update(f"{each.get_type_name()} {shapes}".encode())
            if each.get_type_name() == "Constant":
                digest.update(each.data.tobytes())
        programs.append(f"{digest.hexdigest()} {sorted(map(str, config.items()))}")
        return compile_model(core, model, device, config)

    monkeypatch.setattr(ov.Core, "compile_model", counting)
    return programs


@pytest.mark.thinned
@pytest.mark.parametrize("ahead", [False, True], ids=["alone", "with batches"])
@pytest.mark.parametrize("write", [write_ir, write_onnx, write_saved_model, write_lite])
def test_no_program_is_compiled_twice_at_load(
    tmp_path: Path, compiled: list[str], write: Callable[[Path], None], ahead: bool
) -> None:
    """Another number of threads or rows, and another precision, makes another program."""
    write(tmp_path)
    compiled.clear()
    options = EngineOptions(ahead=ahead)
    engine(drivers(TensorFlowFallback()), options).compile(tmp_path, options).close()
    VERIFIER.close()
    assert compiled
    assert len(set(compiled)) == len(compiled)


@pytest.mark.parametrize("write", [write_onnx, write_lite])
def test_a_comparison_compiles_no_program_twice(
    tmp_path: Path, compiled: list[str], write: Callable[[Path], None]
) -> None:
    """In a process of its own, since an engine may crash there; a graph for NaN is another one."""
    write(tmp_path)
    compiled.clear()
    (file,) = tmp_path.glob("model.*")
    task = ComparisonTask(file, F32, large=False, limit_s=9, scratch=tmp_path / "scratch")
    child.compare(task, child.StepNotes(StringIO(), frozenset()))
    assert compiled
    assert len(set(compiled)) == len(compiled)

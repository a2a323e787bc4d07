"""`ie_serving verify`: a version beside its framework, and golden requests that it writes."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import tensorflow as tf
from onnx import helper

from ie_serving.config.dialects.verify import AGAINST
from ie_serving.engines.verification.frameworks import FRAMEWORKS
from tests.functional.exports import nonfinite
from tests.functional.servers import Server
from tests.onnx_models import save_onnx
from tests.process import Process


def verified(*words: object, code: int, cwd: Path | None = None) -> str:
    process = Process("ie_serving", "verify", *map(str, words), cwd=cwd)
    assert process.exit_code(100.0) == code, process.log
    return process.log


def write_onnx(directory: Path, node: onnx.NodeProto, *shape: int | None) -> Path:
    return save_onnx(directory / "model.onnx", [node], {"x": shape}, {"y": shape}).parent


def test_the_command_knows_each_framework() -> None:
    assert set(AGAINST) == FRAMEWORKS.keys()


@pytest.mark.parametrize(
    "names",
    [("above", "softmax"), pytest.param(tuple(nonfinite.FUNCTIONS), marks=pytest.mark.soak)],
)
def test_a_saved_model_is_alike_and_its_golden_requests_hold_it_to_that(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    version = tmp_path / "m" / "1"
    nonfinite.write(version, names)
    said = verified(version, "--against=tensorflow", "--write", code=0)
    assert "softmax: alike on " in said
    golden = json.loads((version / "golden.json").read_text())["requests"]
    assert {each["request"]["signature_name"] for each in golden} >= set(names)
    command = ("ie_serving", "model", "--model_name=m", f"--model_path={version.parent}")
    with Server(*command) as served:
        served.ready()
    values = golden[0]["response"]
    values["outputs"] = np.logical_not(values["outputs"]).tolist()
    (version / "golden.json").write_text(json.dumps({"requests": golden}))
    with Server(*command) as refused:
        refused.line("of golden.json: output")


@pytest.mark.parametrize("mapping", [{}, {"inputs": {"x": "pixels"}, "outputs": {"y": "scores"}}])
def test_an_onnx_model_is_alike(tmp_path: Path, mapping: dict[str, dict[str, str]]) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    version = write_onnx(tmp_path / "m" / "1", node, None, 4)
    (version / "mapping_config.json").write_text(json.dumps(mapping))
    assert "alike on " in verified(version, "--against=onnxruntime", code=0)
    assert not (version / "golden.json").exists()


def test_a_tflite_is_alike(tmp_path: Path) -> None:
    version = tmp_path / "m" / "1"
    version.mkdir(parents=True)
    function = tf.function(
        lambda x: {"y": tf.nn.softmax(x * 2.0)}, input_signature=[tf.TensorSpec([None, 3])]
    )
    module = tf.Module()
    module.f = function
    concrete = function.get_concrete_function()
    converted = tf.lite.TFLiteConverter.from_concrete_functions([concrete], module).convert()
    (version / "model.tflite").write_bytes(converted)
    assert "serving_default: alike on " in verified(version, "--against=litert", code=0)


def test_requests_may_be_given(tmp_path: Path) -> None:
    node = helper.make_node("Exp", ["x"], ["y"])
    version = write_onnx(tmp_path / "m" / "1", node, None, 2)
    lines = tmp_path / "requests"
    lines.write_text('{"inputs": [[1, 2]]}\n{"inputs": [[3, 4], [5, 6]]}\n')
    said = verified(version, "--against=onnxruntime", f"--requests={lines}", "--write", code=0)
    assert "alike on 2 requests" in said
    entries = json.loads((version / "golden.json").read_text())["requests"]
    np.testing.assert_allclose(entries[1]["response"]["outputs"], np.exp([[3, 4], [5, 6]]), 1e-5)


def test_an_answer_that_differs_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    """Two engines draw other random numbers."""
    node = helper.make_node("RandomUniformLike", ["x"], ["y"])
    version = write_onnx(tmp_path / "m" / "1", node, 8)
    said = verified(version, "--against=onnxruntime", "--write", code=1)
    assert 'serving_default: normal values (x [8]): output "y" differs' in said
    assert not (version / "golden.json").exists()


@pytest.mark.parametrize(
    ("words", "code", "cause"),
    [
        pytest.param(
            ("nowhere", "--against=tensorflow"), 2, "nowhere is no directory", id="no directory"
        ),
        pytest.param(
            (".", "--against=tensorflow", "--requests=nothing"),
            2,
            "there is no file nothing",
            id="no file of requests",
        ),
        pytest.param(
            (".", "--against=onnxruntime"), 1, "has 0 files *.onnx; expected one", id="no ONNX file"
        ),
        pytest.param(
            ("broken", "--against=onnxruntime"),
            1,
            "onnxruntime does not take the file",
            id="a broken ONNX file",
        ),
        pytest.param(
            *((".", "--against=tensorflow"), 1, "tensorflow does not take the version"),
            marks=pytest.mark.soak,
            id="a version that TensorFlow does not take",  # it imports TensorFlow
        ),
        pytest.param((".", "--against=caffe"), 2, "invalid choice: 'caffe'", id="another engine"),
    ],
)
def test_a_version_that_cannot_be_compared_is_told_with_its_cause(
    tmp_path: Path, words: tuple[str, ...], code: int, cause: str
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "model.onnx").touch()
    assert cause in verified(*words, code=code, cwd=tmp_path)

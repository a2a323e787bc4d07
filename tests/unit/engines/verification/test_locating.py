"""The operation of an ONNX model that differs first is named."""

from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, helper, load_model

from ie_serving.engines.base import EngineOptions
from ie_serving.engines.generated_requests import ValueKind
from ie_serving.engines.onnx_file import steps, with_outputs
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.reading import read
from ie_serving.engines.verification import child
from ie_serving.engines.verification.comparison import BY_SUFFIX
from ie_serving.engines.verification.verdict import ComparisonTask, Findings
from ie_serving.engines.verification.verifier import Verifier
from tests.onnx_models import save_onnx

F32 = EngineOptions(own=(OpenVinoOptions(inference_precision="f32"),))


def write(directory: Path, *nodes: NodeProto) -> Path:
    """Write a model of y by x, a picture of 4 by 4; `half` holds scales of one half."""
    x, y = {"x": [1, 1, 4, 4]}, {"y": [1, 1, None, None]}
    half = np.array([1, 1, 0.5, 0.5], np.float32)
    return save_onnx(directory / "model.onnx", nodes, x, y, opset=18, half=half)


def drawing(directory: Path) -> Path:
    """Write a model in which two engines draw other random numbers."""
    return write(
        directory,
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("RandomUniformLike", ["a"], ["r"]),
        helper.make_node("Add", ["a", "r"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    )


def test_the_findings_name_it(tmp_path: Path, verifier: Verifier) -> None:
    found = verifier.findings(drawing(tmp_path), F32)
    assert isinstance(found, Findings)
    assert found.differs[ValueKind.FINITE].endswith(
        '; the first operation that differs is RandomUniformLike "r"'
    )


def test_of_a_large_model_it_is_not_looked_for(tmp_path: Path) -> None:
    task = ComparisonTask(
        drawing(tmp_path), F32, large=True, limit_s=9, scratch=tmp_path / "scratch"
    )
    _, shows = child.compare(task, child.StepNotes(StringIO(), frozenset()))
    assert shows is None


def test_a_node_that_the_front_end_drops_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With our refusal switched off, by which such a model does not load."""
    monkeypatch.setattr(read, "refuse_unread", lambda *_: None)
    file = write(
        tmp_path,
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Resize", ["a", "", "half"], ["r"], mode="linear", antialias=1),
        helper.make_node("Neg", ["r"], ["y"]),
    )
    task = ComparisonTask(file, F32, large=False, limit_s=9, scratch=tmp_path / "scratch")
    _, shows = child.compare(task, child.StepNotes(StringIO(), frozenset()))
    assert shows is not None
    look = partial(
        child.first_different,
        task,
        shows,
        BY_SUFFIX[".onnx"].opened,
        partial(child.compiled_program, task),
    )
    assert look() == 'Resize "r"'
    assert not task.scratch.exists()
    monkeypatch.setattr(child, "MOST_OPERATIONS", 2)
    assert look() == ""


def test_outputs_are_added_to_a_file(tmp_path: Path) -> None:
    file = drawing(tmp_path)
    (tmp_path / "more.onnx").write_bytes(with_outputs(file.read_bytes(), ["a", "r" * 300]))
    model = load_model(tmp_path / "more.onnx")
    assert [each.name for each in model.graph.output] == ["y", "a", "r" * 300]
    assert [node.kind for node in steps(tmp_path / "more.onnx")] == [
        each.op_type for each in model.graph.node
    ]

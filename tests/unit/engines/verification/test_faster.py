"""Of a model that OpenVINO may compute slowly, the engine that answers sooner serves."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import SERVING_DEFAULT, Signature
from ie_serving.engines.base import REHEARSED, CompiledModel, EngineOptions
from ie_serving.engines.generated_requests import ValueKind
from ie_serving.engines.layers import own_loop
from ie_serving.engines.layers.layer import Layer
from ie_serving.engines.onnxruntime.driver import OnnxRuntimeEngine
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.verification.second_engine_layer import sooner
from ie_serving.engines.verification.verdict import Findings
from ie_serving.engines.verification.verified_engine import VerifiedEngine
from ie_serving.engines.verification.verifier import Verifier
from tests.onnx_models import Of, save_onnx

SIZE = 256
MANY = 12
"""Layers of which the time counts, beside one."""


def write(directory: Path, layers: int) -> Path:
    """Write so many products of integers, which both engines compute exactly."""
    nodes, name = [], "x"
    for layer in range(layers):
        nodes.append(helper.make_node("MatMulInteger", [name, "ones"], [f"whole{layer}"]))
        name = f"small{layer}"
        nodes.append(helper.make_node("Cast", [f"whole{layer}"], [name], to=TensorProto.INT8))
    nodes.append(helper.make_node("Identity", [name], ["y"]))
    end, ones = Of(TensorProto.INT8, ["n", "t", SIZE]), np.eye(SIZE, dtype=np.int8)
    file = directory / "model.onnx"
    return save_onnx(file, nodes, {"x": end}, {"y": end}, opset=13, ones=ones).parent


class Elsewhere(OnnxRuntimeEngine):
    """Compiles another directory: an engine that takes as long as that."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def compile(self, directory: Path, options: EngineOptions) -> Any:
        return super().compile(self._directory, options)


@pytest.mark.parametrize(
    ("layers", "others", "engine"),
    [(MANY, 1, "onnxruntime, since a request took"), (1, MANY, "Open")],
)
def test_the_engine_that_answers_sooner_serves(
    tmp_path: Path,
    verifier: Verifier,
    layers: int,
    others: int,
    engine: str,
) -> None:
    own, other = write(tmp_path / "own", layers), write(tmp_path / "other", others)
    verified = VerifiedEngine(OpenVinoEngine(), Elsewhere(other), verifier)
    options = EngineOptions().having(OpenVinoOptions(inference_precision="f32"))
    model = verified.compile(own, options)
    assert signature_of(model).runs_on.startswith(engine)
    model.close()


class RequestNotes(Layer):
    """Notes the values of `REHEARSED` during inferences."""

    def __init__(self, inner: CompiledModel) -> None:
        super().__init__(inner)
        self.rehearsed: set[bool] = set()

    def infer(self, *args: Any) -> Any:
        self.rehearsed.add(REHEARSED.get())
        return self.inner.infer(*args)


def test_measured_requests_do_not_count_as_those_of_clients(tmp_path: Path) -> None:
    model = OpenVinoEngine().compile(write(tmp_path, 1), EngineOptions())
    one, other = RequestNotes(model), RequestNotes(model)
    sooner(one, other)
    assert (one.rehearsed, other.rehearsed) == ({True}, {True})
    model.close()


def test_openvino_by_name_is_not_measured(tmp_path: Path, verifier: Verifier) -> None:
    own, other = write(tmp_path / "own", MANY), write(tmp_path / "other", 1)
    verified = VerifiedEngine(OpenVinoEngine(), Elsewhere(other), verifier)
    model = verified.compile(own, EngineOptions(driver="openvino"))
    assert signature_of(model).runs_on.startswith("OpenVINO")
    model.close()


@pytest.mark.parametrize("kind", [ValueKind.FINITE, ValueKind.EMPTY])
def test_the_faster_engine_does_not_serve_what_has_ended_its_process(
    tmp_path: Path, kind: ValueKind
) -> None:
    class Found:
        def findings(self, *_: Any, **__: Any) -> Findings:
            return Findings("onnxruntime 1", 9, crashed={kind: "onnxruntime ended its process"})

    own, other = write(tmp_path / "own", MANY), write(tmp_path / "other", 1)
    options = EngineOptions().having(OpenVinoOptions(inference_precision="f32"))
    model = VerifiedEngine(OpenVinoEngine(), Elsewhere(other), Found()).compile(own, options)
    signature = signature_of(model)
    assert signature.runs_on.startswith("Open" if kind is ValueKind.FINITE else "onnxruntime")
    if kind is ValueKind.EMPTY:
        with pytest.raises(InvalidTensor, match="onnxruntime crashes at no elements"):
            own_loop.run(model.infer(signature, {"x": np.zeros((0, 1, SIZE), np.int8)}, dict))
    model.close()


def signature_of(model: CompiledModel) -> Signature:
    return model.signatures[SERVING_DEFAULT]

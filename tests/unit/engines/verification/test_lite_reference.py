"""LiteRT as the second engine, in the process that compares, and what comes of its findings."""

import os
import re
import sys
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, copies
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.generated_requests import ValueKind
from ie_serving.engines.layers import own_loop
from ie_serving.engines.onnxruntime.driver import OnnxRuntimeEngine
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.verification import comparison, lite_reference
from ie_serving.engines.verification import verifier as module
from ie_serving.engines.verification.verdict import Findings
from ie_serving.engines.verification.verified_engine import VerifiedEngine
from ie_serving.engines.verification.verifier import Verifier

LITE = OpenVinoOptions(prefer_tflite_model=True, inference_precision="f32")


def load(directory: Path, verifier: Verifier, verify: str = "auto") -> CompiledModel:
    verified = VerifiedEngine(OpenVinoEngine(), OnnxRuntimeEngine(), verifier)
    return verified.compile(directory, EngineOptions(verify=verify).having(LITE))


def findings(directory: Path, verifier: Verifier) -> Findings:
    found = verifier.findings(directory / "model.tflite", EngineOptions().having(LITE))
    assert isinstance(found, Findings)
    return found


@pytest.mark.parametrize("name", ["lite", "plain", "defs"])
def test_each_signature_is_compared_wherever_it_is_declared(
    odd_exports: Path, verifier: Verifier, name: str
) -> None:
    found = findings(odd_exports / name / "1", verifier)
    assert not found.why_not
    assert ValueKind.FINITE not in found.differs
    assert found.reference.startswith("LiteRT ")
    # Each signature is asked more than five.
    assert found.asked > (10 if name == "lite" else 5)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param("nearest", 'normal values (x [2, 4, 4, 1]): output "', id="usual values"),
        pytest.param("quantized", 'normal values (x [2, 4, 4, 1]): output "', id="of 8 bits"),
        pytest.param("scatter", 'ones (i [3, 1], x [3, 2]): output "', id="equal integers"),
    ],
)
def test_the_second_engine_serves_a_model_that_openvino_answers_otherwise(
    lite_exports: Path, verifier: Verifier, name: str, shown: str
) -> None:
    (signature,) = load(lite_exports / name / "1", verifier).signatures.values()
    told = re.sub(r"\w+_([xi]) ", r"\1 ", signature.runs_on)
    assert re.match(r"LiteRT, since OpenVINO and LiteRT [\d.]+ differ: ", told)
    assert told.count(shown) == 1
    (signature,) = load(lite_exports / name / "1", verifier, "off").signatures.values()
    assert signature.runs_on == "OpenVINO"


def test_requests_with_values_that_differ_are_refused(
    lite_exports: Path, verifier: Verifier
) -> None:
    model = load(lite_exports / "most" / "1", verifier)
    signature = model.signatures[SERVING_DEFAULT]
    assert "; compared with LiteRT " in signature.runs_on
    assert signature.evidence is not None
    assert signature.evidence.result == "handed_over"
    x = np.array([[1, 3, 2]], np.float32)
    (y,) = own_loop.run(model.infer(signature, {"x": x}, copies)).values()
    assert y.tolist() == [3]
    x[0, 0] = np.nan
    with pytest.raises(InvalidTensor, match='input "x": OpenVINO may compute requests with NaN'):
        own_loop.run(model.infer(signature, {"x": x}, copies))


def test_a_model_with_equal_answers_is_served_as_it_is(
    lite_exports: Path, verifier: Verifier
) -> None:
    signature = load(lite_exports / "sum" / "1", verifier, "require").signatures[SERVING_DEFAULT]
    assert signature.evidence is not None
    assert signature.evidence.result == "alike"


def test_the_second_engine_serves_all_where_openvino_would_leave_out_a_signature(
    lite_exports: Path, verifier: Verifier
) -> None:
    model = load(lite_exports / "partly" / "1", verifier)
    for name, right in {SERVING_DEFAULT: [6], "flipped": [[0, 2, 3]]}.items():
        signature = model.signatures[name]
        assert re.match(
            r"LiteRT, since .*'flipped' .*: OpenVINO has no BITWISE_XOR:", signature.runs_on
        )
        x = {"x": np.array([[1, 3, 2]], np.float32)}
        (y,) = own_loop.run(model.infer(signature, x, copies)).values()
        assert y.tolist() == right


@pytest.mark.parametrize(("name", "exact"), [("nearest", [True]), ("quantized", [True, False])])
def test_a_quantized_model_is_compared_with_what_the_library_would_serve(
    lite_exports: Path, monkeypatch: pytest.MonkeyPatch, name: str, exact: list[bool]
) -> None:
    """The kernels without the default delegate take up to 200 times as long, and lie as far off."""
    opened, how = lite_reference.interpreter, list[bool]()

    def noted(*given: Any, exact: bool) -> Any:
        how.append(exact)
        return opened(*given, exact=exact)

    monkeypatch.setattr(lite_reference, "interpreter", noted)
    (reference,) = lite_reference.opened(lite_exports / name / "1" / "model.tflite")
    assert how == exact
    assert bool(reference.tensors.precision) == (name == "quantized")


def test_without_the_library_nothing_is_compared(
    lite_exports: Path, verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "find_spec", lambda name: None)
    signature = load(lite_exports / "nearest" / "1", verifier).signatures[SERVING_DEFAULT]
    assert signature.runs_on == "OpenVINO; not compared: LiteRT is not installed"
    with pytest.raises(LoadFailed, match=re.escape("pip install '.[litert]'")):
        load(lite_exports / "nearest" / "1", verifier, "require")


def test_a_file_that_openvino_does_not_read_fails_by_its_own_words(
    tmp_path: Path, verifier: Verifier
) -> None:
    (tmp_path / "model.tflite").write_bytes(b"no model at all")
    with pytest.raises(
        LoadFailed,
        match=r"^model\.tflite is not a TFLite model: upload what TFLiteConverter gives$",
    ):
        load(tmp_path, verifier)


def test_the_process_and_its_memory_end_when_nothing_comes(
    lite_exports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import sys; from ie_serving.engines.verification import child;"
        " child.IDLE_S = 0.5; child.run(int(sys.argv[1]))"
    )
    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", program))
    verifier = Verifier()
    assert findings(lite_exports / "sum" / "1", verifier).asked
    (child,) = verifier.idle
    process = child.process
    assert process is not None
    ended = os.pidfd_open(process.pid)
    assert wait([ended], 30)
    os.close(ended)
    verifier.close()

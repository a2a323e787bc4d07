"""Which signatures TensorFlow is given, and what those are told that it is not."""

from dataclasses import replace
from pathlib import Path

import pytest

from ie_serving.core.values.tensors import DataType, Signature, TensorSpec
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.preprocessing import Preprocessing
from ie_serving.engines.tensorflow import fallback
from ie_serving.engines.tensorflow.fallback import TensorFlowFallback
from ie_serving.engines.tensorflow.options import TensorFlowOptions
from tests.tables import named_by

OFF = EngineOptions()
ON = OFF.having(TensorFlowOptions(fallback=True))


def signature(tensor: str = "x:0") -> Signature:
    spec = TensorSpec("x", DataType.STRING, (-1,), tensor)
    return Signature("lines", {"x": spec}, {"y": spec}, left_out="cannot be converted")


def told(given: Signature, options: EngineOptions) -> str:
    """Take nothing over; what the signature is told."""
    taken, (other,) = TensorFlowFallback().take(Path("/nowhere"), [given], options)
    assert not taken
    assert other.name == given.name
    return other.left_out


def test_without_it_a_signature_is_told_how_to_turn_it_on() -> None:
    expected = "cannot be converted; TensorFlow can run it in a process of its own: set "
    assert told(signature(), OFF) == f"{expected}tensorflow.fallback"


def test_an_operation_that_tensorflow_has_no_kernel_of_is_not_advised_to_it() -> None:
    lost = 'OpenVINO has no Foo ("foo"), BoostedTreesBucketize ("a/BoostedTreesBucketize")'
    given = replace(signature(), left_out=lost)
    expected = f"{lost}; TensorFlow has no kernel of BoostedTreesBucketize any more"
    assert told(given, OFF) == expected


def test_without_both_one_line_says_what_to_install_and_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fallback, "LIBRARY", "no_such_library")
    assert told(signature(), OFF).endswith(
        ": set tensorflow.fallback, and install it: pip install '.[tensorflow]'"
    )


def test_without_the_library_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "LIBRARY", "no_such_library")
    assert told(signature(), ON).endswith("is not installed: pip install '.[tensorflow]'")


def test_a_tensor_without_a_name_cannot_be_fed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(signature(tensor=""), ON) == "cannot be converted"


def test_a_tensor_that_two_inputs_name_cannot_be_fed() -> None:
    inputs = signature().inputs
    given = replace(signature(), inputs={**inputs, "again": inputs["x"]})
    assert told(given, ON) == "cannot be converted"


@pytest.mark.parametrize("options", [OFF, ON], ids=["off", "on"])
@named_by(
    "named",
    ("own", "named"),
    [
        (OpenVinoOptions(shape=(4,)), "shape"),
        (OpenVinoOptions(batch_size=4), "batch_size"),
        (OpenVinoOptions(inference_precision="bf16"), "inference_precision"),
        (Preprocessing(mean=(1.0,)), "mean"),
    ],
)
def test_a_signature_that_it_would_run_without_a_setting_stays_left_out(
    options: EngineOptions, own: object, named: str
) -> None:
    expected = f"cannot be converted; TensorFlow could run it, but not with {named}: leave"
    assert told(signature(), options.having(own)).startswith(expected)

"""Models in the words of the Open Inference Protocol."""

import pytest

from ie_serving.core.tensors import DataType, Signature, TensorSpec
from ie_serving.core.versions import State, VersionStatus
from ie_serving.wire.kserve.metadata import model_index, model_metadata


def test_a_model_is_described_by_the_signature_that_is_run() -> None:
    spec = TensorSpec("x", DataType.FP32, (-1, 3), "x:0")
    text = TensorSpec("t", DataType.STRING, None, "t:0")
    told = model_metadata("m", {10: None, 9: None}, Signature("s", {"x": spec}, {"t": text}))
    assert told.name == "m"
    assert told.versions == ["9", "10"]
    assert told.inputs == [("x", "FP32", (-1, 3))]
    assert told.outputs == [("t", "BYTES", (-1,))]


@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [
        (VersionStatus(1, State.START, ""), "LOADING", ""),
        (VersionStatus(1, State.LOADING, ""), "LOADING", ""),
        (VersionStatus(1, State.LOADING, "no such file"), "UNAVAILABLE", "no such file"),
        (VersionStatus(1, State.AVAILABLE, "", "x is left out"), "READY", "x is left out"),
        (VersionStatus(1, State.UNLOADING, ""), "UNLOADING", ""),
        (VersionStatus(1, State.END, ""), "UNAVAILABLE", ""),
    ],
    ids=str,
)
def test_states_have_the_words_of_triton(status: VersionStatus, state: str, reason: str) -> None:
    assert model_index("m", status) == ("m", "1", state, reason)

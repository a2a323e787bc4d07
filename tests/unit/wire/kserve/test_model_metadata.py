"""Models in the words of the Open Inference Protocol."""

from dataclasses import replace

import pytest

from ie_serving.core.values.image_form import ImageForm
from ie_serving.core.values.tensors import DataType, Evidence, Signature, TensorSpec
from ie_serving.core.values.versions import State, VersionStatus
from ie_serving.wire.kserve import grpc_messages
from ie_serving.wire.kserve.model_metadata import model_index, model_metadata
from ie_serving.wire.protobuf import inference_messages as messages


def test_a_model_is_described_by_the_signature_that_is_run() -> None:
    spec = TensorSpec("x", DataType.FP32, (-1, 3), "x:0")
    text = TensorSpec("t", DataType.STRING, None, "t:0")
    told = model_metadata("m", {10: None, 9: None}, Signature("s", {"x": spec}, {"t": text}))
    assert told.name == "m"
    assert told.versions == ["9", "10"]
    assert told.inputs == [("x", "FP32", (-1, 3), {})]
    assert told.outputs == [("t", "BYTES", (-1,), {})]


def test_an_input_that_takes_images_says_what_they_become() -> None:
    form = ImageForm("NHWC", ((0, 9), (4, 4), (5, 5), (3, 3)), "RGB")
    image = TensorSpec("x", DataType.FP32, (-1, 4, 5, 3), "x:0", image=form)
    told = model_metadata(
        "m", {1: None}, Signature("s", {"x": image}, {"y": replace(image, image=None)})
    )
    assert told.inputs[0].as_json()["parameters"] == {"encoded_image": "4 x 5 RGB"}
    assert told.outputs[0].as_json().keys() == {"name", "datatype", "shape"}
    sent = messages.ModelMetadataResponse.FromString(grpc_messages.model_metadata(told))
    assert sent.inputs[0].parameters["encoded_image"].string_param == "4 x 5 RGB"
    assert not sent.outputs[0].parameters


def test_a_model_that_was_compared_says_with_what() -> None:
    spec = TensorSpec("x", DataType.FP32, (-1, 3), "x:0")
    told = model_metadata(
        "m",
        {1: None},
        Signature("s", {"x": spec}, {}, evidence=Evidence("alike", "compared with r 1")),
    )
    sent = messages.ModelMetadataResponse.FromString(grpc_messages.model_metadata(told))
    assert told.parameters == {"compared": "compared with r 1"}
    assert sent.parameters["compared"].string_param == "compared with r 1"


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

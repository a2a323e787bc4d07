"""Metadata that servers give over REST, in both forms of its JSON."""

import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import DataType, Signature, TensorSpec
from ie_serving.wire.clients.served_signatures import signatures_at, signatures_in
from ie_serving.wire.tfs.metadata import FORMS

SPECS = {
    "x": TensorSpec("x", DataType.FP32, (-1, 0, 3), "x:0"),
    "n": TensorSpec("n", DataType.INT64, (), "n:0"),
    "any": TensorSpec("any", DataType.STRING, None, "any:0"),
}


@pytest.mark.parametrize("form", FORMS)
def test_inputs_are_read(form: str) -> None:
    asked = []

    def get(place: str) -> bytes:
        asked.append(place)
        return FORMS[form]("m", 3, {"serving_default": Signature("serving_default", SPECS, SPECS)})

    found = signatures_at("http://a", ModelSpec("m/n", 3), get)
    assert asked == ["http://a/v1/models/m%2Fn/versions/3/metadata"]
    inputs = found["serving_default"].inputs
    assert {name: (spec.dtype, spec.shape) for name, spec in inputs.items()} == {
        name: (spec.dtype, spec.shape) for name, spec in SPECS.items()
    }


def test_a_signature_without_tensors_is_left_out() -> None:
    """As Keras' `model.export` writes one, which initializes tables."""
    x = {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "2"}]}}
    invalid = {"dtype": "DT_INVALID", "tensor_shape": {"dim": [], "unknown_rank": True}}
    held = {
        "serve": {"inputs": {"x": x}, "outputs": {"y": x}},
        "__saved_model_init_op": {"inputs": {}, "outputs": {"__saved_model_init_op": invalid}},
        "of_protobuf": {"inputs": {"a": {}}, "outputs": {}},
    }
    assert signatures_in({"signature_def": held}).keys() == {"serve"}


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"metadata": {}}', b"\xff"])
def test_what_is_no_metadata_is_told(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="address of the REST port"):
        signatures_at("http://a", ModelSpec("m"), lambda _: body)

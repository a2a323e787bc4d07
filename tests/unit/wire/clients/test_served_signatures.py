"""Metadata that servers give over REST, in both forms of its JSON."""

import json

import pytest

from ie_serving.core.values.tensors import DataType, Signature, TensorSpec
from ie_serving.wire.clients.served_signatures import signatures_in
from ie_serving.wire.tfs.metadata import FORMS

SPECS = {
    "x": TensorSpec("x", DataType.FP32, (-1, 0, 3), "x:0"),
    "n": TensorSpec("n", DataType.INT64, (), "n:0"),
    "any": TensorSpec("any", DataType.STRING, None, "any:0"),
}


@pytest.mark.parametrize("form", FORMS)
def test_inputs_are_read(form: str) -> None:
    served = FORMS[form]("m", 3, {"serving_default": Signature("serving_default", SPECS, SPECS)})
    held = json.loads(served)["metadata"]["signature_def"]
    found = signatures_in(held, with_outputs=False)
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

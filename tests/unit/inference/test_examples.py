"""Which signatures Classify and Regress take."""

from types import SimpleNamespace
from typing import Any

import pytest

from ie_serving.core.values.errors import InvalidRequest, PreconditionFailed
from ie_serving.core.values.tensors import DataType, Method, Signature, TensorSpec
from ie_serving.inference.examples import example_signature


def servable_with(method: str, *outputs: str) -> Any:
    """One signature that takes serialized Examples."""
    inputs = {"inputs": TensorSpec("inputs", DataType.STRING, (-1,), "inputs:0")}
    specs = {name: TensorSpec(name, DataType.FP32, (-1, 2), f"{name}:0") for name in outputs}
    signature = Signature("s", inputs, specs, method)
    return SimpleNamespace(name="m", version=1, signature_names="s", signatures={"s": signature})


@pytest.mark.parametrize("exported", list(Method))
def test_the_outputs_of_a_signature_decide_and_not_its_method(exported: Method) -> None:
    """TensorFlow 2 exports every signature with the method of Predict."""
    both = servable_with(exported.value, "scores", "outputs")
    for method in (Method.CLASSIFY, Method.REGRESS):
        assert example_signature(both, "s", method).name == "s"
    with pytest.raises(InvalidRequest, match='at least one of "classes" or "scores"'):
        example_signature(servable_with(exported.value, "outputs"), "s", Method.CLASSIFY)
    with pytest.raises(PreconditionFailed, match="No regression outputs found"):
        example_signature(servable_with(exported.value, "scores"), "s", Method.REGRESS)


def test_the_method_is_checked_for_each_caller_that_names_it() -> None:
    servable = servable_with(Method.CLASSIFY.value, "scores", "outputs")
    assert example_signature(servable, "s", Method.CLASSIFY, method_check=True).name == "s"
    phrase = "Expected regression signature method_name to be tensorflow/serving/regress. Was: "
    with pytest.raises(InvalidRequest, match=phrase + Method.CLASSIFY.value):
        example_signature(servable, "s", Method.REGRESS, method_check=True)

"""A compiled model is freed without Python's deallocation, which would lock the interpreter."""

import numpy as np
import openvino as ov
import openvino.opset15 as op
import psutil
import pytest

from ie_serving.engines.openvino.running import release as module
from ie_serving.engines.openvino.running.release import release
from tests.tables import named_by

WEIGHTS = 4096 * 4096 * 4


def compiled() -> ov.CompiledModel:
    """Compile a matrix product of 64 MB."""
    x = op.parameter([1, 4096], np.float32)
    weights = op.constant(np.ones((4096, 4096), np.float32))
    product = op.matmul(x, weights, False, False)
    return ov.Core().compile_model(ov.Model([op.result(product)], [x]), "CPU")


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


def test_the_weights_are_gone_while_python_still_has_the_object() -> None:
    model = compiled()
    before = resident()
    release(model)
    assert before - resident() > WEIGHTS // 2
    del model  # an empty one: freed a second time it would end this process


def test_a_model_that_a_request_still_uses_stays() -> None:
    model = compiled()
    request = model.create_infer_request()
    release(model)
    del model
    (product,) = request.infer({0: np.ones((1, 4096), np.float32)}).values()
    assert product.flat[0] == 4096


@named_by(
    "name",
    ("name", "value"),
    [("KNOWN", ("1.",)), ("TYPE", "none"), ("DESTRUCTOR", "none"), ("ABI", b"")],
)
def test_without_the_binding_as_it_is_known_python_frees(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    monkeypatch.setattr(module, name, value)
    module.known_binding.cache_clear()
    model = compiled()
    release(model)
    assert model.inputs
    module.known_binding.cache_clear()

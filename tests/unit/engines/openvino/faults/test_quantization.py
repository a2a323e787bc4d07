"""Fake quantization rounds halves as TensorFlow does."""

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest
import tensorflow as tf

from ie_serving.engines.openvino.faults.hazards import TENSORFLOW
from ie_serving.engines.openvino.graphs.rules import visit
from tests.unit.engines.openvino.models import parameter, result


@pytest.mark.parametrize("bits", [4, 8])
def test_halves_are_rounded_up_and_nothing_else_changes(bits: int) -> None:
    most, last = 6.0, 2**bits - 1
    steps = np.arange(0, last, dtype=np.float32)
    parts = np.array([0.25, 0.499, 0.5, 0.501, 0.75], np.float32)
    values = ((steps[:, np.newaxis] + parts) * np.float32(most / last)).ravel()
    values = np.concatenate([values, np.float32([0, 1, 3, 5, most, 7, -1])])
    x = parameter("x", (-1,))
    ends = [op.constant(np.float32(each)) for each in (0, most, 0, most)]
    model = ov.Model([result("y", op.fake_quantize(x, *ends, last + 1))], [x])
    visit(model, TENSORFLOW)
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    got = ov.Core().compile_model(model, "CPU", exact)(values)[0]
    expected = tf.quantization.fake_quant_with_min_max_args(values, 0, most, bits)
    np.testing.assert_allclose(got, expected.numpy(), atol=1e-6)

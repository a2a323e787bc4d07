"""Products of quantized models are right on CPUs that add them up in 16 bits, too."""

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array
from ie_serving.engines.openvino.faults import quantization
from ie_serving.engines.openvino.graphs.constants import float32
from ie_serving.engines.openvino.options import OpenVinoOptions
from tests.unit.engines.openvino.models import load, result, run, save

ROWS, SIZE, OUT = 3, 96, 24


def given(name: str, *shape: int) -> ov.Node:
    node = op.parameter([*shape], np.float32, name)
    node.output(0).set_names({name})
    return node


def quantized(node: object, low: float, high: float, levels: int = 256) -> ov.Node:
    ends = (float32(low), float32(high))
    return op.fake_quantize(node, *ends, *ends, levels)


def weights(largest: int, shape: tuple[int, ...] = (SIZE, OUT)) -> Array:
    values = np.random.default_rng(largest).integers(1, largest + 1, shape)
    values.flat[0] = largest
    return values.astype(np.int8)


def constant(values: Array) -> ov.Node:
    """As a converter of 8 bits writes them."""
    return op.multiply(op.convert(op.constant(values), "f32"), float32(1.0))


def quantized_constant(values: Array) -> ov.Node:
    """As a training tool writes them."""
    return quantized(op.constant(values.astype(np.float32)), -127, 127, 255)


def uneven_constant(values: Array) -> ov.Node:
    """In a range that lies around other numbers than 0."""
    return quantized(op.constant(values.astype(np.float32)), -200, 55)


def reshaped(node: ov.Node) -> ov.Node:
    return op.reshape(node, op.constant([64, 8]), special_zero=False)


def of(tmp_path: Path, second: ov.Node) -> Path:
    x = given("x", ROWS, SIZE)
    y = op.matmul(quantized(x, 0, 255), second, False, False)
    return save(tmp_path / "1", [result("y", y)], [x])


def inputs() -> Array:
    x = np.random.default_rng(7).integers(0, 256, (ROWS, SIZE)).astype(np.float32)
    x[0] = 255
    return x


@pytest.mark.parametrize("second", [constant, quantized_constant, uneven_constant])
@pytest.mark.parametrize("largest", [40, 64, 65, 127])
async def test_sums_of_products_are_right(tmp_path: Path, largest: int, second: object) -> None:
    values = weights(largest)
    model = load(of(tmp_path, second(values)))  # type: ignore[operator]
    answer = await run(model, {"x": inputs()})
    right = np.clip(values.astype(np.float32), None, 55 if second is uneven_constant else None)
    np.testing.assert_allclose(answer["y"], inputs() @ right, rtol=1e-4)


@pytest.mark.parametrize(
    ("shape", "second"),
    [
        ((64, 8), lambda z: quantized(z, -128, 127)),
        ((8, 64), lambda z: op.transpose(quantized(z, -127, 127, 255), op.constant([1, 0]))),
        ((8, 64), lambda z: op.relu(reshaped(quantized(z, -127, 127, 255)))),
    ],
    ids=["as they are", "transposed", "reshaped"],
)
async def test_two_inputs_of_8_bits_are_multiplied_right(
    tmp_path: Path, shape: tuple[int, int], second: Any
) -> None:
    """Also if one is moved before."""
    x, z = given("x", 2, 64), given("z", *shape)
    y = op.matmul(quantized(x, 0, 255), second(z), False, False)
    answer = await run(
        load(save(tmp_path / "1", [result("y", y)], [x, z])),
        {"x": np.full((2, 64), 255, np.float32), "z": np.full(shape, 127, np.float32)},
    )
    np.testing.assert_allclose(answer["y"], 64 * 255 * 127, rtol=1e-4)


@pytest.mark.parametrize(
    ("second", "largest", "unsafe"),
    [
        (constant, 64, False),
        (constant, 65, True),
        (quantized_constant, 64, False),
        (quantized_constant, 66, True),
    ],
)
def test_weights_that_fit_stay_in_8_bits(
    tmp_path: Path,
    second: object,
    largest: int,
    unsafe: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quantization, "saturates", lambda: True)
    file = of(tmp_path, second(weights(largest))) / "model.xml"  # type: ignore[operator]
    model = ov.Core().read_model(file)
    found = quantization.properties_for(model, OpenVinoOptions())
    assert found == (quantization.IN_FLOATS if unsafe else {})
    assert quantization.properties_for(model, OpenVinoOptions(integers="fast")) == {}
    monkeypatch.setattr(quantization, "saturates", lambda: False)
    assert quantization.properties_for(model, OpenVinoOptions()) == {}


def test_models_of_floats_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> bool:
        raise AssertionError

    monkeypatch.setattr(quantization, "saturates", asked)
    x = given("x", ROWS, SIZE)
    packed = ov.Model([op.matmul(x, constant(weights(127)), False, False)], [x], "m")
    assert quantization.properties_for(packed, OpenVinoOptions()) == {}


def test_such_models_can_be_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantization, "saturates", lambda: True)
    with pytest.raises(LoadFailed, match="products of 8 bits in 16 bits"):
        load(of(tmp_path, constant(weights(127))), integers="refuse")

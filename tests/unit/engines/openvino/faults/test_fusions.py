"""Values per channel behind a reduction of three dimensions are those of their own channels."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.engines.openvino.faults.fusions import RULES
from ie_serving.engines.openvino.graphs.rules import Rules, visit
from tests.unit.engines.openvino.models import load, parameter, result, run, save

ROWS = np.arange(24, dtype=np.float32).reshape(3, 2, 4) / 24 + 0.5
REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "mean": (op.reduce_mean, np.mean),
    "sum": (op.reduce_sum, np.sum),
    "max": (op.reduce_max, np.max),
    "min": (op.reduce_min, np.min),
    "product": (op.reduce_prod, np.prod),
    "l1": (op.reduce_l1, np.sum),
}


def channels(rank: int, axis: int, keeps: bool) -> Any:
    """Values for the two channels, by the dimension in which they lie behind the reduction."""
    place = 0 if axis == 0 and not keeps else 1
    return np.array([100, -200], np.float32).reshape(
        [2 if at == place else 1 for at in range(rank)]
    )


@pytest.mark.parametrize("open_rows", [True, False])
@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("axis", [0, 2, -1])
@pytest.mark.parametrize("name", REDUCTIONS)
async def test_channels_behind_a_reduction_are_its_own(
    tmp_path: Path, name: str, axis: int, keeps: bool, open_rows: bool
) -> None:
    reduce, means = REDUCTIONS[name]
    x = parameter("x", (-1 if open_rows else 3, 2, 4))
    reduced = reduce(x, op.constant(np.array([axis], np.int64)), keeps)
    expected = means(ROWS, axis=axis, keepdims=keeps)
    values = channels(expected.ndim, axis, keeps)
    # One reader: what several operations read is not fused.
    scaled = op.multiply(op.sqrt(reduced), op.constant(values))
    model = load(save(tmp_path, [result("y", scaled)], [x]))
    answer = await run(model, {"x": ROWS})
    np.testing.assert_allclose(answer["y"], np.sqrt(expected) * values, rtol=1e-5)


def test_a_normalization_of_layers_is_left_as_it_is() -> None:
    """What subtracts the mean from its own data is fused otherwise, and must stay so."""
    x = parameter("x", (-1, 2, 4))
    axes = op.constant(np.array([2], np.int64))
    centred = op.subtract(x, op.reduce_mean(x, axes, True))
    variance = op.reduce_mean(op.multiply(centred, centred), axes, True)
    scaled = op.divide(centred, op.sqrt(op.add(variance, op.constant(np.float32(1e-6)))))
    model = ov.Model([result("y", op.multiply(scaled, op.constant(np.ones(4, np.float32))))], [x])
    visit(model, Rules(RULES))
    assert "Unsqueeze" not in {node.get_type_name() for node in model.get_ops()}

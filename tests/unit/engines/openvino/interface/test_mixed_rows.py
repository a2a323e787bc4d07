"""Rows stay apart when a model takes other shapes than it was exported with."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import openvino.opset15 as op
import pytest

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import Array, DataType
from tests.unit.engines.openvino.models import Shape, load, run, unary

WEIGHTS = np.random.default_rng(4).standard_normal((8, 3)).astype(np.float32)


def flattening(directory: Path, shape: Shape, pattern: Sequence[int], special: bool) -> Path:
    """Write y = flat(x) W, for rows of 2 by 4."""
    flat = op.constant(np.array(pattern, np.int64))
    return unary(
        directory,
        shape,
        DataType.FP32,
        lambda x: op.matmul(op.reshape(x, flat, special), op.constant(WEIGHTS), False, False),
    )


def rows_of(*shape: int) -> Array:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


PATTERNS = pytest.mark.parametrize(
    ("pattern", "special"),
    [
        pytest.param((0, 8), True, id="keeps the first"),
        pytest.param((0, -1), True, id="as ONNX flattens"),
        pytest.param((1, 8), False, id="one row"),
        pytest.param((1, -1), False, id="one row of any size"),
    ],
)


@PATTERNS
async def test_a_larger_image_is_refused_and_not_made_several_rows(
    tmp_path: Path, pattern: tuple[int, int], special: bool
) -> None:
    model = load(
        flattening(tmp_path, [1, 2, 4], pattern, special), shape="auto", inference_precision="f32"
    )
    with pytest.raises(InvalidTensor, match="would make 4 rows of 1"):
        await run(model, {"x": rows_of(1, 4, 8)})
    for batch in (1, 3):
        x = rows_of(batch, 2, 4)
        answer = await run(model, {"x": x})
        np.testing.assert_allclose(answer["y"], x.reshape(batch, 8) @ WEIGHTS, rtol=1e-4, atol=1e-5)


@PATTERNS
def test_a_shape_that_would_mix_rows_fails_the_load(
    tmp_path: Path, pattern: tuple[int, int], special: bool
) -> None:
    flattening(tmp_path, [1, 2, 4], pattern, special)
    with pytest.raises(LoadFailed, match=r"reshaped to x=\(1, 4, 8\): .* would make 4 rows of 1"):
        load(tmp_path, shape=(1, 4, 8))
    assert load(tmp_path, batch_size=4)


async def test_a_model_whose_sizes_are_open_itself_refuses_as_well(tmp_path: Path) -> None:
    model = load(flattening(tmp_path, [-1, -1, -1], (0, 8), True))
    with pytest.raises(InvalidTensor, match=r"would make \[1,8\] of \[1,4,8\], .* 32 numbers"):
        await run(model, {"x": rows_of(1, 4, 8)})
    assert (await run(model, {"x": rows_of(2, 2, 4)}))["y"].shape == (2, 3)


async def test_rows_that_the_model_leaves_open_are_made_as_it_says(tmp_path: Path) -> None:
    """Words of several texts in one list, for example: as many rows as there are."""
    model = load(flattening(tmp_path, [1, 2, 4], (-1, 8), False), shape="auto")
    assert (await run(model, {"x": rows_of(1, 4, 8)}))["y"].shape == (4, 3)

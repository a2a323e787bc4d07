"""Requests of odd shapes are refused, and leave the requests behind them as they were."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.openvino.running.shape_inference import unfit
from tests.unit.engines.openvino.models import constant, load, run, unary

ONE_THREAD = {"INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1"}
PATCHES = {"sizes": [2, 2], "strides": [1, 1], "rates": [1, 1], "auto_pad": "valid"}


def counted(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1


Body = Callable[[Any], Any]
UNKNOWN_RANK: dict[str, Body] = {
    "greatest": lambda x: op.topk(x, constant(1), 0, "max", "value"),
    "squeeze": lambda x: op.squeeze(x, constant([0])),
    "slopes": lambda x: op.prelu(x, constant([1], np.float32)),
}
CASES: dict[str, tuple[list[int], Body, tuple[int, ...], list[tuple[int, ...]]]] = {
    "depth to space": (
        [1, -1, 2, 2],
        lambda x: op.depth_to_space(op.relu(x), "blocks_first", 2),
        (1, 4, 2, 2),
        [(1, 0, 2, 2), (1, 3, 2, 2)],
    ),
    "space to depth": (
        [1, 1, -1, -1],
        lambda x: op.space_to_depth(op.relu(x), "blocks_first", 2),
        (1, 1, 4, 4),
        [(1, 1, 0, 4), (1, 1, 3, 4)],
    ),
    "squeeze": (
        [-1, -1],
        lambda x: op.multiply(op.squeeze(op.relu(x), constant([0])), constant(2, np.float32)),
        (1, 3),
        [(2, 3), (0, 3)],
    ),
    "rows": (
        [-1, -1, -1],
        lambda x: op.reshape(op.relu(x), constant([0, 8]), special_zero=True),
        (2, 2, 4),
        [(1, 4, 8), (2, 3, 4)],
    ),
    "slopes": (
        [-1, -1],
        lambda x: op.prelu(op.negative(x), constant([1, 2, 3], np.float32)),
        (2, 3),
        [(3, 1), (3, 2), (0, 2)],
    ),
    "greatest": (
        [-1],
        lambda x: op.topk(op.relu(x), constant(3), 0, "max", "value").output(0),
        (4,),
        [(2,), (0,)],
    ),
    "reverse": (
        [-1, -1],
        lambda x: op.reverse_sequence(op.relu(x), constant([3], np.int32), 0, 1),
        (1, 4),
        [(1, 2), (2, 4)],
    ),
    "patches": (
        [1, 1, -1, -1],
        lambda x: op.extract_image_patches(op.relu(x), **PATCHES),
        (1, 1, 4, 4),
        [(1, 1, 0, 4)],
    ),
    "bags": (
        [-1],
        lambda x: op.embedding_bag_offsets_sum(
            constant(np.arange(6).reshape(3, 2), np.float32),
            op.floor_mod(op.convert(x, "i64"), constant(3)),
            constant([0, 2]),
        ),
        (3,),
        [(1,), (0,)],
    ),
    "places": (
        [-1],
        lambda x: op.convert(op.search_sorted(op.relu(x), constant([1.5], np.float32)), "f32"),
        (3,),
        [(0,)],
    ),
    "unlike rows": (
        [-1, 2],
        lambda x: op.unique(op.relu(x), constant(0)).output(0),
        (3, 2),
        [(0, 2)],
    ),
}


@pytest.mark.parametrize("body", UNKNOWN_RANK.values(), ids=UNKNOWN_RANK)
def test_of_an_unknown_rank_nothing_is_said(body: Body) -> None:
    assert unfit(body(op.parameter(ov.PartialShape.dynamic(), np.float32))) is None


@pytest.mark.parametrize("execution", ["inline", "async"])
@pytest.mark.parametrize("config", [{}, ONE_THREAD], ids=["all threads", "one thread"])
@pytest.mark.parametrize(("shape", "body", "good", "bad"), CASES.values(), ids=CASES)
async def test_a_request_that_does_not_fit_spoils_no_other(
    tmp_path: Path,
    shape: list[int],
    body: Body,
    good: tuple[int, ...],
    bad: list[tuple[int, ...]],
    config: dict[str, str],
    execution: str,
) -> None:
    """OpenVINO alone may answer it as the one before, and valid ones behind it by its shape."""
    directory = unary(tmp_path, shape, DataType.FP32, body)
    model = load(directory, execution=execution, plugin_config=config, inference_precision="f32")
    expected = (await run(model, {"x": counted(*good)}))["y"]
    for each in bad * 2:
        with pytest.raises(InvalidRequest):
            await run(model, {"x": counted(*each)})
        for _ in range(2):
            assert np.array_equal((await run(model, {"x": counted(*good)}))["y"], expected)

"""Activations and products along an axis that OpenVINO's front end for ONNX lacks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, helper

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from tests.unit.engines.openvino.models import load, run
from tests.unit.engines.openvino.operators.asked import check, floats, write


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("alpha", [0.5, 2.0])
async def test_celu(tmp_path: Path, kind: Any, alpha: float) -> None:
    given = {"x": (floats(2, 5) * 4).astype(kind)}
    write(tmp_path, helper.make_node("Celu", ["x"], ["y"], alpha=alpha), given, {"x": (0,)})
    await check(tmp_path, given, atol=1e-2 if kind is np.float16 else 1e-5)


@pytest.mark.parametrize("opened", [(), (0, 1)])
async def test_swiglu(tmp_path: Path, opened: tuple[int, ...]) -> None:
    given = {"a": floats(2, 5) * 4, "b": floats(2, 5)}
    node = helper.make_node("SwiGLU", ["a", "b"], ["y"], alpha=0.5)
    await check(write(tmp_path, node, given, dict.fromkeys("ab", opened)), given)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 5, 8])
async def test_products_are_cumulated(
    tmp_path: Path, size: int, reverse: int, exclusive: int
) -> None:
    given = {"x": floats(3, size) + 2}
    node = helper.make_node("CumProd", ["x", "a"], ["y"], reverse=reverse, exclusive=exclusive)
    write(tmp_path, node, given, {"x": (0,)}, {"a": np.array(-1)})
    await check(tmp_path, given, rtol=1e-5)


async def test_integers_are_multiplied_exactly(tmp_path: Path) -> None:
    given = {"x": np.array([3, 16_777_217, 7, -2], np.int32)}
    node = helper.make_node("CumProd", ["x", "a"], ["y"])
    write(tmp_path, node, given, held={"a": np.array(0)})
    assert (await run(load(tmp_path), given))["y"].tolist() == [3, 50331651, 352321557, -704643114]


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
async def test_a_request_chooses_the_axis(tmp_path: Path, axis: int) -> None:
    given = {"x": floats(2, 3), "a": np.array(axis)}
    await check(write(tmp_path, helper.make_node("CumProd", ["x", "a"], ["y"]), given), given)


@pytest.mark.parametrize("axis", [2, -3])
async def test_an_axis_that_is_not_there_is_refused(tmp_path: Path, axis: int) -> None:
    given = {"x": floats(2, 3), "a": np.array(axis)}
    loaded = load(write(tmp_path, helper.make_node("CumProd", ["x", "a"], ["y"]), given))
    with pytest.raises(InvalidRequest, match="out of range"):
        await run(loaded, given)


def test_products_along_an_open_axis_are_refused(tmp_path: Path) -> None:
    write(
        tmp_path,
        helper.make_node("CumProd", ["x", "a"], ["y"]),
        {"x": floats(2, 3)},
        {"x": (1,)},
        {"a": np.array(1)},
    )
    with pytest.raises(LoadFailed, match='CumProd "y" is not computed where size 1 of an input'):
        load(tmp_path)


def test_an_axis_of_the_file_that_is_out_of_range_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("CumProd", ["x", "a"], ["y"])
    write(tmp_path, node, {"x": floats(3, 2)}, {}, {"a": np.array(5)})
    with pytest.raises(LoadFailed, match="axis 5 is out of range"):
        load(tmp_path)


@pytest.mark.parametrize("kind", ["ReduceL1", "ReduceLogSum", "ReduceLogSumExp"])
@pytest.mark.parametrize("opened", [(), (0, 1, 2)])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [(0, -1), ()], ids=str)
async def test_axes_that_are_an_attribute_are_reduced(
    tmp_path: Path, kind: str, opened: tuple[int, ...], keepdims: int, axes: tuple[int, ...]
) -> None:
    """The front end looks for them among the inputs from opset 13 on, and reduced all axes."""
    given = {"x": floats(2, 3, 4) * 9 + 10}
    node = helper.make_node(kind, ["x"], ["y"], keepdims=keepdims)
    node.attribute.append(helper.make_attribute("axes", axes, attr_type=AttributeProto.INTS))
    await check(write(tmp_path, node, given, {"x": opened}, opset=17), given, rtol=1e-5)

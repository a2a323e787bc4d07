"""Axes that a request chooses are those of the answer, or are refused."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from tests.unit.engines.openvino.models import load, run
from tests.unit.engines.openvino.operators.asked import Given, check, floats, write


@pytest.mark.parametrize("opened", [{}, {"x": (0, 1)}], ids=["fixed", "open"])
async def test_sizes_of_1_are_put_in(tmp_path: Path, opened: dict[str, tuple[int, ...]]) -> None:
    asked = [
        {"x": floats(2, 3), "a": np.array(axes)} for axes in ([0, 1], [2, 0], [-1, 1], [3, -4])
    ]
    write(tmp_path, helper.make_node("Unsqueeze", ["x", "a"], ["y"]), asked[0], opened)
    await check(tmp_path, *asked)


@pytest.mark.parametrize(
    "kind", ["ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2", "ReduceLogSum"]
)
@pytest.mark.parametrize("axes", [[0, 1], [-1, 0], [2, 1], [2, 0, 1]])
async def test_reduced_axes_are_left_out(tmp_path: Path, kind: str, axes: list[int]) -> None:
    given = {"x": floats(2, 3, 4) + 2, "a": np.array(axes)}
    node = helper.make_node(kind, ["x", "a"], ["y"], keepdims=0)
    await check(write(tmp_path, node, given, opset=18), given)


@pytest.mark.parametrize("opened", [{}, {"x": (0, 2)}], ids=["fixed", "open"])
async def test_parts_are_cut_out(tmp_path: Path, opened: dict[str, tuple[int, ...]]) -> None:
    limits = [
        ([1, 0], [3, 2], [2, 0], [1, 1]),
        ([-1, 9], [-9, 2**31 - 1], [-1, 0], [-2, 1]),
        ([-9, 2], [1, -9], [-3, 1], [1, -1]),
    ]
    asked = [
        {"x": floats(3, 3, 5), **dict(zip("bear", map(np.array, each), strict=True))}
        for each in limits
    ]
    write(tmp_path, helper.make_node("Slice", list("xbear"), ["y"]), asked[0], opened)
    await check(tmp_path, *asked)


@pytest.mark.parametrize(
    ("kind", "shape", "more"),
    [
        ("Unsqueeze", (2, 3), {}),
        ("ReduceSum", (2, 3, 1, 4), {}),
        ("Slice", (2, 3, 1, 4), {"b": np.array([0, 0]), "e": np.array([1, 1])}),
    ],
)
async def test_axes_that_are_not_there_or_named_twice_are_refused(
    tmp_path: Path, kind: str, shape: tuple[int, ...], more: Given
) -> None:
    given = {"x": floats(*shape), **more, "a": np.array([0, 1])}
    keeps = {"keepdims": 0} if kind == "ReduceSum" else {}
    model = load(write(tmp_path, helper.make_node(kind, list(given), ["y"], **keeps), given))
    for axes in [1, 1], [2, 2], [0, -4], [0, 4], [-5, 1]:
        with pytest.raises(InvalidRequest):
            await run(model, {**given, "a": np.array(axes)})


def test_axes_of_any_number_are_refused(tmp_path: Path) -> None:
    given = {"x": floats(3, 3), "b": np.array([0]), "e": np.array([2]), "a": np.array([1])}
    write(
        tmp_path, helper.make_node("Slice", list("xbea"), ["y"]), given, dict.fromkeys("bea", (0,))
    )
    with pytest.raises(LoadFailed, match="are values of a request"):
        load(tmp_path)


async def test_axes_that_follow_from_shapes_leave_sizes_known(tmp_path: Path) -> None:
    """The front end computes those of a kernel's zero points, and the plugin asks for its sizes."""
    given = {
        "x": np.arange(2, 11, dtype=np.uint8).reshape(1, 1, 3, 3),
        "w": np.ones((2, 1, 2, 2), np.uint8),
        "z": np.array(1, np.uint8),
        "zs": np.array([0, 1], np.uint8),
    }
    node = helper.make_node("ConvInteger", list(given), ["y"])
    await check(write(tmp_path, node, given), given)

"""Axes that a request chooses are those of the answer, or are refused."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from tests.unit.engines.openvino.models import load, run
from tests.unit.engines.openvino.operators.asked import check, floats, write


@pytest.mark.parametrize("opened", [{}, {"x": (0, 1)}], ids=["fixed", "open"])
@pytest.mark.parametrize("axes", [[0, 1], [2, 0], [-1, 1], [3, -4]])
async def test_sizes_of_1_are_put_in(
    tmp_path: Path, axes: list[int], opened: dict[str, tuple[int, ...]]
) -> None:
    given = {"x": floats(2, 3), "a": np.array(axes)}
    await check(
        write(tmp_path, helper.make_node("Unsqueeze", ["x", "a"], ["y"]), given, opened), given
    )


@pytest.mark.parametrize(
    "kind", ["ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2", "ReduceLogSum"]
)
@pytest.mark.parametrize("axes", [[0, 1], [-1, 0], [2, 1], [2, 0, 1]])
async def test_reduced_axes_are_left_out(tmp_path: Path, kind: str, axes: list[int]) -> None:
    given = {"x": floats(2, 3, 4) + 2, "a": np.array(axes)}
    node = helper.make_node(kind, ["x", "a"], ["y"], keepdims=0)
    await check(write(tmp_path, node, given, opset=18), given)


@pytest.mark.parametrize("opened", [{}, {"x": (0, 2)}], ids=["fixed", "open"])
@pytest.mark.parametrize(
    ("begin", "end", "axes", "step"),
    [
        ([1, 0], [3, 2], [2, 0], [1, 1]),
        ([-1, 9], [-9, 2**31 - 1], [-1, 0], [-2, 1]),
        ([-9, 2], [1, -9], [-3, 1], [1, -1]),
    ],
)
async def test_parts_are_cut_out(
    tmp_path: Path,
    begin: list[int],
    end: list[int],
    axes: list[int],
    step: list[int],
    opened: dict[str, tuple[int, ...]],
) -> None:
    limits = {
        name: np.array(each) for name, each in zip("bear", (begin, end, axes, step), strict=True)
    }
    given = {"x": floats(3, 3, 5), **limits}
    node = helper.make_node("Slice", ["x", *limits], ["y"])
    await check(write(tmp_path, node, given, opened), given)


@pytest.mark.parametrize("axes", [[1, 1], [2, 2], [0, -4], [0, 4], [-5, 1]])
@pytest.mark.parametrize(
    ("kind", "shape"), [("Unsqueeze", (2, 3)), ("ReduceSum", (2, 3, 1, 4)), ("Slice", (2, 3, 1, 4))]
)
async def test_axes_that_are_not_there_or_named_twice_are_refused(
    tmp_path: Path, kind: str, shape: tuple[int, ...], axes: list[int]
) -> None:
    given = {"x": floats(*shape), "a": np.array(axes)}
    limits = {"b": np.array([0, 0]), "e": np.array([1, 1])} if kind == "Slice" else {}
    node = helper.make_node(
        kind, ["x", *limits, "a"], ["y"], **({"keepdims": 0} if kind == "ReduceSum" else {})
    )
    loaded = load(write(tmp_path, node, given | limits))
    with pytest.raises(InvalidRequest):
        await run(loaded, given | limits)


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

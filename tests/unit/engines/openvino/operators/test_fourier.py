"""Fourier transforms along axes of opset 20, and of one side."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from tests.unit.engines.openvino.models import load, run
from tests.unit.engines.openvino.operators.asked import check, floats, write

REAL, COMPLEX = floats(2, 4, 6, 1), floats(2, 4, 6, 2)


@pytest.mark.parametrize("opened", [{}, {"x": (0, 1, 2)}], ids=["fixed", "open"])
@pytest.mark.parametrize("length", [None, 5, 8])
@pytest.mark.parametrize("axis", [1, 2, -2, -3])
@pytest.mark.parametrize(
    ("x", "attributes"),
    [
        (REAL, {}),
        (COMPLEX, {}),
        (COMPLEX, {"inverse": 1}),
        (REAL, {"onesided": 1}),
    ],
)
async def test_a_model_holds_the_axis(
    tmp_path: Path, x: Any, attributes: dict[str, int], axis: int, length: int | None, opened: Any
) -> None:
    names = ["x", "n" if length else "", "a"]
    held = {"a": np.array(axis)} | ({"n": np.array(length)} if length else {})
    node = helper.make_node("DFT", names, ["y"], **attributes)
    await check(write(tmp_path, node, {"x": x}, opened, held), {"x": x}, atol=1e-4)


@pytest.mark.parametrize(("axis", "length"), [(1, None), (-2, None), (2, 5), (1, 7)])
async def test_one_side_gives_numbers(tmp_path: Path, axis: int, length: int | None) -> None:
    held = {"a": np.array(axis)} | ({"n": np.array(length)} if length else {})
    names = ["x", "n" if length else "", "a"]
    node = helper.make_node("DFT", names, ["y"], onesided=1, inverse=1)
    given, opened = {"x": COMPLEX}, (0,) if length else (0, 1, 2)
    await check(write(tmp_path, node, given, {"x": opened}, held), given, atol=1e-4)


@pytest.mark.parametrize(("opened", "length"), [((1,), 5), ((), 8), ((), 0)])
def test_numbers_of_which_frequencies_may_be_missing_are_refused(
    tmp_path: Path, opened: tuple[int, ...], length: int
) -> None:
    """The plugin takes others."""
    held = {"a": np.array(1), "n": np.array(length)}
    node = helper.make_node("DFT", ["x", "n", "a"], ["y"], onesided=1, inverse=1)
    write(tmp_path, node, {"x": COMPLEX}, {"x": opened}, held)
    with pytest.raises(LoadFailed, match='DFT "y" is not computed where'):
        load(tmp_path)


@pytest.mark.parametrize("opset", [17, 19])
async def test_one_side_of_older_opsets(tmp_path: Path, opset: int) -> None:
    node = helper.make_node("DFT", ["x"], ["y"], onesided=1, axis=2)
    await check(write(tmp_path, node, {"x": REAL}, opset=opset), {"x": REAL}, atol=1e-4)


async def test_a_request_chooses_an_axis_that_is_there(tmp_path: Path) -> None:
    asked = [{"x": REAL, "a": np.array(axis)} for axis in (0, 1, 2, -2, -3, -4)]
    write(tmp_path, helper.make_node("DFT", ["x", "", "a"], ["y"]), asked[0])
    model = await check(tmp_path, *asked, atol=1e-4)
    for axis in 3, -1, -5:
        with pytest.raises(InvalidRequest, match="out of range"):
            await run(model, {"x": REAL, "a": np.array(axis)})


@pytest.mark.parametrize(("names", "attributes"), [("x-a", {"onesided": 1}), ("xna", {})])
def test_an_axis_whose_size_changes_is_not_a_requests(
    tmp_path: Path, names: str, attributes: dict[str, int]
) -> None:
    given = {"x": REAL, "n": np.array(8), "a": np.array(1)}
    names_ = [name.strip("-") for name in names]
    node = helper.make_node("DFT", names_, ["y"], **attributes)
    write(tmp_path, node, {name: given[name] for name in names_ if name})
    with pytest.raises(LoadFailed, match="a request chooses the axis of which the size changes"):
        load(tmp_path)

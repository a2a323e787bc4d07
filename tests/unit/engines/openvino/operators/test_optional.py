"""What may be missing in a file is there, or is not."""

from pathlib import Path

import pytest
from onnx import helper

from tests.unit.engines.openvino.operators.asked import check, floats, write


@pytest.mark.parametrize("inputs", [[], [""], ["x"]])
async def test_a_tensor_is_an_element(tmp_path: Path, inputs: list[str]) -> None:
    given = {"x": floats(2)} if any(inputs) else {}
    await check(
        write(tmp_path, helper.make_node("OptionalHasElement", inputs, ["y"]), given), given
    )


async def test_an_element_is_the_tensor(tmp_path: Path) -> None:
    given = {"x": floats(2)}
    await check(write(tmp_path, helper.make_node("OptionalGetElement", ["x"], ["y"]), given), given)

"""What specs tell of layouts and of sizes that are neither fixed nor open."""

from pathlib import Path

import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.core.values.tensors import SERVING_DEFAULT, DataType, TensorSpec
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.interface.tensor_specs import NO_LIMIT
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.preprocessing import Preprocessing, PropertyPair
from tests.unit.engines.openvino.models import Shape, parameter, result, save, unary


def spec(directory: Path, *own: object) -> TensorSpec:
    model = OpenVinoEngine().compile(directory, EngineOptions(own=own))
    try:
        return model.signatures[SERVING_DEFAULT].inputs["x"]
    finally:
        model.close()


def relu(directory: Path, shape: Shape) -> Path:
    return unary(directory, shape, DataType.FP32, op.relu)


def test_a_layout_of_the_configuration_is_the_clients(tmp_path: Path) -> None:
    asked = Preprocessing(layout=PropertyPair("NHWC", "NCHW"))
    assert spec(relu(tmp_path, [1, 3, 4, 5]), asked).layout == "NHWC"


def test_a_layout_of_the_model_is_told(tmp_path: Path) -> None:
    x = parameter("x", [3, 4, 5, 1])
    x.set_layout(ov.Layout("CHWN"))
    save(tmp_path, [result("y", op.relu(x))], [x])
    assert spec(tmp_path).layout == "CHWN"


@pytest.mark.parametrize("shape", [[1, 3, 4, 5], None])
def test_without_a_layout_there_is_none(tmp_path: Path, shape: Shape | None) -> None:
    assert spec(unary(tmp_path, shape, DataType.FP32, op.relu)).layout == ""


def test_ranges_are_told_where_there_are_some(tmp_path: Path) -> None:
    own = OpenVinoOptions(shape=(1, 3, (10, 20), -1))
    found = spec(relu(tmp_path, [1, 3, 16, 16]), own)
    assert found.shape == (1, 3, -1, -1)
    assert found.bounds == ((1, 1), (3, 3), (10, 20), (0, NO_LIMIT))


@pytest.mark.parametrize("shape", [[1, 3, 4, 5], [-1, 3, -1, -1]])
def test_shapes_that_say_it_all_have_no_bounds(tmp_path: Path, shape: Shape) -> None:
    assert spec(relu(tmp_path, shape)).bounds is None

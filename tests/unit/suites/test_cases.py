"""The tests that the package `onnx` brings."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.backend.test.case.test_case import TestCase

from tests.suites.cases import Case, case_of, cases, with_open_sizes


@pytest.fixture(scope="module")
def tests() -> dict[str, Case]:
    """Those with files: the others take seconds to be made."""
    return {case.name: case for case in cases(("simple", "real"))}


def test_values_come_from_the_files(tests: dict[str, Case]) -> None:
    [(inputs, outputs)] = tests["expand_shape_model1"].sets
    assert list(inputs) == ["X", "shape"]
    np.testing.assert_array_equal(outputs["Y"], inputs["X"] * np.ones(inputs["shape"]))


def test_constants_are_not_inputs(tests: dict[str, Case]) -> None:
    [(inputs, outputs)] = tests["resnet50"].sets
    assert [array.shape for array in inputs.values()] == [(1, 3, 224, 224)]
    assert [array.shape for array in outputs.values()] == [(1, 1000)]


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (helper.make_tensor_value_info("x", TensorProto.INT4, [1]), "int4"),
        (helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [1]), "sequence"),
    ],
)
def test_a_type_that_no_request_can_carry_is_named(spec: onnx.ValueInfoProto, kind: str) -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    model = helper.make_model(helper.make_graph([node], "g", [spec], [spec]))
    case = case_of(TestCase("test_odd", "", None, None, model, [([0], [0])], "node", 0, 0))
    assert (case.name, case.sets, case.not_carried) == ("odd", (), kind)


def test_open_sizes_keep_ranks_and_are_all_different(tests: dict[str, Case]) -> None:
    model = tests["expand_shape_model1"].model
    opened = with_open_sizes(model)
    shapes = [each.type.tensor_type.shape.dim for each in opened.graph.input]
    assert [[size.dim_param for size in shape] for shape in shapes] == [
        ["d0_0", "d0_1", "d0_2"],
        ["d1_0"],
    ]
    assert not opened.graph.output[0].type.tensor_type.HasField("shape")
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1

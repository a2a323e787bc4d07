"""`If`s of an ONNX file are replaced by the branch that shapes tell, where that is safe."""

from pathlib import Path

import numpy as np
import onnx
import openvino as ov
import pytest
from onnx import TensorProto, helper

from ie_serving.engines.openvino.reading.onnx_branches import read_simpler


def branch(factor: str, value: float, *, squeezed: bool) -> onnx.GraphProto:
    nodes = [helper.make_node("Mul", ["x", factor], ["scaled"])]
    if squeezed:
        nodes.append(helper.make_node("Squeeze", ["scaled", "axis"], ["given"]))
    output = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    held = helper.make_tensor(factor, TensorProto.FLOAT, [], [value])
    return helper.make_graph(nodes, "branch", [], [output], [held])


def squeezing(factors: tuple[str, str]) -> onnx.ModelProto:
    """Write y = 2 x + 3 x, each product in an `If` that drops a first dimension of 1."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "zero"], ["size"]),
        helper.make_node("Equal", ["size", "one"], ["is_one"]),
    ]
    for at, factor in enumerate(factors):
        branches = {
            "then_branch": branch(factor, 2.0 + at, squeezed=True),
            "else_branch": branch(factor, 2.0 + at, squeezed=False),
        }
        nodes.append(helper.make_node("If", ["is_one"], [f"y{at}"], **branches))
    nodes.append(helper.make_node("Add", ["y0", "y1"], ["y"]))
    constants = [
        helper.make_tensor("zero", TensorProto.INT64, [], [0]),
        helper.make_tensor("one", TensorProto.INT64, [], [1]),
        helper.make_tensor("axis", TensorProto.INT64, [1], [0]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    graph = helper.make_graph(nodes, "graph", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize(
    ("factors", "is_read"),
    [
        pytest.param(("two", "three"), True, id="constants of other names"),
        # Inlined, the second constant would hide the first: y would be 3 x + 3 x.
        pytest.param(("factor", "factor"), False, id="constants of one name"),
    ],
)
def test_branches_are_inlined_unless_their_constants_have_one_name(
    tmp_path: Path, factors: tuple[str, str], is_read: bool
) -> None:
    file = tmp_path / "model.onnx"
    onnx.save(squeezing(factors), file)
    model = read_simpler(file, {})
    assert (model is not None) is is_read
    if model is not None:
        answer = ov.Core().compile_model(model, "CPU")(np.array([[1, 2, 3]], np.float32))
        np.testing.assert_allclose(answer[0], [5, 10, 15])


def test_operators_that_openvino_lacks_beside_a_branch_do_not_end_the_process(
    tmp_path: Path,
) -> None:
    """Nodes that are not converted refer to what the front end loaded, which was freed."""
    model = squeezing(("two", "three"))
    model.graph.node.add(op_type="DeformConv", input=["y", "y", "y"], output=["z"])
    model.graph.node.extend(helper.make_node("Neg", ["z"], [f"z{at}"]) for at in range(300))
    model.graph.output[0].name = "z"
    onnx.save(model, tmp_path / "model.onnx")
    for _ in range(3):
        assert read_simpler(tmp_path / "model.onnx", {}) is None

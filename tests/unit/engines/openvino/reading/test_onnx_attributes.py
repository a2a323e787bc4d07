"""OpenVINO's front end for ONNX asks for each attribute, or the table of what it drops names it.

An attribute of a wrong type fails the load of a model if the front end asks for it. The models are
those of ONNX's own tests, one for each operator.
"""

from pathlib import Path

import onnx
import openvino as ov

from ie_serving.engines.openvino.reading.onnx_graph import OVERLOOKED
from tests.exporting import export

ASKED_FOR_ELSEWHERE = {
    # By other values of other attributes or inputs than those of the first test.
    "Constant": {"value_string", "value_strings"},
    "DequantizeLinear": {"axis", "block_size"},
    "QuantizeLinear": {"axis", "block_size"},
    "Resize": {"extrapolation_value", "nearest_mode"},
    "RoiAlign": {"coordinate_transformation_mode"},
    "Scan": {"scan_input_directions"},
    "SoftmaxCrossEntropyLoss": {"reduction"},
    "Split": {"num_outputs"},
    # Without effect: on an operator that does nothing, or as the shape of weights has it.
    "Conv": {"kernel_shape"},
    "ConvInteger": {"kernel_shape"},
    "ConvTranspose": {"kernel_shape"},
    "Dropout": {"seed"},
    "QLinearConv": {"kernel_shape"},
    # Of modes that the front end refuses, and precisions of which float32 is the greatest.
    "Attention": {"softmax_precision"},
    # To 8 bits of floats: what is too large is NaN or infinite, as by saturate=0.
    "Cast": {"round_mode", "saturate"},
    "CastLike": {"round_mode", "saturate"},
}
WRONG = {
    "INT": onnx.helper.make_attribute("", 77),
    "STRING": onnx.helper.make_attribute("", "nonsense"),
    "INTS": onnx.helper.make_attribute("", range(7)),
    "STRINGS": onnx.helper.make_attribute("", ["a", "b"]),
    "GRAPH": onnx.helper.make_attribute("", onnx.helper.make_graph([], "x", [], [])),
    "TENSOR": onnx.helper.make_attribute(
        "", onnx.helper.make_tensor("t", onnx.TensorProto.FLOAT, [3, 1], [0, 0, 0])
    ),
}
CORE = ov.Core()


def test_each_attribute_is_asked_for_or_named(tmp_path: Path) -> None:
    known = {
        kind: {row.name for row in OVERLOOKED.get(kind, ())} | ASKED_FOR_ELSEWHERE.get(kind, set())
        for kind in {*OVERLOOKED, *ASKED_FOR_ELSEWHERE}
    }
    file = tmp_path / "model.onnx"
    models = export(Path(__file__).with_name("onnx_cases.py"), tmp_path / "models").glob("*")
    dropped = {
        (each.name, name)
        for each in models
        for name in onnx.defs.get_schema(each.name).attributes
        if name not in known.get(each.name, ())
        and not _is_asked_for(file, onnx.load(str(each)), name)
    }
    assert dropped == set()


def _is_asked_for(file: Path, model: onnx.ModelProto, name: str) -> bool:
    right = onnx.defs.get_schema(model.graph.node[0].op_type).attributes[name].type
    return not all(_loads(file, _with(model, name, kind)) for kind in WRONG if kind != right.name)


def _with(model: onnx.ModelProto, name: str, kind: str) -> onnx.ModelProto:
    """Give the model with an attribute of another type."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    (node,) = changed.graph.node
    others = [each for each in node.attribute if each.name != name]
    del node.attribute[:]
    node.attribute.extend(others)
    node.attribute.append(WRONG[kind])
    node.attribute[-1].name = name
    return changed


def _loads(file: Path, model: onnx.ModelProto) -> bool:
    file.write_bytes(model.SerializeToString())
    try:
        CORE.read_model(str(file))
    except RuntimeError:
        return False
    return True

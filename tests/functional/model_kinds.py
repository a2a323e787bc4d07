"""Small models of the kinds that people bring and OpenVINO's front ends refuse, made by onnx."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

from ie_serving.core.values.tensors import Array

Sizes = Sequence[int | str]


class Kind(NamedTuple):
    """A model, and the shapes of its requests."""

    make: Callable[[], onnx.ModelProto]
    shapes: Sequence[tuple[int, ...]]


def _model(nodes: Sequence[Any], sizes: Sizes, **constants: Any) -> onnx.ModelProto:
    x = make_tensor_value_info("x", TensorProto.FLOAT, sizes)
    y = make_tensor_value_info("y", TensorProto.FLOAT, None)
    held = [numpy_helper.from_array(np.asarray(each), name) for name, each in constants.items()]
    graph = make_graph(nodes, "g", [x], [y], held)
    return make_model(graph, opset_imports=[make_opsetid("", 13)], ir_version=8)


def squeeze(sizes: Sizes) -> onnx.ModelProto:
    """Remove each size of 1, whichever those are."""
    return _model([make_node("Softmax", ["x"], ["z"]), make_node("Squeeze", ["z"], ["y"])], sizes)


def squeeze_alone(**axes: Array) -> onnx.ModelProto:
    """Do the same between operations that OpenVINO does not merge with it."""
    nodes = [make_node("Squeeze", ["x", *axes], ["z"]), make_node("Relu", ["z"], ["y"])]
    return _model(nodes, ["n", 1, "m"], **axes)


def _branch(kind: str, inputs: Sequence[str], name: str) -> onnx.GraphProto:
    given = make_tensor_value_info(name, TensorProto.FLOAT, None)
    return make_graph([make_node(kind, inputs, [name])], name, [], [given])


def _if(condition: str, then: onnx.GraphProto, otherwise: onnx.GraphProto) -> onnx.NodeProto:
    return make_node("If", [condition], ["z"], then_branch=then, else_branch=otherwise)


def wide_condition() -> onnx.ModelProto:
    """Choose by a condition of shape (1, 1), as openWakeWord's "hey Jarvis" does."""
    nodes = [
        make_node("ReduceMax", ["x"], ["most"], axes=[0, 1]),
        make_node("Greater", ["most", "zero"], ["condition"]),
        _if("condition", _branch("Neg", ["x"], "less"), _branch("Exp", ["x"], "more")),
        make_node("Identity", ["z"], ["y"]),
    ]
    return _model(nodes, ["n", 3], zero=np.float32(0))


def other_ranks(size: int | str) -> onnx.ModelProto:
    """Squeeze an axis if its size is 1, as exports of `torch.squeeze` do."""
    nodes = [
        make_node("Shape", ["x"], ["sizes"]),
        make_node("Gather", ["sizes", "one"], ["size"]),
        make_node("Equal", ["size", "one"], ["condition"]),
        _if("condition", _branch("Squeeze", ["x", "axes"], "sq"), _branch("Relu", ["x"], "all")),
        make_node("ReduceMean", ["z"], ["y"], axes=[-1]),
    ]
    return _model(nodes, ["n", size, 4], one=np.int64(1), axes=np.array([1]))


KINDS: Mapping[str, Kind] = {
    "squeeze": Kind(partial(squeeze, ["n", 7, 1, 1]), [(4, 7, 1, 1), (1, 7, 1, 1)]),
    "squeeze_scalar": Kind(partial(squeeze, ["n", 1]), [(1, 1), (3, 1)]),
    "squeeze_alone": Kind(squeeze_alone, [(3, 1, 2), (1, 1, 2), (3, 1, 1), (1, 1, 1)]),
    "squeeze_by_no_axes": Kind(partial(squeeze_alone, axes=np.zeros(0, np.int64)), [(3, 1, 2)]),
    "wide_condition": Kind(wide_condition, [(1, 3), (5, 3)]),
    "squeezed_by_shape": Kind(partial(other_ranks, 1), [(1, 1, 4), (3, 1, 4)]),
    "squeezed_by_request": Kind(partial(other_ranks, "m"), [(2, 1, 4), (2, 3, 4), (1, 1, 4)]),
}


LAYERS, SIZE = 24, 64
"""Of a quantized model: onnxruntime takes a fifth of OpenVINO's time, and a choice is no chance."""


def write_quantized(file: Path) -> None:
    """Write products and ReLUs as onnxruntime quantizes them: the activations, while it runs."""
    from onnxruntime.quantization import quantize_dynamic

    random = np.random.default_rng(41)
    weights = random.normal(0, SIZE**-0.5, (LAYERS, SIZE, SIZE)).astype(np.float32)
    nodes, last = list[onnx.NodeProto](), "x"
    for layer in range(LAYERS):
        product, last = f"p{layer}", f"r{layer}" if layer < LAYERS - 1 else "y"
        inputs = [f"r{layer - 1}" if layer else "x", f"w{layer}"]
        nodes += [make_node("MatMul", inputs, [product]), make_node("Relu", [product], [last])]
    held = {f"w{layer}": each for layer, each in enumerate(weights)}
    quantize_dynamic(_model(nodes, ["n", "t", SIZE], **held), file)


def sent(kind: Kind) -> Sequence[Array]:
    """Give requests for a model."""
    random = np.random.default_rng(41)
    return [random.normal(size=shape).astype(np.float32) for shape in kind.shapes]

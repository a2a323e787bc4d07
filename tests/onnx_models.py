"""Small models in ONNX, as `onnx.helper` makes them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Sizes: TypeAlias = Sequence[int | str | None] | None


class Of(NamedTuple):
    """An input or output of another dtype than float."""

    kind: int
    sizes: Sizes


Ends: TypeAlias = Mapping[str, "Sizes | Of"]


def onnx_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Ends,
    outputs: "Ends | str",
    *,
    opset: int = 17,
    domains: Mapping[str, int] | None = None,
    **constants: Any,
) -> onnx.ModelProto:
    """Give a model of some nodes.

    Args:
        nodes: in their order.
        inputs: sizes by name.
        outputs: likewise, or names of one letter whose types and sizes are left open.
        opset: of ONNX.
        domains: versions of other operators.
        constants: by name.
    """
    if isinstance(outputs, str):
        results = [onnx.ValueInfoProto(name=name) for name in outputs]
    else:
        results = _ends(outputs)
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", _ends(inputs), results, held)
    versions = {"": opset, **(domains or {})}
    imports = [helper.make_opsetid(*item) for item in versions.items()]
    # Which release of onnx writes the file is not what is tested.
    return helper.make_model(graph, opset_imports=imports, ir_version=9 if opset < 21 else 10)


def save_onnx(
    file: Path, nodes: Sequence[onnx.NodeProto], inputs: Ends, outputs: "Ends | str", **options: Any
) -> Path:
    """Write `onnx_model` of the same arguments; give the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(onnx_model(nodes, inputs, outputs, **options), str(file))
    return file


def _ends(ends: Ends) -> list[onnx.ValueInfoProto]:
    typed = {name: e if isinstance(e, Of) else Of(TensorProto.FLOAT, e) for name, e in ends.items()}
    return [helper.make_tensor_value_info(name, *each) for name, each in typed.items()]


def save_repeated(file: Path, steps: int) -> Path:
    """Write y = relu(x * 1 * ... * 1) for two open sizes, whose ones have the shape of x.

    Only a graph of open sizes repeats them while a request runs.
    """
    nodes, name = [helper.make_node("Shape", ["x"], ["sizes"])], "x"
    for step in range(steps):
        nodes.append(helper.make_node("Expand", ["one", "sizes"], [f"ones{step}"]))
        nodes.append(helper.make_node("Mul", [name, f"ones{step}"], [f"y{step}"]))
        name = f"y{step}"
    nodes.append(helper.make_node("Relu", [name], ["y"]))
    end = Of(TensorProto.FLOAT, ["n", "m"])
    return save_onnx(file, nodes, {"x": end}, {"y": end}, one=np.ones((1, 1), np.float32))

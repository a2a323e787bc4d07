"""Models of one operator of ONNX, whose answers are compared with ONNX's own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from ie_serving.core.values.tensors import Array
from ie_serving.engines.run.program import CompiledPrograms
from tests.unit.engines.openvino.models import load, run

OPSET = 28

Given = Mapping[str, Array]


def floats(*shape: int) -> Array:
    return np.random.default_rng(1).random(shape, np.float32) * 2 - 1


def write(
    directory: Path,
    node: onnx.NodeProto,
    given: Given,
    opened: Mapping[str, tuple[int, ...]] | None = None,
    held: Given | None = None,
    opset: int = OPSET,
) -> Path:
    """Write a model of one operator.

    Args:
        directory: of the file.
        node: the operator.
        given: inputs, whose types and shapes the model declares.
        opened: axes by input that the model leaves open.
        held: inputs that the model holds itself.
        opset: of ONNX's own domain.
    """
    declared = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(each.dtype),
            [
                None if axis in (opened or {}).get(name, ()) else size
                for axis, size in enumerate(each.shape)
            ],
        )
        for name, each in given.items()
    ]
    constants = [onnx.numpy_helper.from_array(each, name) for name, each in (held or {}).items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "g", declared, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.save(model, str(directory / "model.onnx"))
    return directory


async def check(directory: Path, *requests: Given, **within: Any) -> CompiledPrograms:
    """Compare the answers of a directory's model with those of ONNX's own evaluator; give it."""
    evaluator = ReferenceEvaluator(str(directory / "model.onnx"))
    model = load(directory, inference_precision="f32")
    for given in requests:
        found = await run(model, given)
        expected = zip(evaluator.output_names, evaluator.run(None, dict(given)), strict=True)
        for name, each in expected:
            assert (found[name].dtype, found[name].shape) == (each.dtype, each.shape)
            np.testing.assert_allclose(found[name], each, **({"atol": 1e-5} | within))
    return model

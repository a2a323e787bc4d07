"""Small models, made with OpenVINO's own operations."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.run.program import CompiledPrograms

Shape = Sequence[int | tuple[int, int]]


def parameter(name: str, shape: Shape | None, dtype: DataType = DataType.FP32) -> Any:
    """Give an input called `name`; a pair is a range of sizes, no shape an open rank."""
    dims = [ov.Dimension(*d) if isinstance(d, tuple) else ov.Dimension(d) for d in shape or ()]
    partial = ov.PartialShape.dynamic() if shape is None else ov.PartialShape(dims)
    node = op.parameter(partial, ov_type(dtype), name=name)
    node.output(0).set_names({name})
    return node


def ov_type(dtype: DataType) -> Any:
    return next(t for t in vars(ov.Type).values() if _type_name(t) == dtype.openvino)


def _type_name(value: object) -> str:
    return value.get_type_name() if isinstance(value, ov.Type) else ""


def constant(value: object, dtype: type = np.int64) -> Any:
    return op.constant(np.array(value, dtype))


def result(name: str, node: Any) -> Any:
    output = node if isinstance(node, ov.Output) else node.output(0)
    output.set_names({name, *output.get_names()})
    return op.result(output)


def save(directory: Path, results: Sequence[Any], parameters: Sequence[Any]) -> Path:
    """Write IR without compressing weights."""
    directory.mkdir(parents=True, exist_ok=True)
    model = ov.Model(list(results), list(parameters), "model")
    ov.save_model(model, str(directory / "model.xml"), compress_to_fp16=False)
    return directory


def add_one(directory: Path, shape: Shape | None = (-1, 2)) -> Path:
    """Write y = x + 1 in FP32."""
    x = parameter("x", shape)
    return save(directory, [result("y", op.add(x, op.constant(np.float32(1))))], [x])


def unary(
    directory: Path, shape: Shape | None, dtype: DataType, body: Callable[[Any], Any]
) -> Path:
    """Write y = body(x)."""
    x = parameter("x", shape, dtype)
    return save(directory, [result("y", body(x))], [x])


def linear(directory: Path, factor: float, offset: float = 0.0, rows: int = -1) -> Path:
    """Write y = x * factor + offset for rows of four floats."""
    x = parameter("x", [rows, 4])
    y = op.add(op.multiply(x, np.float32(factor)), np.float32(offset))
    return save(directory, [result("y", y)], [x])


def looked_up(directory: Path, table: Array) -> Path:
    """Write `found`, the rows of `table` whose numbers `row` has."""
    row = parameter("row", [-1], DataType.INT32)
    found = op.gather(op.constant(table), row, op.constant(np.int32(0)))
    return save(directory, [result("found", found)], [row])


def load(directory: Path, **options: Any) -> CompiledPrograms:
    """Compile with options of every engine and of OpenVINO, by the names of their fields."""
    known = {field.name for field in dataclasses.fields(OpenVinoOptions)}
    own = OpenVinoOptions(**{name: options.pop(name) for name in known & options.keys()})
    return OpenVinoEngine().compile(directory, EngineOptions(**options, own=(own,)))


async def run(
    model: CompiledPrograms, inputs: Mapping[str, Array], signature: str = SERVING_DEFAULT
) -> dict[str, Array]:
    """Infer once and copy the outputs."""
    return await model.infer(model.signatures[signature], inputs, copies)


def copies(outputs: Mapping[str, Array]) -> dict[str, Array]:
    return {name: array.copy() for name, array in outputs.items()}

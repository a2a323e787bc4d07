"""The repository that the suite serves: small models made with OpenVINO's own operations.

Their arithmetic can be done in one's head, so a case shows its exact reply.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op

ELEMENT_TYPES = {
    "float": ov.Type.f32,
    "double": ov.Type.f64,
    "half": ov.Type.f16,
    "bfloat16": ov.Type.bf16,
    "int8": ov.Type.i8,
    "int16": ov.Type.i16,
    "int32": ov.Type.i32,
    "int64": ov.Type.i64,
    "uint8": ov.Type.u8,
    "uint16": ov.Type.u16,
    "uint32": ov.Type.u32,
    "uint64": ov.Type.u64,
    "bool": ov.Type.boolean,
    "string": ov.Type.string,
}
"""One model for each: named as TensorFlow names the dtype, y = x, in any shape of one dimension."""

SIGNATURES = {
    "signatures": {
        "classify": {
            "method": "classify",
            "features": {"x": "points"},
            "outputs": {"scores": "y"},
            "labels": "labels.txt",
        },
        "unlabelled": {"method": "classify", "outputs": {"scores": "y"}},
        "regress": {"method": "regress", "outputs": {"outputs": "total"}},
        "wide": {"method": "regress", "outputs": {"outputs": "y"}},
    }
}


def make(root: Path) -> None:
    """Write every model below `root`, one directory for each name."""
    for word, element_type in ELEMENT_TYPES.items():
        _copy(root / word / "1", element_type, [-1])
    _copy(root / "matrix" / "1", ov.Type.f32, [-1, 2])
    _copy(root / "column" / "1", ov.Type.f32, [-1, 1])
    _copy(root / "scalar" / "1", ov.Type.f32, [])
    _copy(root / "picture" / "1", ov.Type.f32, [-1, 1, 2, 3])
    _copy(root / "cube" / "1", ov.Type.f32, [-1, -1, -1])
    _copy(root / "a:b c" / "1", ov.Type.f32, [-1])
    make_plus(root / "plus" / "00000001", 2)
    make_plus(root / "plus" / "2", 3)
    _two(root / "two" / "1")
    _text(root / "text" / "1")
    _sum(root / "sum" / "1")
    _uneven(root / "uneven" / "1")
    _scored(root / "scored" / "1")
    _copy(root / "broken" / "1", ov.Type.f32, [-1])
    _broken(root / "broken" / "2")


def make_plus(directory: Path, addend: float) -> None:
    """Write y = x / 2 + addend."""
    x = _input("x", ov.Type.f32, [-1])
    half = op.multiply(x, op.constant(np.float32(0.5)))
    _save(directory, [_output("y", op.add(half, op.constant(np.float32(addend))))], [x])


def _copy(directory: Path, element_type: ov.Type, shape: Sequence[int]) -> None:
    x = _input("x", element_type, shape)
    _save(directory, [_output("y", _same(x))], [x])


def _two(directory: Path) -> None:
    """Write sum = a + b, twice = b + b; a is FP32 and b INT32."""
    a, b = _input("a", ov.Type.f32, [-1]), _input("b", ov.Type.i32, [-1])
    total = op.add(a, op.convert(b, ov.Type.f32))
    _save(directory, [_output("sum", total), _output("twice", op.add(b, b))], [a, b])


def _text(directory: Path) -> None:
    """Write text = text_bytes = x; x is STRING."""
    x = _input("x", ov.Type.string, [-1])
    _save(directory, [_output("text", _same(x)), _output("text_bytes", _same(x))], [x])


def _sum(directory: Path) -> None:
    x = _input("x", ov.Type.f32, [-1])
    total = op.reduce_sum(x, op.constant(np.array([0], np.int64)), keep_dims=False)
    _save(directory, [_output("y", total)], [x])


def _uneven(directory: Path) -> None:
    """Write once = x + 0, and twice = x after x."""
    x = _input("x", ov.Type.f32, [-1])
    once = op.add(x, op.constant(np.float32(0)))
    _save(directory, [_output("once", once), _output("twice", op.concat([x, x], 0))], [x])


def _scored(directory: Path) -> None:
    """Write y = x of two columns and total = their sum, with signatures for Examples."""
    x = _input("x", ov.Type.f32, [-1, 2])
    total = op.reduce_sum(x, op.constant(np.array([1], np.int64)), keep_dims=False)
    _save(directory, [_output("y", _same(x)), _output("total", total)], [x])
    (directory / "signatures.json").write_text(json.dumps(SIGNATURES))
    (directory / "labels.txt").write_text("left\nright\n")


def _broken(directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "model.xml").write_text("<net")
    (directory / "model.bin").write_bytes(b"")


def _input(name: str, element_type: ov.Type, shape: Sequence[int]) -> Any:
    node = op.parameter(ov.PartialShape(list(shape)), element_type, name=name)
    node.output(0).set_names({name})
    return node


def _output(name: str, node: Any) -> Any:
    node.output(0).set_names({name})
    return op.result(node)


def _same(node: Any) -> Any:
    """Give the values as a tensor of its own, which can have a name of its own."""
    return op.reshape(node, op.shape_of(node), special_zero=False)


def _save(directory: Path, results: Sequence[Any], parameters: Sequence[Any]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    model = ov.Model(list(results), list(parameters), "model")
    ov.save_model(model, str(directory / "model.xml"), compress_to_fp16=False)

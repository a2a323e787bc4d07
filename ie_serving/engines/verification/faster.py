"""Tells which of two engines answers a quantized ONNX model sooner, measured at load.

OpenVINO computes products of integers that are quantized while a request runs (`MatMulInteger`) as
products of floats, which takes several times as long as onnxruntime's own.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import Array, DataType, Signature, copies
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.layers import own_loop
from ie_serving.engines.onnx_file import nodes

DYNAMIC: Final = frozenset({"ConvInteger", "DynamicQuantizeMatMul", "MatMulInteger"})
"""Operators of models that are quantized dynamically."""
LENGTH = 64
"""Size of open dimensions behind the first: tokens of a short text."""
REPEATS, MOST_S = 7, 0.5
"""Inferences of one engine, of which the shortest counts, and the seconds that they may take."""
SHARE: Final = 0.8
"""The other engine serves if it takes at most this share: less may be noise."""


def is_dynamic(file: Path) -> bool:
    """Tell whether products of a model's integers are quantized while it runs."""
    try:
        return any(node.kind in DYNAMIC for node in nodes(file))
    except (OSError, ValueError):
        return False  # not a model: OpenVINO reports the fault


def sooner(model: CompiledModel, other: CompiledModel) -> str:
    """Say by how much the other engine is faster; empty where it is not, or cannot be measured."""
    signature = next(iter(model.signatures.values()))
    inputs = _ones(signature)
    if inputs is None:
        return ""
    try:
        took, others = (_shortest(_infers(each, signature.name, inputs)) for each in (model, other))
    except ServingError:  # the model takes no such request
        return ""
    if others > SHARE * took:
        return ""
    return f"a request took {1e3 * others:.1f} ms, and {1e3 * took:.1f} ms by OpenVINO"


def _ones(signature: Signature) -> Mapping[str, Array] | None:
    """Make a request: ones are tokens and masks of texts, and harmless floats."""
    found = {}
    for name, spec in signature.inputs.items():
        if spec.shape is None or spec.dtype is DataType.STRING:
            return None
        sizes = [
            size if size >= 0 else LENGTH if place else 1 for place, size in enumerate(spec.shape)
        ]
        found[name] = np.ones(sizes, spec.dtype.numpy)
    return found


def _infers(model: CompiledModel, name: str, inputs: Mapping[str, Array]) -> Callable[[], object]:
    signature = model.signatures[name]
    return lambda: own_loop.run(model.infer(signature, inputs, copies))


def _shortest(infer: Callable[[], object]) -> float:
    infer()  # compiles for the shape
    measured: list[float] = []
    while len(measured) < REPEATS and sum(measured) < MOST_S:
        began = time.perf_counter()
        infer()
        measured.append(time.perf_counter() - began)
    return min(measured)

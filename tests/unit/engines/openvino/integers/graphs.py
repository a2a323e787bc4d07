"""Runs an operation on integers as it is served, and has numbers around which kernels go wrong."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
from hypothesis import strategies as st

from ie_serving.core.tensors import Array
from ie_serving.engines.openvino.bodies import Flag
from ie_serving.engines.openvino.exact import EXACT, exact_integers

AROUND = [0, 1, 2, 3, 7, 100, 127, 128, 255, 256, 32767, 32768, 65535, 65536]
AROUND += [2**24 - 1, 2**24, 2**24 + 1, 2**24 + 3, 2**25 + 1, 2**30 + 1, 2**31 - 2, 2**31 - 1]
NUMBERS = sorted({*AROUND, *(-n for n in AROUND), -(2**31), 123456789, -987654321})
INT32 = np.iinfo(np.int32)
Build = Callable[..., Any]

any_magnitude = st.integers(0, 31).flatmap(
    lambda bits: st.integers(-(1 << bits), min((1 << bits), INT32.max))
)
"""Numbers of int32, as many small ones as large ones."""


def held(dtype: type) -> Array:
    """Give those numbers that fit into a type and into 32 bits."""
    info = np.iinfo(dtype)
    return np.array([n for n in NUMBERS if info.min <= n <= info.max], dtype)


def pairs(dtype: type) -> tuple[Array, Array]:
    """Pair each number with each."""
    first, second = np.meshgrid(held(dtype), held(dtype))
    return first.ravel(), second.ravel()


def constant(value: Any, dtype: type = np.int32) -> Any:
    return op.constant(np.array(value, dtype))


def graph(build: Build, inputs: Sequence[Array], *, fixed: bool = False) -> ov.Model:
    """Make a model of inputs like these, of fixed or open shapes."""
    parameters = [
        op.parameter(each.shape if fixed else [-1] * each.ndim, ov.Type(each.dtype))
        for each in inputs
    ]
    return ov.Model([op.result(build(*parameters))], parameters, "integers")


def answer(
    build: Build, *inputs: Array, fixed: bool = False, mode: str = EXACT
) -> tuple[Array, list[str]]:
    """Run a graph; give its output, and why the request is refused."""
    model = graph(build, inputs, fixed=fixed)
    flags = exact_integers(model, mode)
    if flags:
        model.add_results([op.result(op.concat([flag.raised for flag in flags], 0))])
    results = list(ov.Core().compile_model(model, "CPU")(list(inputs)).values())
    return np.array(results[0]), _raised(flags, results)


def refused(build: Build, *inputs: Array) -> list[bool]:
    """Tell of each row of some inputs whether it is refused when it comes alone."""
    model = graph(build, [each[:1] for each in inputs])
    raised = [flag.raised for flag in exact_integers(model, EXACT)]
    assert raised, "nothing is refused"
    model.add_results([op.result(op.concat(raised, 0))])
    compiled = ov.Core().compile_model(model, "CPU")
    rows = zip(*([each[i : i + 1] for i in range(len(each))] for each in inputs), strict=True)
    return [bool(list(compiled(list(row)).values())[1].any()) for row in rows]


def wrapped(values: Sequence[int], dtype: type) -> Array:
    """Keep the bits of a type of integers of any size, as TensorFlow does."""
    bits = np.iinfo(dtype).bits
    kept = np.array([int(value) % (1 << bits) for value in values], f"u{bits // 8}")
    return kept.astype(dtype)


def fits(values: Sequence[int], dtype: type) -> Array:
    """Tell which values OpenVINO holds of a type of 64 bits, or of one without a sign."""
    least = max(int(np.iinfo(dtype).min), INT32.min)
    return np.array([least <= int(value) <= INT32.max for value in values], bool)


def _raised(flags: list[Flag], results: list[Any]) -> list[str]:
    if not flags:
        return []
    return [flag.cause for flag, raised in zip(flags, results[1], strict=True) if raised]


def served(build: Build, *inputs: Array, fixed: bool = False) -> Array:
    """Run a graph that refuses nothing of these inputs."""
    output, causes = answer(build, *inputs, fixed=fixed)
    assert not causes
    return output


def types(build: Build, *inputs: Array) -> list[str]:
    """List the operations that a graph consists of once it is exact."""
    model = graph(build, inputs)
    exact_integers(model, EXACT)
    names = [node.get_type_name() for node in model.get_ordered_ops()]
    return [name for name in names if name not in ("Constant", "Parameter", "Result")]

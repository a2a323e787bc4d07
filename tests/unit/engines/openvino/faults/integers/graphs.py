"""Runs an operation on integers as it is served, and has numbers around which kernels go wrong."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest
from hypothesis import strategies as st

from ie_serving.core.values.tensors import Array
from ie_serving.engines.openvino.faults.integers.exact import EXACT, exact_integers

AROUND = [0, 1, 2, 3, 7, 100, 127, 128, 255, 256, 32767, 32768, 65535, 65536]
AROUND += [2**24 - 1, 2**24, 2**24 + 1, 2**24 + 3, 2**25 + 1, 2**30 + 1, 2**31 - 2, 2**31 - 1]
NUMBERS = sorted({*AROUND, *(-n for n in AROUND), -(2**31), 123456789, -987654321})
INT32 = np.iinfo(np.int32)
EVERY = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
FIXED = [(dtype, True) for dtype in EVERY] + [(np.int32, False), (np.int64, False)]
DTYPES = pytest.mark.parametrize(("dtype", "fixed"), FIXED)
"""Types with fixed shapes; with open ones, which have other kernels, the most usual types."""
KEPT_MODELS = 8
"""Compiled models that are kept for the next question: compiling takes most of a test."""
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
    shapes = [each.shape if fixed else (-1,) * each.ndim for each in inputs]
    return _graph(build, list(zip(shapes, [each.dtype for each in inputs], strict=True)))


def _graph(build: Build, ports: Sequence[Any]) -> ov.Model:
    parameters = [op.parameter(list(shape), ov.Type(dtype)) for shape, dtype in ports]
    built = build(*parameters)
    outputs = built if isinstance(built, list) else [built]
    return ov.Model([op.result(each) for each in outputs], parameters, "integers")


@lru_cache(KEPT_MODELS)
def _compiled(build: Build, mode: str, *ports: Any) -> tuple[ov.CompiledModel, list[str]]:
    """Compile a graph as it is served; its last output has the flags, whose causes are given."""
    model = _graph(build, ports)
    flags = exact_integers(model, mode)
    if flags:
        model.add_results([op.result(op.concat([flag.raised for flag in flags], 0))])
    return ov.Core().compile_model(model, "CPU"), [flag.cause for flag in flags]


def answers(
    build: Build, *inputs: Array, fixed: bool = False, mode: str = EXACT
) -> tuple[list[Array], list[str]]:
    """Run a graph; give its outputs, and why the request is refused."""
    ports = [(each.shape if fixed else (-1,) * each.ndim, each.dtype) for each in inputs]
    compiled, causes = _compiled(build, mode, *ports)
    results = [np.array(each) for each in compiled(list(inputs)).values()]
    flags = results.pop().tolist() if causes else []
    return results, [cause for cause, raised in zip(causes, flags, strict=True) if raised]


def answer(
    build: Build, *inputs: Array, fixed: bool = False, mode: str = EXACT
) -> tuple[Array, list[str]]:
    """Run a graph of one output."""
    outputs, causes = answers(build, *inputs, fixed=fixed, mode=mode)
    return outputs[0], causes


def refused(build: Build, *inputs: Array) -> list[bool]:
    """Tell of each row of some inputs whether it is refused when it comes alone."""
    rows = zip(*([each[i : i + 1] for i in range(len(each))] for each in inputs), strict=True)
    return [bool(answers(build, *row)[1]) for row in rows]


def wrapped(values: Sequence[int], dtype: type) -> Array:
    """Keep the bits of a type of integers of any size, as TensorFlow does."""
    bits = np.iinfo(dtype).bits
    kept = np.array([int(value) % (1 << bits) for value in values], f"u{bits // 8}")
    return kept.astype(dtype)


def fits(values: Sequence[int], dtype: type) -> Array:
    """Tell which values OpenVINO holds of a type of 64 bits, or of one without a sign."""
    least = max(int(np.iinfo(dtype).min), INT32.min)
    return np.array([least <= int(value) <= INT32.max for value in values], bool)


def served(build: Build, *inputs: Array, fixed: bool = False) -> Array:
    """Run a graph that refuses nothing of these inputs."""
    output, causes = answer(build, *inputs, fixed=fixed)
    assert not causes
    return output


def served_each(
    builds: Mapping[str, Build], *inputs: Array, fixed: bool = False
) -> dict[str, Array]:
    """Run several graphs of the same inputs, that refuse nothing of these, as one model."""
    outputs, causes = answers(
        lambda *nodes: [build(*nodes) for build in builds.values()], *inputs, fixed=fixed
    )
    assert not causes
    return dict(zip(builds, outputs, strict=True))


def assert_exact(
    operations: Mapping[str, tuple[Build, Callable[..., Array]]],
    *inputs: Array,
    fixed: bool = False,
) -> None:
    """Compare each operation with what it is to give of the inputs."""
    builds = {name: build for name, (build, _) in operations.items()}
    for name, output in served_each(builds, *inputs, fixed=fixed).items():
        assert np.array_equal(output, operations[name][1](*inputs)), name


def types(build: Build, *inputs: Array) -> list[str]:
    """List the operations that a graph consists of once it is exact."""
    model = graph(build, inputs)
    exact_integers(model, EXACT)
    names = [node.get_type_name() for node in model.get_ordered_ops()]
    return [name for name in names if name not in ("Constant", "Parameter", "Result")]

"""Serves TorchScript (`*.pt`), `torch.export` (`*.pt2`), and weights with a class (`params`)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType, Signature, TensorSpec
from ie_serving.engines import declared
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.unsupported import refuse_unsupported
from ie_serving.engines.pytorch.files import ARGUMENTS, CLASS, Module, read
from ie_serving.engines.pytorch.torch_tensors import array_of, dtype_of, named, tensor_of
from ie_serving.engines.run.function import needed, one_line, program, reading
from ie_serving.engines.run.program import CompiledPrograms
from ie_serving.engines.run.threads import threads

LIBRARY, NAME, EXTRA = "torch", "PyTorch", "pytorch"
KNOWN = (declared.INPUTS, declared.OUTPUTS, CLASS, ARGUMENTS)

Specs = Mapping[str, TensorSpec]
Library = Any
"""The module `torch`, imported when a model needs it."""
Compute = Callable[[Mapping[str, Array]], dict[str, Any]]
"""Computes the outputs of a module, as tensors by name."""


def load(file: Path, options: EngineOptions) -> CompiledPrograms:
    """Make the model of a file. See `engines.listed.Load`."""
    declared.check_known(options, KNOWN, EXTRA)
    with needed(LIBRARY, EXTRA, file.name):
        import torch
    # PyTorch has one thread pool for the process; the number is the same for each model.
    torch.set_num_threads(threads())
    with reading(NAME, file.name):
        module = read(torch, file, options)
        inputs = _inputs(module, declared.specs(options, declared.INPUTS))
    outputs = declared.specs(options, declared.OUTPUTS)
    compute = partial(_compute, torch, module, inputs, list(outputs))
    signature = Signature(SERVING_DEFAULT, inputs, outputs or _tried(compute, inputs))
    refuse_unsupported(options, signature, NAME)
    call = partial(_answer, torch, compute, signature.outputs)
    # RuntimeError as well: PyTorch raises it where shapes or dtypes of a request do not fit.
    refusals = (ValueError, TypeError, IndexError, AssertionError, RuntimeError)
    made = program(signature, call, options, library=NAME, refusals=refusals)
    state = ", ".join(module.state)
    told = f"; {state} as the file has them, for each request" if state else ""
    return CompiledPrograms([made], runs_on={SERVING_DEFAULT: f"{NAME}{told}"})


def _inputs(module: Module, given: Specs) -> Specs:
    """Give the inputs in the order of the module's arguments."""
    found = given or module.inputs
    if not found:
        listed = ", ".join(f'"{name}": {{"dtype": ..., "shape": ...}}' for name in module.arguments)
        raise LoadFailed(
            f'the file says no dtypes and shapes; say them by params: {{"inputs": {{{listed}}}}}'
        )
    arguments = [name for name in module.arguments if name in found]
    if len(arguments) != len(found) or arguments != list(module.arguments)[: len(found)]:
        raise LoadFailed(
            f"params.inputs: {', '.join(found)} given; the model takes"
            f" {', '.join(module.arguments)}"
        )
    return {name: found[name] for name in arguments}


def _compute(
    torch: Library,
    module: Module,
    inputs: Specs,
    outputs: Sequence[str],
    given: Mapping[str, Array],
) -> dict[str, Any]:
    tensors = [tensor_of(torch, given[name], spec.dtype) for name, spec in inputs.items()]
    with torch.inference_mode():
        try:
            return named(module.call(*tensors), outputs)
        except RuntimeError as error:
            # TorchScript prints the path to the operation first, and the cause in the last line.
            raise ValueError(str(error).strip().splitlines()[-1]) from None


def _answer(
    torch: Library, compute: Compute, outputs: Specs, given: Mapping[str, Array]
) -> Mapping[str, Array]:
    found = compute(given)
    return {
        name: array_of(torch, found[name]).astype(spec.dtype.numpy, copy=False)
        for name, spec in outputs.items()
    }


def _tried(compute: Compute, inputs: Specs) -> Specs:
    """Describe the outputs by running zeros: output sizes that vary with an open size are open."""
    one, two = (_shown(compute, inputs, size) for size in (1, 2))
    return {
        name: TensorSpec(name, dtype_of(tensor), _sizes(tensor, two[name]), name)
        for name, tensor in one.items()
    }


def _shown(compute: Compute, inputs: Specs, size: int) -> dict[str, Any]:
    zeros = {
        name: np.zeros([size if each == -1 else each for each in spec.shape or ()], _numpy(spec))
        for name, spec in inputs.items()
    }
    try:
        return compute(zeros)
    except Exception as error:  # libraries raise what they like
        shapes = ", ".join(f'"{name}" {list(array.shape)}' for name, array in zeros.items())
        raise LoadFailed(
            f"the model fails on zeros of {shapes}: {one_line(error)}; {_advice(inputs)}"
        ) from error


def _advice(inputs: Specs) -> str:
    """Say what helps a model that fails on zeros: its outputs may need none."""
    outputs = "its outputs by params.outputs"
    sizes = "the sizes that it needs by params.inputs"
    is_open = any(-1 in (spec.shape or ()) for spec in inputs.values())
    if not is_open:
        return f"give {outputs}"
    # Zero is no value of many integers, such as sample rates, whatever the sizes.
    has_integers = any(_numpy(spec).kind in "iu" for spec in inputs.values())
    return f"give {outputs}, or {sizes}" if has_integers else f"give {sizes}, or {outputs}"


def _numpy(spec: TensorSpec) -> Any:  # noqa: ANN401  numpy's own type
    if spec.dtype is DataType.STRING:
        raise LoadFailed(f"input {spec}: {NAME} has no tensors of strings")
    return spec.dtype.numpy


def _sizes(one: Any, two: Any) -> tuple[int, ...] | None:  # noqa: ANN401
    if one.dim() != two.dim():
        return None
    return tuple(a if a == b else -1 for a, b in zip(one.shape, two.shape, strict=True))

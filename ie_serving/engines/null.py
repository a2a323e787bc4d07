"""A driver that computes nothing: it echoes its inputs, or gives zeros. For tests of the server.

`params` may declare `inputs` and `outputs`. An output with the name of an input is that input;
others are zeros, as many rows as the first input has.
"""

from functools import partial
from pathlib import Path

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import (
    SERVING_DEFAULT,
    Array,
    Arrays,
    DataType,
    Signature,
    Specs,
    TensorSpec,
)
from ie_serving.engines import driver_params
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.unsupported_settings import refuse_unsupported
from ie_serving.engines.run.function import program
from ie_serving.engines.run.program import CompiledPrograms

NAME = "null"
ANY = TensorSpec("x", DataType.FP32, None, "x:0")
"""The one input where none are declared: numbers of any shape."""


def load(directory: Path, options: EngineOptions) -> CompiledPrograms:
    """Make the model of a directory, whatever its files. See `engines.drivers.LoadDirectory`."""
    driver_params.check_known(options, (driver_params.INPUTS, driver_params.OUTPUTS), NAME)
    inputs = driver_params.specs(options, driver_params.INPUTS) or {ANY.name: ANY}
    outputs = driver_params.specs(options, driver_params.OUTPUTS) or inputs
    signature = Signature(SERVING_DEFAULT, inputs, outputs)
    _check_echoed(inputs, outputs)
    refuse_unsupported(options, signature, f"driver {NAME}")
    call = partial(_echo, outputs)
    made = program(signature, call, options, library=f"driver {NAME}")
    return CompiledPrograms([made], runs_on={SERVING_DEFAULT: f"driver {NAME}, which echoes"})


def _check_echoed(inputs: Specs, outputs: Specs) -> None:
    for name in inputs.keys() & outputs.keys():
        if inputs[name] != outputs[name]:
            raise LoadFailed(f"params.outputs.{name}: expected what the input has, {inputs[name]}")


def _echo(outputs: Specs, inputs: Arrays) -> Arrays:
    first = next(iter(inputs.values()))
    rows = first.shape[0] if first.ndim else 1
    return {
        name: inputs[name] if name in inputs else _zeros(spec, rows)
        for name, spec in outputs.items()
    }


def _zeros(spec: TensorSpec, rows: int) -> Array:
    sizes = spec.shape or ()
    # Sizes that are open beyond the rows become 1, the least that fits them.
    shape = [rows if size == -1 and at == 0 else abs(size) for at, size in enumerate(sizes)]
    if spec.dtype is DataType.STRING:
        return np.full(shape, b"", np.object_)
    return np.zeros(shape, spec.dtype.numpy)

"""Versions that are pipelines of Konduit, as `config_file.py` makes them of its files."""

import dataclasses
import json
from contextlib import ExitStack
from pathlib import Path

from ie_serving.compat.konduit import FILE
from ie_serving.compat.konduit.data import decode, encode
from ie_serving.compat.konduit.pipeline.definition import Pipeline, read
from ie_serving.compat.konduit.pipeline.running import Running
from ie_serving.core.values.errors import ConfigError, LoadFailed
from ie_serving.core.values.tensors import DataType, TensorSpec
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.declared import check_known
from ie_serving.engines.kernels import KernelOptions, Place
from ie_serving.engines.python import driver
from ie_serving.engines.python.context import Context, LoadContext
from ie_serving.engines.python.kernel import Kernel
from ie_serving.engines.python.kernel_model import KernelModel
from ie_serving.engines.python.runners import Inputs

AT_A_TIME = 8
"""Requests that a pipeline without Python code works on at once: they mostly wait for models."""


def load(directory: Path, options: EngineOptions) -> KernelModel:
    """Make the model of a pipeline. See `engines.drivers.Load`."""
    check_known(options, (), "konduit")
    if not (directory / FILE).is_file():
        raise LoadFailed(f"driver konduit runs pipelines of Konduit: expected {FILE}")
    code = pipeline_in(directory).runs_code
    own = dataclasses.replace(
        options.of(KernelOptions),
        place=Place(file=FILE),
        # Scripts share what their import code has made, and few authors think of threads.
        max_concurrency=1 if code else AT_A_TIME,
    )
    # Without a script the pipeline runs no code of users.
    allowed = options.allow_python or not code
    return driver.load(directory, dataclasses.replace(options, allow_python=allowed).having(own))


DATA = "data"


def pipeline_in(directory: Path) -> Pipeline:
    """Read the pipeline of a version. Raises: LoadFailed."""
    try:
        return read(json.loads((directory / FILE).read_text("utf-8")), "pipeline")
    except (ConfigError, OSError, ValueError) as error:
        raise LoadFailed(f"{FILE}: {error}") from error


def opened(directory: Path, ctx: LoadContext, undone: ExitStack) -> Kernel:
    """Load a pipeline.

    Args:
        directory: of the version.
        ctx: tells the model.
        undone: has nothing to undo here.

    Raises:
        LoadFailed: naming the step.
    """
    running = Running(pipeline_in(directory))

    def execute(inputs: Inputs, call: Context) -> object:
        data = decode(inputs[DATA].item())
        return {DATA: encode(running(data, call.models))}

    text = {DATA: TensorSpec(DATA, DataType.STRING, (), f"{DATA}:0")}
    return Kernel(name=f"pipeline {ctx.name}", inputs=text, outputs=text, execute=execute)

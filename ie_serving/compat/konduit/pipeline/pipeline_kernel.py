"""A pipeline of Konduit as a kernel: one text of JSON in, one out."""

import json
from contextlib import ExitStack
from pathlib import Path

from ie_serving.compat.konduit import FILE
from ie_serving.compat.konduit.data import decode, encode
from ie_serving.compat.konduit.pipeline.definition import Pipeline, read
from ie_serving.compat.konduit.pipeline.running import Running
from ie_serving.core.values.errors import ConfigError, LoadFailed
from ie_serving.core.values.tensors import DataType, TensorSpec
from ie_serving.engines.python.calls import Inputs
from ie_serving.engines.python.context import Context, LoadContext
from ie_serving.engines.python.kernel import Kernel

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

"""Versions that are pipelines of Konduit, as `config_file.py` makes them of its files."""

import dataclasses
from pathlib import Path

from ie_serving.compat.konduit import FILE
from ie_serving.compat.konduit.pipeline.pipeline_kernel import pipeline_in
from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.declared import check_known
from ie_serving.engines.kernels import KernelOptions, Place
from ie_serving.engines.python import driver
from ie_serving.engines.python.kernel_model import KernelModel

AT_A_TIME = 8
"""Requests that a pipeline without Python code works on at once: they mostly wait for models."""


def load(directory: Path, options: EngineOptions) -> KernelModel:
    """Make the model of a pipeline. See `engines.listed.Load`."""
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

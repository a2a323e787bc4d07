"""Versions that are packages of IBM EDI, found by their files. Theirs is Python code."""

import dataclasses
from pathlib import Path

from ie_serving.compat.edi.package import package_files
from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.declared import check_known
from ie_serving.engines.kernels import KernelOptions, Place
from ie_serving.engines.python import driver
from ie_serving.engines.python.kernel_model import KernelModel


def load(directory: Path, options: EngineOptions) -> KernelModel:
    """Make the model of a package. See `engines.drivers.Load`."""
    check_known(options, (), "edi")
    description = package_files.described(directory)
    if description is None:
        raise LoadFailed(
            f"driver edi runs packages of IBM EDI: expected a {package_files.DESCRIPTION} with"
            f' "{package_files.KERNEL_PATH}"'
        )
    place = Place(file=package_files.kernel_file(directory, description))
    own = dataclasses.replace(options.of(KernelOptions), place=place)
    return driver.load(directory, options.having(own))

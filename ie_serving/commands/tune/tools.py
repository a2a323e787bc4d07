"""Functions of other packages that tuning needs; the composition root passes them in."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ie_serving.commands.tune.search import Keys
from ie_serving.core.values.requests import Sample
from ie_serving.engines.base import Engine, EngineOptions
from ie_serving.engines.openvino.options import OpenVinoOptions

Read = Callable[[Path], Iterable[Sample]]
"""Reads a file, or the recording in a version directory. Raises InvalidRequest, OSError."""


@dataclass(frozen=True, kw_only=True)
class Tools:
    """See above.

    Attributes:
        engine: compiles, with every layer.
        with_keys: gives options with keys of a model's entry added.
        lower: names the precisions below f32 that the device has.
        of_file: reads a file of requests.
        of_version: reads the recording in a version directory.
    """

    engine: Engine
    with_keys: Callable[[EngineOptions, Keys], EngineOptions]
    lower: Callable[[OpenVinoOptions], Sequence[str]]
    of_file: Read
    of_version: Read

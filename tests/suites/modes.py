"""In which ways each test is served and asked."""

from collections.abc import Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

AXES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "sizes": ("fixed", "open"),
        "precision": ("f32", "shipped"),
        "engines": ("openvino", "onnxruntime"),
        "interface": ("predict", "rest", "raw"),
    }
)
"""Sizes of inputs as the test has them, or left to each request; precision of floats by
`--inference_precision=f32`, or that of the CPU; without onnxruntime, or beside it; gRPC Predict,
REST in columns, or raw contents of the Open Inference Protocol."""


class Mode(NamedTuple):
    """One run of all tests."""

    sizes: str
    precision: str
    engines: str

    @property
    def flags(self) -> Sequence[str]:
        """Of the server."""
        return ("--inference_precision=f32",) if self.precision == "f32" else ()


class Place(NamedTuple):
    """One of the answers to one test."""

    sizes: str
    precision: str
    engines: str
    interface: str


MODES = tuple(Mode(*words) for words in product(*list(AXES.values())[:-1]))


def places(mode: Mode) -> list[Place]:
    """Those of one run."""
    return [Place(*mode, interface) for interface in AXES["interface"]]

"""The findings of a comparison of two engines, and the tolerances for equal answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ie_serving.core.values.difference import difference
from ie_serving.core.values.tensors import Array, Arrays
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.generated import ValueKind

RTOL, SHARE = 1e-3, 1e-4
"""Tolerance of floats in f32: relative to each number, and to the greatest number of its output.
Sums of thousands of terms, added in another order, differ by a hundredth of it."""
QUANTIZED = "quantized"
LOWER: Mapping[str, tuple[float, float]] = {
    "bf16": (2e-2, 1e-2),
    "f16": (5e-3, 5e-3),
    QUANTIZED: (1e-1, 1e-1),
}
"""The same for lower precisions, with 8 and 11 bits of mantissa, and for quantized models, where
each engine rounds every operation's results to one of 255 values in its own way."""
MORE_SHARE = 0.15
"""Share of a load's time that either engine may spend on further requests to a large model."""
MANY, FEW_SHARE = 1000, 1e-3
"""In outputs of at least `MANY` integers, such as classes of pixels, the share `FEW_SHARE` may
differ: rounding decides between classes of nearly equal scores."""


@dataclass(frozen=True)
class ComparisonTask:
    """One model to compare.

    Attributes:
        file: of the model.
        options: with which OpenVINO compiles it.
        large: whether, if all inputs are floats, only the second engine runs, on few requests: the
            server compiles the model meanwhile, and a second compilation would double the load.
        limit_s: seconds after which the process is ended.
        scratch: directory that the process may create; the server removes it.
        skipped: numbers of inferences that have ended a process before.
    """

    file: Path
    options: EngineOptions
    large: bool
    limit_s: int
    scratch: Path
    skipped: frozenset[int] = field(default_factory=frozenset)


OPENVINO = "OpenVINO"
"""Name of the first engine in steps and texts."""


@dataclass
class Findings:
    """The results of all requests.

    Attributes:
        reference: name and release of the second engine.
        asked: requests that both engines answered.
        differs: the first difference of each kind of request, as text.
        refused: the first request of finite values that only OpenVINO refuses, and why.
        crashed: by kind of request, the engine that ended the process, as text.
        cut_off: whether time ran out before all requests were sent.
        why_not: why nothing was compared; empty if something was.
    """

    reference: str = ""
    asked: int = 0
    differs: dict[ValueKind, str] = field(default_factory=dict)
    refused: str = ""
    crashed: dict[ValueKind, str] = field(default_factory=dict)
    cut_off: bool = False
    why_not: str = ""

    def told(self) -> str:
        """Describe the comparison for the log and `check`."""
        if self.why_not:
            return f"not compared: {self.why_not}"
        end = ", when the time was over" if self.cut_off else ""
        return f"compared with {self.reference} on {self.asked} requests{end}"


def differences(found: Arrays, expected: Arrays, precision: str) -> str:
    """Say how the outputs of one request differ; empty if they do not.

    Args:
        found: of OpenVINO, by the names of the reference.
        expected: of the reference.
        precision: that OpenVINO computes in, such as `bf16`; empty counts as f32.
    """
    said = (_difference(name, found[name], expected[name], precision) for name in expected)
    return "; ".join(filter(None, said))


def _difference(name: str, found: Array, expected: Array, precision: str) -> str:
    if found.shape == expected.shape and _are_few(found, expected):
        return ""
    if precision == QUANTIZED and found.shape == expected.shape and expected.dtype.kind != "f":
        return _steps_apart(name, found, expected)
    rtol, share = LOWER.get(precision, (RTOL, SHARE))
    if expected.dtype == np.float16:
        rtol, share = (max(a, b) for a, b in zip((rtol, share), LOWER["f16"], strict=True))
    return difference(name, found, expected, rtol, share * _greatest(expected))


def _steps_apart(name: str, found: Array, expected: Array) -> str:
    """Compare integers of a quantized model: those of 8 and 16 bits stand for floats.

    Others are indices, classes or booleans, which rounding may change if scores are nearly equal.
    """
    if expected.dtype.kind == "b" or expected.dtype.itemsize > 2:
        return ""
    ends = np.iinfo(expected.dtype)
    _, share = LOWER[QUANTIZED]
    allowed = share * (ends.max - ends.min) / 2
    return difference(name, found.astype(np.float64), expected.astype(np.float64), 0.0, allowed)


def _greatest(expected: Array) -> float:
    """Give the greatest finite magnitude, but at least one in reach of other numbers' rounding."""
    if expected.dtype.kind != "f":
        return 0.0
    finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
    return max(float(finite.max(initial=0.0)), 1e-2)


def _are_few(found: Array, expected: Array) -> bool:
    if expected.dtype.kind not in "iu" or expected.size < MANY:
        return False
    return bool(np.count_nonzero(found != expected) <= FEW_SHARE * expected.size)

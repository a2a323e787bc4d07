"""Compares an output with the expected one, and describes the difference."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from ie_serving.core.values.tensors import Array

TOLERANCE: Final = 1e-3
"""Tolerated share of each number, and of the greatest of its output: room for another processor's
roundings."""


def drifts(
    found: Mapping[str, Array], expected: Mapping[str, Array], tolerance: float
) -> dict[str, str]:
    """Describe, by name, each output of one answer that differs from another answer's.

    Args:
        found: the outputs; those beyond the expected ones are ignored, as clients do.
        expected: the outputs to compare with.
        tolerance: share of a number, and of the greatest finite one of its output, by which floats
            may differ.
    """
    said = {name: _drift(name, found.get(name), each, tolerance) for name, each in expected.items()}
    return {name: text for name, text in said.items() if text}


def _drift(name: str, found: Array | None, expected: Array, tolerance: float) -> str:
    if found is None:
        return f'output "{name}" is missing'
    if found.dtype != expected.dtype:
        return f'output "{name}" has dtype {found.dtype}, not {expected.dtype}'
    atol = 0.0
    if expected.dtype.kind == "f":
        finite = np.abs(expected[np.isfinite(expected)])
        atol = tolerance * float(finite.max(initial=0.0))
    return difference(name, found, expected, tolerance, atol)


def difference(name: str, found: Array, expected: Array, rtol: float, atol: float) -> str:
    """Describe how an output differs from the expected one; empty if it does not.

    Args:
        name: name of the output.
        found: output of the model.
        expected: the expected output. Floats may differ from it by `atol + rtol * |expected|`, NaN
            equals NaN; all other types have to be equal.
        rtol: relative tolerance, a share of the expected number.
        atol: absolute tolerance.
    """
    if found.shape != expected.shape:
        return f'output "{name}" has shape {list(found.shape)}, not {list(expected.shape)}'
    if expected.dtype.kind != "f" or found.dtype.kind != "f":
        return _difference_text(name, found, expected, np.asarray(found != expected))
    return _too_far(name, found.astype(np.float64), expected.astype(np.float64), rtol, atol)


def _too_far(name: str, found: Array, expected: Array, rtol: float, atol: float) -> str:
    # The difference of infinities is NaN, and their tolerance infinite.
    with np.errstate(invalid="ignore"):
        distance, allowed = np.abs(found - expected), atol + rtol * np.abs(expected)
        near = np.isfinite(expected) & (distance <= allowed)
        excess = np.where(np.isnan(distance), np.inf, distance - allowed)
    same = near | (found == expected) | (np.isnan(found) & np.isnan(expected))
    text = _difference_text(name, found, expected, ~same, excess)
    if not text:
        return ""
    worst = _worst(~same, excess)
    if not np.isfinite(distance[worst]):
        return text  # NaN and infinities have no numeric difference
    return f"{text}, by {distance[worst]:.3g} where {allowed[worst]:.3g} is allowed"


def _difference_text(
    name: str, found: Array, expected: Array, wrong: Array, excess: Array | int = 0
) -> str:
    """Say how many values are wrong, and show the worst of them, by its excess."""
    count = int(np.count_nonzero(wrong))
    if not count:
        return ""
    worst = _worst(wrong, excess)
    where = [int(index) for index in worst]
    return (
        f'output "{name}" differs in {count} of {expected.size} values: at {where} it is'
        f" {found[worst]}, not {expected[worst]}"
    )


def _worst(wrong: Array, excess: Array | int) -> tuple[np.intp, ...]:
    """Return the index of the wrong value with the greatest excess."""
    ranked = np.where(wrong, excess, -np.inf)
    return np.unravel_index(int(np.argmax(ranked)), wrong.shape)


def deviation(found: Array, expected: Array) -> float:
    """Return the largest difference between two outputs, relative to the largest expected number.

    Returns:
        Infinity if shapes differ, if values other than floats differ at all, or if the positions of
        NaN and infinities differ.
    """
    if found.shape != expected.shape:
        return math.inf
    if expected.dtype.kind != "f" or found.dtype.kind != "f":
        return 0.0 if np.array_equal(found, expected) else math.inf
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    same = np.array_equal(found[~finite], expected[~finite], equal_nan=True)
    if not same or not np.isfinite(found[finite]).all():
        return math.inf
    farthest = float(np.abs(found[finite] - expected[finite]).max(initial=0.0))
    largest = float(np.abs(expected[finite]).max(initial=0.0))
    return farthest and (farthest / largest if largest else math.inf)

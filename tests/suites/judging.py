"""What an answer is worth, beside the outputs that a test expects. Pure."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

BF16_RTOL = 2.0**-6
"""Two steps of bfloat16, as the suite itself allows."""

ROUNDINGS = 4
"""Roundings of an output's largest number that each of its numbers may be off: sums of which the
rest cancels (the zeros of a Fourier transform), which the suite computes in float64."""

SHOWN = 3
"""Values of each side in the text of a difference."""


class Kind(enum.Enum):
    """What became of one test."""

    RIGHT = "right"
    ILL_POSED = "ill-posed"
    NOT_CARRIED = "not carried"
    REFUSED = "refused"
    WRONG = "wrong"
    CRASH = "crash"
    HANG = "hang"


@dataclass(frozen=True)
class Outcome:
    """What became of one test, and why: a difference, or the server's words."""

    kind: Kind
    cause: str = ""


@dataclass(frozen=True)
class Tolerance:
    """How an answer may differ.

    Attributes:
        rtol: share of each number.
        atol: amount beside it.
        typed: whether an answer has types, and shapes of arrays without elements: JSON has neither.
        ill_posed: why only types and shapes are compared; empty where values are.
    """

    rtol: float
    atol: float
    typed: bool = True
    ill_posed: str = ""


def judge(got: Mapping[str, Array], expected: Mapping[str, Array], within: Tolerance) -> Outcome:
    """Compare outputs by name; an answer may have more of them than are expected."""
    for name, right in expected.items():
        if name not in got:  # the client sees it: not a wrong answer
            return Outcome(Kind.REFUSED, f"no output {name} among {', '.join(sorted(got))}")
        difference = differs(got[name], right, within)
        if difference:
            return Outcome(Kind.WRONG, f"{name}: {difference}")
    return Outcome(Kind.ILL_POSED, within.ill_posed) if within.ill_posed else Outcome(Kind.RIGHT)


def differs(got: Array, right: Array, within: Tolerance) -> str:
    """Say how one output differs from what is expected; empty where it does not."""
    if not within.typed and got.size == right.size == 0:
        return ""
    if within.typed and got.dtype != right.dtype:
        return f"type {got.dtype}, expected {right.dtype}"
    if got.shape != right.shape:
        return f"shape {got.shape}, expected {right.shape}"
    where = np.flatnonzero(~_close(got, right, within))
    if within.ill_posed or not len(where):
        return ""
    few = where[:SHOWN]
    return (
        f"{len(where)} of {right.size} differ, from element {where[0]}:"
        f" got {_shown(got, few)}, expected {_shown(right, few)}"
    )


def _close(got: Array, right: Array, within: Tolerance) -> Array:
    """Which elements are as expected."""
    if right.dtype.kind in "iu":  # as Python's numbers, whose differences do not wrap
        got, right = got.astype(object), right.astype(object)
        near: Array = np.less_equal(abs(got - right), within.atol + within.rtol * abs(right))
        return near
    is_bf16 = right.dtype.name == "bfloat16"
    if right.dtype.kind != "f" and not is_bf16:
        return np.equal(got, right)
    rtol, atol = within.rtol, within.atol
    wide, expected = got.astype(np.float64), right.astype(np.float64)
    if is_bf16:
        rtol = max(rtol, BF16_RTOL)
    else:
        largest = np.max(np.abs(expected), initial=0, where=np.isfinite(expected))
        atol = max(atol, ROUNDINGS * float(np.finfo(right.dtype).eps) * float(largest))
    return np.isclose(wide, expected, rtol, atol, equal_nan=True)


def _shown(values: Array, where: Array) -> str:
    words = ", ".join(map(_word, values.reshape(-1)[where]))
    return f"[{words}]"


def _word(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, np.floating) else str(value)

"""Requests kept for trials: golden requests with the outputs to expect, recorded ones without."""

from collections.abc import Callable
from dataclasses import dataclass

from ie_serving.core.values.requests import InferRequest
from ie_serving.core.values.tensors import Arrays, Signature

RTOL, ATOL = 1e-3, 1e-5
"""Default tolerances of floats: relative to the expected value, and absolute. Other orders of
float32 additions differ far less; bfloat16 (up to 1e-2) differs more."""


@dataclass(frozen=True, slots=True)
class GoldenRequest:
    """A golden request, read but not yet decoded.

    Attributes:
        place: where it was read, for errors.
        request: the request.
        expected: returns expected outputs by alias, some or all. Raises InvalidRequest.
        rtol: see `RTOL`.
        atol: see `ATOL`.
    """

    place: str
    request: InferRequest
    expected: Callable[[Signature], Arrays]
    rtol: float = RTOL
    atol: float = ATOL


@dataclass(frozen=True, slots=True)
class Sample:
    """A Predict, read but not yet decoded.

    Attributes:
        place: where it was read, for texts.
        request: the request.
        golden: the same with its expected outputs; None if there are none.
    """

    place: str
    request: InferRequest
    golden: GoldenRequest | None = None

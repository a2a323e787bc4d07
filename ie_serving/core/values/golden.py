"""A request together with the outputs that a version has to give for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ie_serving.core.values.requests import InferRequest
from ie_serving.core.values.tensors import Array, Signature

RTOL, ATOL = 1e-3, 1e-5
"""Differences of floats that are allowed where nobody says, as a share of the expected value and in
itself. Other orders of float32 additions stay far below, bfloat16 (up to 1e-2) does not."""


@dataclass(frozen=True, slots=True)
class GoldenRequest:
    """One of them, read but not yet decoded.

    Attributes:
        place: where it was read, for errors.
        request: to be answered.
        expected: gives the outputs by alias, all or some of the signature's. Raises InvalidRequest.
        rtol: see `RTOL`.
        atol: see `ATOL`.
    """

    place: str
    request: InferRequest
    expected: Callable[[Signature], Mapping[str, Array]]
    rtol: float = RTOL
    atol: float = ATOL

"""A recorded request, to be tried on a version before it serves."""

from dataclasses import dataclass

from ie_serving.core.values.golden import GoldenRequest
from ie_serving.core.values.requests import InferRequest


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

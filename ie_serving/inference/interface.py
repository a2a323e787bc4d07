"""An `Interface`: what the data plane knows of a front end, as a value without any protocol.

The front end keeps the wording of its protocol. The data plane calls back for that wording at the
place where it detects an error, so that the error it counts is the one that the client gets.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.requests import NOBODY, Caller
from ie_serving.core.values.tensors import Arrays, Signature
from ie_serving.models.version.handle import Servable

T = TypeVar("T")

LARGE = 1 << 18
"""Bytes of binary tensors in a request from which a thread decodes and casts it. A smaller request
takes less than 1 ms, the most that may block the event loop; a thread costs 50 us."""
Outputs = Arrays
Encode = Callable[[Outputs], T]
"""Makes a reply from outputs by alias; keeps no reference to their memory."""


class Api(enum.Enum):
    """The operations of the data plane; the values are labels of the metrics."""

    PREDICT = "Predict"
    CLASSIFY = "Classify"
    REGRESS = "Regress"
    MULTI_INFERENCE = "MultiInference"
    METADATA = "GetModelMetadata"
    STATUS = "GetModelStatus"
    MODELS = "ListModels"


@dataclass(frozen=True, eq=False, kw_only=True)
class Interface(Generic[T]):
    """One front end. Compared by identity: each version keeps one `Bound` for each interface."""

    entrypoint: str
    """Label of the front end's requests in the metrics: `GRPC` or `REST`."""

    labels: Mapping[Api, str]
    """The front end's names of APIs in TensorFlow Serving's metrics, for those that it has."""

    encoders: Callable[[Servable, Signature, Sequence[str]], Mapping[object, Encode[T]]]
    """Makes the encoders for replies of one version and signature with the given outputs: one for
    each form of reply that the protocol has. Called once; the result is kept."""

    unknown_signature: Callable[[Servable, str], ServingError]
    """Makes the error for a Predict that names a signature the servable does not have."""

    encoder: Callable[[Servable, Signature, Sequence[str], object], Encode[T]] | None = None
    """Makes the encoder of a form that `encoders` lacks, since one request alone has it; None where
    there are no such forms."""

    limit_s: float | None = None
    """Longest time in seconds that an inference may take, including its wait; beyond it the request
    fails. None: only the caller's own deadline holds, which the transport keeps."""

    methods: Mapping[Api, str] = field(default_factory=dict)
    """The front end's names of APIs in the other metrics, where they differ from `Api`."""

    large_request: int = LARGE
    """Bytes of a request from which a thread decodes it."""

    large_reply: int | None = None
    """Elements in all outputs from which a thread encodes the reply; None if encoding costs no more
    than the copy that a thread would need."""

    caller: Callable[[Any], Caller] = lambda _: NOBODY
    """Makes, from `InferRequest.caller`, the caller that models see which ask for callers."""

    check_large: Callable[[object, Outputs], None] = lambda form, outputs: None
    """Refuses outputs that have no reply of a form, before those of a large reply are copied."""


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a Classify or Regress, for a front end to encode.

    Attributes:
        servable: the version that answered.
        signature: name of the signature.
        outputs: arrays by role: `scores`, `classes` or `outputs`.
        rows: number of Examples in the request.
    """

    servable: Servable
    signature: str
    outputs: Outputs
    rows: int

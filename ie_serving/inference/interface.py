"""What the data plane has to know of a front end: a value, made once, with nothing of its protocol.

The words of a protocol stay in its front end. The data plane asks for them where it finds the fact
that is to be phrased, so that the phrased error is the one that is counted.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ie_serving.core.values.callers import NOBODY, Caller
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import Array, Signature
from ie_serving.models.version.handle import Servable

T = TypeVar("T")

LARGE = 1 << 18
"""Bytes of a request of binary tensors from which it is decoded and cast in a thread. Below, that
takes less than the millisecond for which the event loop may be held; a thread costs 50 us."""
Outputs = Mapping[str, Array]
Encode = Callable[[Outputs], T]
"""Makes a reply of outputs by alias; keeps none of their memory."""


class Api(enum.Enum):
    """What can be asked of the data plane; the values are labels of the metrics."""

    PREDICT = "Predict"
    CLASSIFY = "Classify"
    REGRESS = "Regress"
    MULTI_INFERENCE = "MultiInference"
    METADATA = "GetModelMetadata"
    STATUS = "GetModelStatus"
    MODELS = "ListModels"


@dataclass(frozen=True, eq=False, kw_only=True)
class Interface(Generic[T]):
    """One front end. Compared by identity: what is bound for a version is bound by interface."""

    entrypoint: str
    """Label of its requests in the metrics: `GRPC` or `REST`."""

    labels: Mapping[Api, str]
    """Its name of each API in the metrics of TensorFlow Serving, for those that it has."""

    encoders: Callable[[Servable, Signature, Sequence[str]], Mapping[object, Encode[T]]]
    """Makes what encodes the replies of one version and signature with these outputs: an encoder
    for each form that its protocol's replies may take. Called once and remembered."""

    unknown_signature: Callable[[Servable, str], ServingError]
    """Phrases that a Predict names a signature which the servable does not have."""

    limit_s: float | None = None
    """Longest time in seconds that an inference may take, waiting included; None sets no limit
    beside the caller's own, which its transport keeps."""

    methods: Mapping[Api, str] = field(default_factory=dict)
    """Its own names of APIs in the other metrics, where they are not those of `Api`."""

    large_request: int = LARGE
    """Bytes of a request from which it is decoded in a thread."""

    large_reply: int | None = None
    """Elements of all outputs from which a reply is encoded in a thread; None where encoding costs
    no more than the copy that this would take."""

    caller: Callable[[Any], Caller] = lambda _: NOBODY
    """Tells of `InferRequest.caller` what models may know; asked for those alone that are told."""

    check_large: Callable[[object, Outputs], None] = lambda form, outputs: None
    """Refuses outputs that are no reply of a form, before those of a large one are copied."""


@dataclass(frozen=True, slots=True)
class Results:
    """What a Classify or Regress has computed, for a front end to encode.

    Attributes:
        servable: which has answered.
        signature: name of the signature.
        outputs: arrays by role: `scores`, `classes` or `outputs`.
        rows: how many Examples there were.
    """

    servable: Servable
    signature: str
    outputs: Outputs
    rows: int

"""An `Interface`: what the data plane knows of a front end, as a value without any protocol.

The front end keeps the wording of its protocol. The data plane calls back for that wording at the
place where it detects an error, so that the error it counts is the one that the client gets.

Few threads encode, and a small request may cause a large reply. So the byte budget counts each copy
that waits for a thread, together with the text that the thread will make of the copy.

`decode_large` and `decode_examples` decode requests into arrays or Examples, in a thread where that
would block the event loop. `DataPlane.predict` decodes small Predict requests itself.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.fit import cast_all, have_dtypes
from ie_serving.core.values.requests import (
    NO_CALLER,
    Caller,
    Decoded,
    ExamplesRequest,
    Features,
    InferRequest,
)
from ie_serving.core.values.tensors import Array, Outputs, Signature
from ie_serving.models.version.handle import Servable

T = TypeVar("T")

LARGE = 1 << 18
"""Bytes of binary tensors in a request from which a thread decodes and casts it. A smaller request
takes less than 1 ms, the most that may block the event loop; a thread costs 50 us."""

Encode = Callable[[Outputs], T]
"""Makes a reply from outputs by alias; keeps no reference to their memory."""
HandOn = Callable[["Interface[Any]"], "Interface[Any]"]
"""Wraps the interface of one protocol, as an access log does."""

NARROW: Final = 4
"""Largest size in bytes of an element whose text is short."""
SHORT_TEXT: Final = 16
LONG_TEXT: Final = 28
"""Bytes of JSON that the budget counts for a wider element until the reply is encoded. A float32
takes up to 15 with its comma, a float64 up to 25, plus an eighth for buffer growth; the mean is
lower. Afterwards the budget counts the reply's actual length."""
MANY_EXAMPLES: Final = 1000
"""Number of Examples from which a thread reads them. Each takes 0.8 us whatever its size, since its
features are parsed only when used."""


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
    """One front end, compared by identity: a version keeps one `BoundSignature` for each."""

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

    caller: Callable[[Any], Caller] = lambda _: NO_CALLER
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


@dataclass(frozen=True, slots=True)
class UnencodedOutputs(Generic[T]):
    """Copies of outputs for a thread to encode: too many elements for the event loop."""

    encode: Encode[T]
    outputs: Outputs


ReadOutputs = Callable[[Outputs], T | UnencodedOutputs[T]]
"""Called by the engine with the outputs, while their memory is valid."""


def unencoded(encode: Encode[T], outputs: Outputs) -> UnencodedOutputs[T]:
    """Copy outputs for a thread to encode.

    Raises:
        QueueFull, RequestTooLarge: the copies do not fit into the byte budget.
    """
    copies = {
        alias: BUDGET.copy(array, beside=array.size * _text(array))
        for alias, array in outputs.items()
    }
    return UnencodedOutputs(encode, copies)


def _text(array: Array) -> int:
    return SHORT_TEXT if array.dtype.itemsize <= NARROW else LONG_TEXT


async def decode_large(request: InferRequest, signature: Signature) -> Decoded:
    """Decode and cast in a thread, unless the request can be decoded at once.

    A list of integers of a few megabytes takes tens of milliseconds.
    """
    decoded = request.at_once(signature) if request.at_once else None
    if decoded is not None and have_dtypes(signature, decoded[0]):
        return decoded
    return await in_thread(_decode_and_cast, request, signature)


def _decode_and_cast(request: InferRequest, signature: Signature) -> Decoded:
    # The cast is in the thread as well: it reads and writes as much memory as decoding.
    inputs, form = request.decode(signature)
    return cast_all(signature, inputs), form


async def decode_examples(request: ExamplesRequest) -> Sequence[Features]:
    """Read the Examples of a Classify, Regress or MultiInference."""
    if request.count < MANY_EXAMPLES:
        return request.decode()
    return await in_thread(request.decode)

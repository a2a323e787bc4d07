"""One call as bytes: what is sent, and how the reply is read. Nothing here sends anything."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from ie_serving.client.failures import wrong
from ie_serving.core.values.tensors import BY_NUMPY, Array, DataType, Signature, strings

T = TypeVar("T")
Inputs: TypeAlias = Mapping[str, Any]
"""Arrays, or what numpy makes arrays of, by the name of the input."""
CallOutputs: TypeAlias = dict[str, Array]
CallHeaders: TypeAlias = Mapping[str, str]
"""Names are in lower case."""
Signatures: TypeAlias = Mapping[str, Signature]


class ModelAddress(NamedTuple):
    """The model, its version or a label of one, and the signature. Empty: the server's default."""

    model: str
    version: int | None = None
    label: str = ""
    signature: str = ""


class VersionStatus(NamedTuple):
    """The state of one version: START, LOADING, AVAILABLE, UNLOADING or END, and its error."""

    version: int
    state: str
    text: str


@dataclass(frozen=True)
class ClientCall(Generic[T]):
    """One call: a path with a body, or an RPC's name with a message."""

    path: str
    read: Callable[[bytes, CallHeaders], T]
    payload: bytes = b""
    method: str = "POST"
    headers: CallHeaders = field(default_factory=dict)


def check(which: ModelAddress) -> None:
    """Refuse what no server takes. Raises: ClientError."""
    if not which.model:
        raise wrong("the model has no name: name a served one")
    if which.version is not None and which.label:
        raise wrong("version and label are both given; a request names one of them")


def signature_of(known: Signatures, name: str) -> Signature:
    """Give a signature; for no name `serving_default`, or the only one. Raises: ClientError."""
    if not name and len(known) == 1:
        return next(iter(known.values()))
    if (found := known.get(name or "serving_default")) is None:
        raise wrong(f"no signature {name or 'serving_default'!r}; there are {', '.join(known)}")
    return found


def typed(name: str, value: object) -> tuple[Array, DataType]:
    """Give the array and the element type of an input.

    Args:
        name: name of the input, for the error.
        value: an array keeps its dtype; floats of Python become float32, as in TensorFlow; texts
            become bytes in UTF-8.

    Raises:
        ClientError: the value is no array of a dtype that servers take.
    """
    array = np.asarray(value)
    if array.dtype.kind in "USO":
        flat = [each.encode() if isinstance(each, str) else each for each in array.ravel().tolist()]
        if not all(isinstance(each, bytes) for each in flat):
            raise wrong(f'input "{name}": expected numbers, texts or bytes in equal rows')
        return strings(flat).reshape(array.shape), DataType.STRING
    if array.dtype == np.float64 and not isinstance(value, (np.ndarray, np.generic)):
        array = array.astype(np.float32)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype not in BY_NUMPY:
        raise wrong(
            f'input "{name}" has dtype {array.dtype}; cast it to one of numpy that servers take'
        )
    return array, BY_NUMPY[array.dtype]

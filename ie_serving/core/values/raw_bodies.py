"""Models that take bytes: a body comes in and another goes out, whatever they mean.

Such a model, mostly a kernel, has one input, a string, and gives one string: the body of the reply.
Its content type is what the model gives as a second string `content_type`, else JSON for an output
of JSON and bytes for any other.
"""

import re
from collections.abc import Mapping
from typing import Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest, ServingError
from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec

CONTENT_TYPE: Final = "content_type"
"""Name of the output that says what the reply is."""
JSON, BYTES = "application/json", "application/octet-stream"
_TYPE: Final = re.compile(r"[!-~]+/[ -~]*[!-~]")
"""What may be sent as a Content-Type: printable ASCII. A line end in it would end the header, and
let the model write further ones."""


def takes_bytes(signature: Signature) -> bool:
    """Tell whether a signature can answer a body by a body."""
    inputs = [*signature.inputs.values()]
    outputs = [spec for name, spec in signature.outputs.items() if name != CONTENT_TYPE]
    return (
        len(inputs) == len(outputs) == 1
        and all(each.dtype is DataType.STRING for each in (*inputs, *signature.outputs.values()))
        and all(size in (-1, 1) for size in inputs[0].shape or ())
    )


def check_takes_bytes(signature: Signature) -> None:
    """Refuse a body for a signature that takes none. Raises: InvalidRequest."""
    if not takes_bytes(signature):
        raise InvalidRequest(
            "it takes no bytes: that takes one input and one output, both a string, and at most an"
            f" output {CONTENT_TYPE} beside it; it has {_listed(signature.inputs)} and gives"
            f" {_listed(signature.outputs)}: ask :predict"
        )


def body_of(signature: Signature, body: bytes) -> dict[str, Array]:
    """Give a body as the input of a signature. Raises: as `check_takes_bytes`."""
    check_takes_bytes(signature)
    ((name, spec),) = signature.inputs.items()
    array: Array = np.empty((1,) * len(spec.shape or ()), np.object_)
    array[...] = body
    return {name: array}


def reply_of(signature: Signature, outputs: Mapping[str, Array]) -> tuple[str, bytes]:
    """Give content type and body of what a signature that takes bytes has given.

    Raises:
        ServingError: it gave several strings, or a content type that is none.
    """
    (name,) = (each for each in signature.outputs if each != CONTENT_TYPE)
    content_type = JSON if signature.outputs[name].json else BYTES
    if CONTENT_TYPE in outputs:
        content_type = _only(CONTENT_TYPE, outputs).decode("ascii", "replace")
    if not _TYPE.fullmatch(content_type):
        raise ServingError(
            f"the model gave {content_type[:100]!r} as {CONTENT_TYPE}; expected one such as"
            " text/plain"
        )
    return content_type, _only(name, outputs)


def _only(name: str, outputs: Mapping[str, Array]) -> bytes:
    array = outputs[name]
    if array.size != 1:
        raise ServingError(f'the model gave {array.size} strings as "{name}"; a reply is one')
    return bytes(array.item())


def _listed(specs: Mapping[str, TensorSpec]) -> str:
    return ", ".join(map(str, specs.values()))

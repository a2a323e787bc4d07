"""Finds the signature that a request names, and signatures that take Examples or raw bodies.

A model that takes raw bodies, mostly a kernel, has one string input and one string output, the body
of the reply. The reply's content type is the model's second string output `content_type`; without
it, JSON for an output of JSON, and bytes for any other.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest, NotFound, PreconditionFailed, ServingError
from ie_serving.core.values.tensors import (
    CLASSES,
    OUTPUTS,
    SCORES,
    SERVING_DEFAULT,
    Array,
    Arrays,
    DataType,
    ExampleBinding,
    Method,
    Signature,
    Specs,
    TensorSpec,
)

CONTENT_TYPE: Final = "content_type"
"""Name of the output with the content type of the reply."""
JSON, BYTES = "application/json", "application/octet-stream"
_TYPE: Final = re.compile(r"[!-~]+/[ -~]*[!-~]")
"""Permitted Content-Type: printable ASCII. A line end in it would end the header, so that the model
could add further headers."""


def takes_bytes(signature: Signature) -> bool:
    """Return whether a signature takes a body and returns one."""
    inputs = [*signature.inputs.values()]
    outputs = [spec for name, spec in signature.outputs.items() if name != CONTENT_TYPE]
    return (
        len(inputs) == len(outputs) == 1
        and all(each.dtype is DataType.STRING for each in (*inputs, *signature.outputs.values()))
        and all(size in (-1, 1) for size in inputs[0].shape or ())
    )


def check_takes_bytes(signature: Signature) -> None:
    """Refuse a body for a signature that does not take one. Raises: InvalidRequest."""
    if not takes_bytes(signature):
        raise InvalidRequest(
            "it takes no bytes: that takes one input and one output, both a string, and at most an"
            f" output {CONTENT_TYPE} beside it; it has {_specs_text(signature.inputs)} and gives"
            f" {_specs_text(signature.outputs)}: ask :predict"
        )


def body_of(signature: Signature, body: bytes) -> dict[str, Array]:
    """Make the input of a signature from a body. Raises: as `check_takes_bytes`."""
    check_takes_bytes(signature)
    ((name, spec),) = signature.inputs.items()
    array: Array = np.empty((1,) * len(spec.shape or ()), np.object_)
    array[...] = body
    return {name: array}


def reply_of(signature: Signature, outputs: Arrays) -> tuple[str, bytes]:
    """Return content type and body from the outputs of a signature that takes bytes.

    Raises:
        ServingError: the outputs have several strings, or an invalid content type.
    """
    (name,) = (each for each in signature.outputs if each != CONTENT_TYPE)
    content_type = JSON if signature.outputs[name].json else BYTES
    if CONTENT_TYPE in outputs:
        content_type = _single_string(CONTENT_TYPE, outputs).decode("ascii", "replace")
    if not _TYPE.fullmatch(content_type):
        raise ServingError(
            f"the model gave {content_type[:100]!r} as {CONTENT_TYPE}; expected one such as"
            " text/plain"
        )
    return content_type, _single_string(name, outputs)


def _single_string(name: str, outputs: Arrays) -> bytes:
    array = outputs[name]
    if array.size != 1:
        raise ServingError(f'the model gave {array.size} strings as "{name}"; a reply is one')
    return bytes(array.item())


def _specs_text(specs: Specs) -> str:
    return ", ".join(map(str, specs.values()))


def named(signatures: Mapping[str, Signature], name: str, whose: str) -> Signature:
    """Find a signature by its name; an empty name means the default.

    Args:
        signatures: the model's signatures.
        name: name of one of them, or empty.
        whose: words for the error, such as `model "m" version 3`.

    Raises:
        NotFound: there is no such signature.
    """
    wanted = name or SERVING_DEFAULT
    found = signatures.get(wanted)
    if found is None:
        # TensorFlow's own signatures are left out, since requests cannot use them.
        known = sorted(n for n, s in signatures.items() if s.left_out or not s.definition)
        raise NotFound(f'{whose} has no signature "{wanted}"; it has {", ".join(known)}')
    return found


def check_served(signature: Signature) -> None:
    """Refuse a signature that the model declares, but that the server can only list.

    Raises:
        PreconditionFailed: states why the signature cannot be run.
    """
    if signature.left_out or signature.definition:
        cause = signature.left_out or "it belongs to TensorFlow's loader and computes nothing"
        raise PreconditionFailed(f'signature "{signature.name}" is not served: {cause}')


EXAMPLES = "inputs"
"""Alias of the one input, a batch of serialized Examples."""

ROLES: Mapping[Method, Mapping[str, DataType]] = {
    Method.CLASSIFY: {SCORES: DataType.FP32, CLASSES: DataType.STRING},
    Method.REGRESS: {OUTPUTS: DataType.FP32},
}
"""Roles of the outputs of a method. Source: signature_constants of TensorFlow."""


def example_signature(name: str, method: Method, binding: ExampleBinding) -> Signature:
    """Make the signature for Classify or Regress from the binding that says how to compute it."""
    examples = TensorSpec(EXAMPLES, DataType.STRING, (-1,), f"{EXAMPLES}:0")
    outputs = dict(_outputs(method, binding))
    return Signature(name, {EXAMPLES: examples}, outputs, method.value, binding)


def _outputs(method: Method, binding: ExampleBinding) -> Iterator[tuple[str, TensorSpec]]:
    for role, dtype in ROLES[method].items():
        alias = binding.roles.get(role)
        if alias is not None:
            spec = binding.base.outputs[alias]
            yield role, TensorSpec(role, dtype, spec.shape, spec.tensor)
        # The reply adds class names to the scores: they are not an output of the model.
        elif role == CLASSES and binding.labels:
            shape = binding.base.outputs[binding.roles[SCORES]].shape
            yield role, TensorSpec(role, dtype, shape, "classes:0")

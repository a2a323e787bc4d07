"""Finds the signature that a request names, and the one that computes a signature of Examples."""

from collections.abc import Iterator, Mapping

from ie_serving.core.values.errors import NotFound, PreconditionFailed
from ie_serving.core.values.tensors import (
    CLASSES,
    OUTPUTS,
    SCORES,
    SERVING_DEFAULT,
    DataType,
    ExampleBinding,
    Method,
    Signature,
    TensorSpec,
)


def named(signatures: Mapping[str, Signature], name: str, whose: str) -> Signature:
    """Find a signature by its name; an empty name means the default.

    Args:
        signatures: the model's signatures.
        name: of one of them, or empty.
        whose: words for the error, such as `model "m" version 3`.

    Raises:
        NotFound: there is no such signature.
    """
    wanted = name or SERVING_DEFAULT
    found = signatures.get(wanted)
    if found is None:
        # Without those of TensorFlow itself, which requests cannot use.
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
        # Not an output of the model: the reply adds class names to the scores.
        elif role == CLASSES and binding.labels:
            shape = binding.base.outputs[binding.roles[SCORES]].shape
            yield role, TensorSpec(role, dtype, shape, "classes:0")

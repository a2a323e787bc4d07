"""Signatures that take Examples and are computed by another signature, which takes tensors."""

from collections.abc import Iterator, Mapping

from ie_serving.core.values.tensors import (
    CLASSES,
    OUTPUTS,
    SCORES,
    DataType,
    ExampleBinding,
    Method,
    Signature,
    TensorSpec,
)

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

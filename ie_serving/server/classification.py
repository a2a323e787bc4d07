"""Signatures that take Examples: Classify, Regress, MultiInference, and Predict on any of them.

Source: classifier.cc, regressor.cc and multi_inference.cc of TensorFlow Serving, whose phrases the
errors contain. Which signatures a version has for them, it says in `signatures.json`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from ie_serving.errors import InvalidRequest, PreconditionFailed, ServingError
from ie_serving.inputs import fit
from ie_serving.models.handle import Servable
from ie_serving.models.signature_file import EXAMPLES
from ie_serving.server.inference import Outputs, infer
from ie_serving.server.wire.example import Features, decode_examples, parse_examples
from ie_serving.tensors import (
    CLASSES,
    SCORES,
    SERVING_DEFAULT,
    Array,
    ExampleBinding,
    Method,
    Signature,
)

T = TypeVar("T")
Examples = Sequence[Features]

WORDS = {Method.CLASSIFY: "classification", Method.REGRESS: "regression"}


def example_binding(servable: Servable, name: str, method: Method) -> ExampleBinding:
    """Find how the signature that a Classify or Regress names is computed.

    Raises:
        InvalidRequest: it does not exist, does not take Examples, or gives no classes.
        PreconditionFailed: it gives no values, where `method` is to regress.
    """
    signature = servable.signatures.get(name or SERVING_DEFAULT)
    if signature is None:
        raise InvalidRequest(
            f"No signature was found with the name: {name or SERVING_DEFAULT};"
            f' model "{servable.name}" version {servable.version} has:'
            f" {', '.join(sorted(servable.signatures))}"
        )
    if signature.examples is None:
        raise InvalidRequest(
            f"No {WORDS[method]} inputs found in SignatureDef: {_described(signature, method)}"
        )
    if signature.method != method.value:
        raise _no_outputs(signature, method)
    return signature.examples


def _no_outputs(signature: Signature, method: Method) -> ServingError:
    if method is Method.REGRESS:
        return PreconditionFailed(
            f"No regression outputs found in SignatureDef: {_described(signature, method)}"
        )
    return InvalidRequest(
        'Expected classification signature outputs to contain at least one of "classes" or'
        f' "scores". Signature was: {_described(signature, method)}'
    )


def _described(signature: Signature, method: Method) -> str:
    return (
        f"{signature.name}: its method_name is {signature.method}; a signatures.json beside the"
        f" model declares signatures for {method.value}"
    )


async def infer_serialized(
    servable: Servable,
    signature: Signature,
    inputs: Mapping[str, Array],
    read: Callable[[Outputs], T],
) -> T:
    """Run a signature that takes Examples on a batch of serialized ones, as Predict does.

    Arguments and result as `inference.infer`.

    Raises:
        InvalidRequest: names, dtypes, shapes, or an element that is no Example.
    """
    assert signature.examples is not None  # the caller looked
    fitted, _ = fit(signature, inputs)
    examples = parse_examples(fitted[EXAMPLES].tolist())
    outputs = await run_base(servable, signature.examples, examples)
    return read(by_role(signature.examples, outputs))


async def run_base(
    servable: Servable, binding: ExampleBinding, examples: Examples
) -> dict[str, Array]:
    """Run what lies under a signature that takes Examples; gives copies of all its outputs."""
    specs = {
        alias: replace(spec, name=binding.features[alias])
        for alias, spec in binding.base.inputs.items()
    }
    inputs = decode_examples(examples, specs)
    return await infer(servable, binding.base, inputs, _copies)


def by_role(binding: ExampleBinding, outputs: Outputs) -> dict[str, Array]:
    """Name outputs by what they mean: `scores`, `classes`, `outputs`; add the labels.

    Raises:
        ServingError: there are not as many labels as scores.
    """
    found = {role: _role(outputs[alias]) for role, alias in binding.roles.items()}
    if binding.labels:
        scores = found[SCORES]
        if scores.shape[-1] != len(binding.labels):
            raise ServingError(
                f"the version's labels file names {len(binding.labels)} classes, its model scores"
                f" {scores.shape[-1]}: mend the file beside the model"
            )
        labels = np.array([label.encode() for label in binding.labels], object)
        found[CLASSES] = np.broadcast_to(labels, scores.shape)
    return found


def _role(array: Array) -> Array:
    """Scores and values are floats, whatever the model computes in."""
    return array if array.dtype == np.object_ else array.astype(np.float32, copy=False)


def _copies(outputs: Outputs) -> dict[str, Array]:
    return {alias: array.copy() for alias, array in outputs.items()}

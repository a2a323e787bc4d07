"""Signatures that take Examples: Classify, Regress, MultiInference, and Predict on these.

Source: classifier.cc, regressor.cc and multi_inference.cc of TensorFlow Serving; the errors use
their wording. A signature takes Examples in one of two ways: its model parses serialized ones, or
`signatures.json` beside the model maps features to the inputs of another signature.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import (
    InvalidRequest,
    NotSupported,
    PreconditionFailed,
    ServingError,
    advised,
)
from ie_serving.core.values.fit import fit
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.requests import Features, ModelSpec, Task
from ie_serving.core.values.signatures import EXAMPLES, check_served
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
    Outputs,
    Signature,
    copies,
)
from ie_serving.inference import debug_lines
from ie_serving.inference.features import decode_examples
from ie_serving.inference.interface import Results
from ie_serving.models.version.handle import Servable

T = TypeVar("T")
MANY = 64
"""Number of Examples from which a thread converts them; each takes some 10 us."""
ParseExamples = Callable[[Sequence[bytes]], Sequence[Features]]
"""Reads serialized Examples. Raises InvalidRequest for an empty batch, or for invalid bytes."""

METHODS = {method.value: method for method in (Method.CLASSIFY, Method.REGRESS)}


@dataclass(frozen=True)
class ExampleCodec:
    """Serializes and parses Examples and features; the wire format is in `wire/`."""

    parse: ParseExamples
    serialize: Callable[[Sequence[Features]], list[bytes]]


ROLES: Mapping[Method, frozenset[str]] = {
    Method.CLASSIFY: frozenset({CLASSES, SCORES}),
    Method.REGRESS: frozenset({OUTPUTS}),
}
"""Aliases of outputs that have a meaning for a method. Source: TensorFlow's signature_constants."""

WORDS = {Method.CLASSIFY: "classification", Method.REGRESS: "regression"}


def example_signature(
    servable: Servable, name: str, method: Method, *, method_check: bool = False
) -> Signature:
    """Find the signature that a Classify or Regress names.

    The signature's inputs and outputs decide, not its method, unless `method_check` is on:
    TensorFlow 2 exports every signature with the method of Predict.

    Raises:
        InvalidRequest: the signature does not exist, does not take Examples, or has no classes; or
            `method_check` is on and its method differs.
        PreconditionFailed: a Regress signature without values; or a signature that is left out.
    """
    signature = servable.signatures.get(name or SERVING_DEFAULT)
    if signature is None:
        raise InvalidRequest(
            advised(
                f"No signature was found with the name: {name or SERVING_DEFAULT}",
                f'; model "{servable.name}" version {servable.version} has:'
                f" {servable.signature_names}",
            )
        )
    check_served(signature)
    if signature.examples is None and not _takes_serialized(signature):
        raise InvalidRequest(
            f"No {WORDS[method]} inputs found in SignatureDef:"
            f" {_described(servable, signature, method)}"
        )
    if not ROLES[method] & signature.outputs.keys():
        raise _no_outputs(servable, signature, method)
    if method_check and signature.method != method.value:
        raise InvalidRequest(
            advised(
                f"Expected {WORDS[method]} signature method_name to be {method.value}. Was:"
                f" {signature.method}",
                Hint("; start the server without {server.method_name_check}"),
            )
        )
    return signature


def _takes_serialized(signature: Signature) -> bool:
    """Return whether the model parses Examples: one string input with TensorFlow's alias."""
    spec = signature.inputs.get(EXAMPLES)
    return spec is not None and len(signature.inputs) == 1 and spec.dtype is DataType.STRING


def _no_outputs(servable: Servable, signature: Signature, method: Method) -> ServingError:
    if method is Method.REGRESS:
        return PreconditionFailed(
            "No regression outputs found in SignatureDef:"
            f" {_described(servable, signature, method)}"
        )
    return InvalidRequest(
        'Expected classification signature outputs to contain at least one of "classes" or'
        f' "scores". Signature was: {_described(servable, signature, method)}'
    )


def _described(servable: Servable, signature: Signature, method: Method) -> str:
    """Describe the signature, and name a signature of the model that takes Examples, if any."""
    fit_ones = [
        name
        for name, each in servable.signatures.items()
        if (each.examples or _takes_serialized(each)) and ROLES[method] & each.outputs.keys()
    ]
    advice = (
        f"say signature_name: {' or '.join(fit_ones)}"
        if fit_ones
        else f"a signatures.json beside the model declares signatures for {method.value}"
    )
    return f"{signature.name}: its method_name is {signature.method}; {advice}"


async def run(
    servable: Servable,
    name: str,
    method: Method,
    examples: Sequence[Features],
    codec: ExampleCodec,
    *,
    method_check: bool = False,
) -> Results:
    """Classify or regress `examples` with the signature `name`.

    Raises:
        ServingError: as `example_signature`, or an error of the model.
    """
    signature = example_signature(servable, name, method, method_check=method_check)
    outputs = _by_role(signature, method, await _run(servable, signature, examples, codec))
    return _result(servable, name, outputs, examples)


async def run_tasks(
    servable: Servable,
    tasks: Sequence[Task],
    examples: Sequence[Features],
    codec: ExampleCodec,
    *,
    method_check: bool = False,
) -> list[tuple[Method, Results]]:
    """Run all tasks; the model runs once for signatures that share a base.

    Raises:
        NotSupported: the method of a task is neither classify nor regress.
        ServingError: as `run`.
    """
    bound = [_task_signature(servable, task, method_check) for task in tasks]
    ran: dict[object, Arrays] = {}
    results = []
    for task, (method, signature) in zip(tasks, bound, strict=True):
        key = _computation(signature)
        if key not in ran:
            ran[key] = await _run(servable, signature, examples, codec)
        outputs = _by_role(signature, method, ran[key])
        results.append((method, _result(servable, task.model.signature, outputs, examples)))
    return results


def _result(
    servable: Servable, name: str, outputs: Arrays, examples: Sequence[Features]
) -> Results:
    return Results(servable, name or SERVING_DEFAULT, outputs, len(examples))


def _computation(signature: Signature) -> object:
    """Return a key of the computation: signatures with an equal key share one run's outputs."""
    binding = signature.examples
    if binding is None:
        return signature.name
    return binding.base.name, tuple(binding.features.items())


async def _run(
    servable: Servable, signature: Signature, examples: Sequence[Features], codec: ExampleCodec
) -> Arrays:
    debug_lines.note_examples(servable, signature.name, len(examples))
    if signature.examples is not None:
        return await run_base(servable, signature.examples, examples)
    # Filled element by element: numpy would make fixed-width bytes and cut trailing zero bytes.
    serialized = np.empty(len(examples), np.object_)
    serialized[:] = await apart(len(examples), partial(codec.serialize, examples))
    return await servable.compiled.infer(signature, {EXAMPLES: serialized}, copies)


def _by_role(signature: Signature, method: Method, outputs: Arrays) -> dict[str, Array]:
    if signature.examples is not None:
        return by_role(signature.examples, outputs)
    return {role: _role(outputs[role]) for role in ROLES[method] if role in outputs}


def model_of(tasks: Sequence[Task]) -> ModelSpec:
    """Find the one model that all tasks name; the first task chooses the version.

    Raises:
        InvalidRequest: no task, no name, several models, or one signature twice.
    """
    if not tasks:
        raise InvalidRequest("MultiInferenceRequest has no tasks; send at least one")
    # One handle serves all tasks, so all tasks have to name the same model.
    names = [task.model.name for task in tasks]
    if "" in names:
        raise InvalidRequest(
            advised("Found ModelSpec with an empty model name.", " Name it in every task")
        )
    if len(set(names)) > 1:
        raise InvalidRequest(
            advised(
                "All ModelSpecs in a MultiInferenceRequest must access the same model name.",
                f" Found: {', '.join(sorted(set(names)))}",
            )
        )
    seen: set[str] = set()
    for task in tasks:
        signature = task.model.signature or SERVING_DEFAULT
        if signature in seen:
            raise InvalidRequest(f"Duplicate evaluation of signature: {signature}")
        seen.add(signature)
    return tasks[0].model


def _task_signature(servable: Servable, task: Task, method_check: bool) -> tuple[Method, Signature]:
    method = METHODS.get(task.method)
    if method is None:
        raise NotSupported(
            advised(
                f"Unsupported signature method_name: {task.method}",
                f"; expected {' or '.join(METHODS)}",
            )
        )
    name = task.model.signature or SERVING_DEFAULT
    if name not in servable.signatures:
        raise InvalidRequest(
            advised(
                f"Requested signature not found in model graph: {name}",
                f"; it has: {servable.signature_names}",
            )
        )
    return method, example_signature(servable, name, method, method_check=method_check)


async def infer_serialized(
    servable: Servable,
    binding: ExampleBinding,
    inputs: Arrays,
    parse: ParseExamples,
    read: Callable[[Outputs], T],
) -> T:
    """Run a signature that takes Examples on a batch of serialized ones, for a Predict.

    Args:
        servable: held by the caller.
        binding: binding by which the signature is computed.
        inputs: checked against the signature.
        parse: reads the serialized Examples.
        read: receives the outputs by role.

    Raises:
        InvalidRequest: an element is no Example, or its features do not fill the inputs.
    """
    serialized = inputs[EXAMPLES].tolist()
    examples = await apart(len(serialized), partial(parse, serialized))
    return read(by_role(binding, await run_base(servable, binding, examples)))


async def run_base(
    servable: Servable, binding: ExampleBinding, examples: Sequence[Features]
) -> dict[str, Array]:
    """Run the base of a signature that takes Examples; return copies of all its outputs."""
    # `decode_examples` looks for a feature under the name of its spec.
    specs = {
        alias: replace(spec, name=binding.features[alias])
        for alias, spec in binding.base.inputs.items()
    }
    inputs = await apart(len(examples), partial(decode_examples, examples, specs))
    fitted, added = fit(binding.base, inputs)
    assert not added  # `decode_examples` gives each input its rank
    return await servable.compiled.infer(binding.base, fitted, copies)


async def apart(examples: int, work: Callable[[], T]) -> T:
    """Run `work`, whose time grows with the number of examples, in a thread if they are many."""
    return await in_thread(work) if examples >= MANY else work()


def by_role(binding: ExampleBinding, outputs: Outputs) -> dict[str, Array]:
    """Key outputs by their role, `scores`, `classes` or `outputs`, and add the labels.

    Raises:
        ServingError: the numbers of labels and scores differ.
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
    """Convert scores and values to floats, whatever dtype the model computes in."""
    return array if array.dtype == np.object_ else array.astype(np.float32, copy=False)

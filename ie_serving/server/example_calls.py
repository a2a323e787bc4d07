"""Classify, Regress and MultiInference over gRPC: a request message and a servable, to bytes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ie_serving.errors import InvalidRequest, NotSupported
from ie_serving.models.handle import Servable
from ie_serving.requests import ModelSpec
from ie_serving.server.classification import by_role, example_binding, run_base
from ie_serving.server.wire import messages
from ie_serving.server.wire.example import examples_of
from ie_serving.server.wire.messages import Proto
from ie_serving.server.wire.requests import model_spec_of
from ie_serving.server.wire.results import (
    classes_of,
    classification_result,
    regression_result,
    values_of,
)
from ie_serving.tensors import SERVING_DEFAULT, Array, ExampleBinding, Method

METHODS = {method.value: method for method in (Method.CLASSIFY, Method.REGRESS)}


@dataclass(frozen=True)
class Kind:
    """How one method answers.

    Attributes:
        response: message class of its response.
        result_of: makes the result message of outputs by role, and of how many examples.
        field: of an InferenceResult that holds it.
    """

    response: Proto
    result_of: Callable[[Mapping[str, Array], int], Proto]
    field: str


KINDS = {
    Method.CLASSIFY: Kind(
        messages.ClassificationResponse,
        lambda outputs, rows: classification_result(classes_of(outputs, rows)),
        "classification_result",
    ),
    Method.REGRESS: Kind(
        messages.RegressionResponse,
        lambda outputs, rows: regression_result(values_of(outputs, rows)),
        "regression_result",
    ),
}


async def classify(servable: Servable, request: Proto) -> bytes:
    """Answer a ClassificationRequest."""
    return await _answer(Method.CLASSIFY, servable, request)


async def regress(servable: Servable, request: Proto) -> bytes:
    """Answer a RegressionRequest."""
    return await _answer(Method.REGRESS, servable, request)


async def _answer(method: Method, servable: Servable, request: Proto) -> bytes:
    examples = examples_of(request.input)
    binding = example_binding(servable, request.model_spec.signature_name, method)
    outputs = by_role(binding, await run_base(servable, binding, examples))
    response = KINDS[method].response()
    response.result.CopyFrom(KINDS[method].result_of(outputs, len(examples)))
    _fill(response.model_spec, servable, request.model_spec.signature_name)
    return bytes(response.SerializeToString())


async def multi_inference(servable: Servable, request: Proto) -> bytes:
    """Answer a MultiInferenceRequest; the model runs once for signatures that share a base."""
    examples = examples_of(request.input)
    bindings = [_task_binding(servable, task) for task in request.tasks]
    ran: dict[object, Mapping[str, Array]] = {}
    response = messages.MultiInferenceResponse()
    for task, binding in zip(request.tasks, bindings, strict=True):
        key = (binding.base.name, tuple(binding.features.items()))
        if key not in ran:
            ran[key] = await run_base(servable, binding, examples)
        result = response.results.add()
        kind = KINDS[METHODS[task.method_name]]
        made = kind.result_of(by_role(binding, ran[key]), len(examples))
        getattr(result, kind.field).CopyFrom(made)
        _fill(result.model_spec, servable, task.model_spec.signature_name)
    return bytes(response.SerializeToString())


def model_of_tasks(request: Proto) -> ModelSpec:
    """Find the one model that all tasks mean; the first task chooses its version.

    Raises:
        InvalidRequest: no task, no name, several models, or one signature twice.
    """
    tasks: Sequence[Proto] = request.tasks
    if not tasks:
        raise InvalidRequest("MultiInferenceRequest has no tasks; send at least one")
    names = [task.model_spec.name for task in tasks]
    if "" in names:
        raise InvalidRequest("Found ModelSpec with an empty model name. Name it in every task")
    if len(set(names)) > 1:
        raise InvalidRequest(
            "All ModelSpecs in a MultiInferenceRequest must access the same model name. Found:"
            f" {', '.join(sorted(set(names)))}"
        )
    signatures = [task.model_spec.signature_name or SERVING_DEFAULT for task in tasks]
    for place, signature in enumerate(signatures):
        if signature in signatures[:place]:
            raise InvalidRequest(f"Duplicate evaluation of signature: {signature}")
    return model_spec_of(tasks[0])


def _task_binding(servable: Servable, task: Proto) -> ExampleBinding:
    method = METHODS.get(task.method_name)
    if method is None:
        raise NotSupported(
            f"Unsupported signature method_name: {task.method_name};"
            f" expected {' or '.join(METHODS)}"
        )
    name = task.model_spec.signature_name or SERVING_DEFAULT
    if name not in servable.signatures:
        raise InvalidRequest(
            f"Requested signature not found in model graph: {name};"
            f" it has: {', '.join(sorted(servable.signatures))}"
        )
    return example_binding(servable, name, method)


def _fill(spec: Proto, servable: Servable, signature: str) -> None:
    spec.name = servable.name
    spec.version.value = servable.version
    spec.signature_name = signature or SERVING_DEFAULT

"""Encodes the gRPC replies of Classify, Regress and MultiInference: results to bytes."""

from collections.abc import Callable, Mapping, Sequence

from ie_serving.core.values.tensors import Method
from ie_serving.inference.interface import Outputs, Results
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.results import (
    classes_of,
    classification_result,
    regression_result,
    values_of,
)


def _classified(outputs: Outputs, rows: int) -> Proto:
    return classification_result(classes_of(outputs, rows))


def _regressed(outputs: Outputs, rows: int) -> Proto:
    return regression_result(values_of(outputs, rows))


FIELDS: Mapping[Method, tuple[str, Callable[[Outputs, int], Proto]]] = {
    Method.CLASSIFY: ("classification_result", _classified),
    Method.REGRESS: ("regression_result", _regressed),
}
"""By method: the field of an InferenceResult for the result, and the function that encodes it."""


def encode_classification(results: Results) -> bytes:
    """Encode a ClassificationResponse."""
    response = messages.ClassificationResponse()
    response.result.CopyFrom(_classified(results.outputs, results.rows))
    return _encoded(response, results)


def encode_regression(results: Results) -> bytes:
    """Encode a RegressionResponse."""
    response = messages.RegressionResponse()
    response.result.CopyFrom(_regressed(results.outputs, results.rows))
    return _encoded(response, results)


def encode_multi_inference(answers: Sequence[tuple[Method, Results]]) -> bytes:
    """Encode a MultiInferenceResponse: a result for each task, in order."""
    response = messages.MultiInferenceResponse()
    for method, results in answers:
        result = response.results.add()
        field, make = FIELDS[method]
        getattr(result, field).CopyFrom(make(results.outputs, results.rows))
        _fill(result.model_spec, results)
    return bytes(response.SerializeToString())


def _encoded(response: Proto, results: Results) -> bytes:
    _fill(response.model_spec, results)
    return bytes(response.SerializeToString())


def _fill(spec: Proto, results: Results) -> None:
    spec.name = results.servable.name
    spec.version.value = results.servable.version
    spec.signature_name = results.signature

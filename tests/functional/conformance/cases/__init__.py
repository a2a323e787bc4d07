"""The rows, in the order of the document."""

from tests.functional.conformance.cases import (
    grpc_examples,
    grpc_inputs,
    grpc_predict,
    grpc_tensors,
    reload,
    rest_examples,
    rest_headers,
    rest_json,
    rest_predict,
    rest_routes,
    rest_values,
    versions,
)

SECTIONS = (
    *grpc_predict.SECTIONS,
    *grpc_inputs.SECTIONS,
    *grpc_tensors.SECTIONS,
    *grpc_examples.SECTIONS,
    *versions.SECTIONS,
    *reload.SECTIONS,
    *rest_routes.SECTIONS,
    *rest_headers.SECTIONS,
    *rest_json.SECTIONS,
    *rest_predict.SECTIONS,
    *rest_values.SECTIONS,
    *rest_examples.SECTIONS,
)

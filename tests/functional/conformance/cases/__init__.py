"""The rows, in the order of the document."""

from tests.functional.conformance.cases import (
    grpc_examples,
    grpc_inputs,
    grpc_kserve,
    grpc_predict,
    grpc_tensors,
    images,
    reload,
    rest_examples,
    rest_headers,
    rest_json,
    rest_kserve,
    rest_predict,
    rest_routes,
    rest_values,
    shared_memory,
    triton,
    versions,
)

_MODULES = (
    grpc_predict,
    grpc_inputs,
    grpc_tensors,
    grpc_examples,
    versions,
    reload,
    rest_routes,
    rest_headers,
    rest_json,
    rest_predict,
    rest_values,
    images,
    rest_examples,
    rest_kserve,
    grpc_kserve,
    shared_memory,
    triton,
)

SECTIONS = sorted(
    (section for module in _MODULES for section in module.SECTIONS),
    key=lambda section: section.title.split(" ")[0],
)

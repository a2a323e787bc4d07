"""The messages are those of TensorFlow Serving, in a pool of our own."""

import pytest
from google.protobuf import descriptor_pool

from ie_serving.wire.protobuf import messages


@pytest.mark.parametrize(
    ("service", "methods"),
    [
        (
            "PredictionService",
            ["Classify", "Regress", "Predict", "MultiInference", "GetModelMetadata"],
        ),
        ("ModelService", ["GetModelStatus", "HandleReloadConfigRequest"]),
    ],
)
def test_services_have_the_methods_of_tensorflow_serving(service: str, methods: list[str]) -> None:
    descriptor = messages.POOL.FindServiceByName(f"tensorflow.serving.{service}")
    assert [method.name for method in descriptor.methods] == methods


def test_the_default_pool_stays_free_for_tensorflow() -> None:
    pool = descriptor_pool.Default()
    assert messages.TensorProto.DESCRIPTOR.file.pool is not pool
    assert messages.TensorProto.DESCRIPTOR.file.pool is messages.POOL


def test_metadata_travels_under_tensorflow_servings_type_url() -> None:
    response = messages.GetModelMetadataResponse()
    response.metadata["signature_def"].Pack(messages.SignatureDefMap())
    url = response.metadata["signature_def"].type_url
    assert url == "type.googleapis.com/tensorflow.serving.SignatureDefMap"

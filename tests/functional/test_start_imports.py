"""A start imports what its configuration needs, up to the first replies: imports are half of it."""

import json
import re
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from tests.functional.asking import predict_request
from tests.functional.servers import ROOT, SAMPLE_FLAGS, Server

MOST_OWN = 428
MOST = 928
"""Modules, of which each takes 0.07 ms before it has done anything: those of today and a few more.
Python's own differ by its version."""
NOT_NEEDED = (
    *(
        "boto3",
        "cryptography",
        "falcon",
        "grpc",
        "google.cloud",
        "jwt",
        "minio",
        "opentelemetry",
        "urllib3",
    ),
    *("google.protobuf.json_format", "onnxruntime", "openvino_telemetry", "tensorflow"),
    *("PIL", "http.client", "multiprocessing", "statistics", "unittest"),
    *("urllib.request", "xml", "yaml"),
    *(
        "ie_serving.client",
        "ie_serving.commands",
        "ie_serving.app.several_workers",
        "ie_serving.app.local_commands",
    ),
    *("ie_serving.config.dialects.bridge", "ie_serving.config.dialects.tensorflow_model_server"),
    *("ie_serving.engines.python", "ie_serving.engines.steps", "ie_serving.server.workers"),
    *("ie_serving.engines.savedmodel.host", "ie_serving.wire.kserve", "ie_serving.wire.openapi"),
)
"""Packages and modules that a plain start of one model of OpenVINO does without."""


@pytest.fixture(scope="module")
def modules() -> Iterator[set[str]]:
    """Give the modules that arbiter and worker import, as the interpreter lists them."""
    command = ("ie_serving", "model", *SAMPLE_FLAGS)
    server = Server(*command, env={"PYTHONPROFILEIMPORTTIME": "1"}, executed=True)
    try:
        server.ready()
        body = (ROOT / "examples/digits/request.json").read_bytes()
        reply: httpx.Response = server.rest.post("/v1/models/digits:predict", content=body)
        assert "predictions" in reply.json()
        image = np.array([each["image"] for each in json.loads(body)["instances"]], np.float32)
        assert server.prediction.Predict(predict_request("digits", image=image)).outputs
        yield {found[1] for found in re.finditer(r"\d \| +\d+ \| +([\w.]+)$", server.log, re.M)}
    finally:
        server.close()


def test_modules_that_the_configuration_does_not_need_are_not_imported(modules: set[str]) -> None:
    assert "ie_serving.app.application" in modules
    assert "openvino" in modules
    found = {m for m in modules for each in NOT_NEEDED if f"{m}.".startswith(f"{each}.")}
    assert found == set()


def test_no_more_modules_are_imported_than_today(modules: set[str]) -> None:
    assert len([m for m in modules if m.startswith("ie_serving.")]) <= MOST_OWN
    assert len(modules) <= MOST

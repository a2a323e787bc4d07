"""SavedModels of TensorFlow Serving's documentation answer as it prints, over both interfaces."""

from collections.abc import Iterator

import numpy as np
import pytest
from tensorflow_serving.apis import prediction_service_pb2_grpc, regression_pb2

from tests.exporting import export
from tests.functional.asking import over_grpc
from tests.functional.exports import documented
from tests.functional.exports.answers import configuration
from tests.functional.servers import Server, rpc_refused
from tests.process import PATIENCE_S


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = export(documented.__file__, tmp_path_factory.mktemp("documented"))
    file = configuration(root, ["half_plus_three", "others"])
    with Server("tensorflow_model_server", f"--model_config_file={file}") as server:
        yield server.ready()


def test_the_graph_counts_for_examples_not_the_declared_dtype(server: Server) -> None:
    body = {"signature_name": "regress", "examples": [{"x": 1.0}, {"x": 2.0}]}
    reply = server.rest.post("/v1/models/half_plus_three:regress", json=body)
    assert reply.json() == {"results": [3.5, 4.0]}
    request = regression_pb2.RegressionRequest()
    request.model_spec.name = "half_plus_three"
    for value in (1.0, 2.0):
        example = request.input.example_list.examples.add()
        example.features.feature["x"].float_list.value.append(value)
    stub = prediction_service_pb2_grpc.PredictionServiceStub(server.channel)
    regressions = stub.Regress(request, PATIENCE_S).result.regressions
    assert [each.value for each in regressions] == [3.5, 4.0]


@pytest.mark.parametrize(("name", "number"), [("complex", "8"), ("reset_counter", "20")])
def test_a_version_is_served_but_for_signatures_with_tensors_that_cannot_be_carried(
    server: Server, name: str, number: str
) -> None:
    body = {"signature_name": name, "instances": [1.0]}
    refused = server.rest.post("/v1/models/others:predict", json=body)
    assert f"dtype number {number}" in refused.json()["error"]
    reply = server.rest.post("/v1/models/others:predict", json={"instances": [1.0]})
    assert reply.json() == {"predictions": [2.0]}
    x = {"x": np.float32([1.0])}
    with rpc_refused("FAILED_PRECONDITION", f"dtype number {number}"):
        over_grpc(server, "others", name, x)
    assert over_grpc(server, "others", "", x)["y"].tolist() == [2.0]

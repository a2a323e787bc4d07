"""NaN and infinity of a request, over both interfaces: as TensorFlow answers them, or refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import openvino.opset15 as op
import pytest

from ie_serving.core.values.tensors import DataType
from tests.exporting import export
from tests.functional.asking import over_grpc
from tests.functional.exports import nonfinite
from tests.functional.exports.answers import assert_equal, configuration, expected, over_rest
from tests.functional.servers import Server
from tests.unit.engines.openvino.models import unary

IR = "ir"


def _write_ir(directory: Path) -> None:
    two = op.constant(np.float32(2))
    unary(directory, [-1, 4], DataType.FP32, lambda x: op.relu(op.multiply(x, two)))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = export(nonfinite.__file__, tmp_path_factory.mktemp("nonfinite"))
    _write_ir(root / IR / "1")
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    file = configuration(root, (nonfinite.MODEL, IR))
    with Server("tensorflow_model_server", f"--model_config_file={file}") as server:
        yield server.ready()


@pytest.mark.parametrize("name", nonfinite.FUNCTIONS)
def test_it_is_answered_as_tensorflow_answers_it(server: Server, root: Path, name: str) -> None:
    inputs, outputs = expected(root, nonfinite.MODEL, name)
    if name == "softmax":
        # TensorFlow drops NaN from a row's maximum on some CPUs, and gives 0 beside it.
        is_lost = np.isnan(outputs["y"]).any(-1, keepdims=True)
        outputs = {"y": np.where(is_lost, np.nan, outputs["y"])}
    for _ in range(2):
        assert_equal(over_grpc(server, nonfinite.MODEL, name, inputs), outputs)
        assert_equal(over_rest(server, nonfinite.MODEL, name, inputs, outputs), outputs)


def test_rows_of_an_ir_keep_it(server: Server) -> None:
    rows = np.array([[1, np.nan, -1, np.inf]], np.float32)
    wanted = {"y": np.array([[2, np.nan, 0, np.inf]], np.float32)}
    assert_equal(over_grpc(server, IR, "serving_default", {"x": rows}), wanted)
    assert_equal(over_rest(server, IR, "serving_default", {"x": rows}, wanted), wanted)


def test_an_operation_that_may_lose_nan_is_refused_by_name(server: Server) -> None:
    rows = np.array([[1, np.nan, -1, 0]], np.float32)
    with pytest.raises(grpc.RpcError) as caught:
        over_grpc(server, nonfinite.MODEL, "best", {"x": rows})
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "is given NaN or infinity, which OpenVINO may lose: send finite numbers" in (
        caught.value.details()
    )
    body = {"signature_name": "best", "inputs": {"x": rows.tolist()}}
    reply = server.rest.post(f"/v1/models/{nonfinite.MODEL}:predict", data=json.dumps(body))
    assert reply.status_code == 400
    assert reply.json()["error"] == caught.value.details()

"""What the init op of a SavedModel sets, over both interfaces, against TensorFlow."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest

from tests.exporting import export
from tests.functional.asking import over_grpc
from tests.functional.exports import init_ops
from tests.functional.exports.answers import assert_equal, configuration, expected, over_rest
from tests.functional.servers import Server
from tests.tables import named_by

CASES = [(model, name) for model, names in init_ops.INPUTS.items() for name in names]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(init_ops.__file__, tmp_path_factory.mktemp("init_ops"))


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    file = configuration(root, init_ops.INPUTS)
    with Server("tensorflow_model_server", f"--model_config_file={file}") as server:
        yield server.ready()


@pytest.mark.parametrize(("model", "name"), CASES)
def test_values_that_the_init_op_sets_are_served_over_grpc(
    server: Server, root: Path, model: str, name: str
) -> None:
    inputs, outputs = expected(root, model, name)
    assert_equal(over_grpc(server, model, name, inputs), outputs)


@pytest.mark.parametrize(("model", "name"), CASES)
def test_values_that_the_init_op_sets_are_served_over_rest(
    server: Server, root: Path, model: str, name: str
) -> None:
    inputs, outputs = expected(root, model, name)
    assert_equal(over_rest(server, model, name, inputs, outputs), outputs)


def test_the_smallest_one_is_set_to_five(root: Path) -> None:
    """Guards the reference itself: TensorFlow was asked after the init op, not before."""
    inputs, outputs = expected(root, "one", "serving_default")
    assert outputs["y"].tolist() == (inputs["x"] + 5).tolist()


@named_by(
    "model name",
    ("model", "name", "variable", "operation"),
    [
        ("unclear", "drawn", "drawn", "RandomStandardNormal"),
        ("unclear", "reads", "drawn", "RandomStandardNormal"),
        ("unclear", "branched", "branched", "If"),
        ("unclear", "scattered", "scattered", "ResourceScatterUpdate"),
        ("unclear", "elsewhere", "elsewhere", "RestoreV2"),
        ("unclear", "removed", "removed", "LookupTableRemoveV2"),
        ("unclear_first", "branched", "branched", "RefSwitch"),
        ("unclear_first", "chained", "chained", "AssignAdd"),
    ],
)
def test_a_value_that_cannot_be_computed_at_load_is_refused_by_name(
    server: Server, model: str, name: str, variable: str, operation: str
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        over_grpc(server, model, name, {"x": np.array([1], np.float32)})
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    cause = caught.value.details()
    body = {"signature_name": name, "instances": [1.0]}
    assert cause in server.rest.post(f"/v1/models/{model}:predict", json=body).json()["error"]
    assert f"'{variable}' is set by " in cause
    assert f"{operation} '" in cause

"""SavedModels that are legal and were once refused, over both interfaces, against TensorFlow."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.exporting import export
from tests.functional.asking import over_grpc
from tests.functional.exports import legal
from tests.functional.exports.answers import assert_equal, configuration, expected, over_rest
from tests.functional.servers import Server

NAME = "serving_default"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(legal.__file__, tmp_path_factory.mktemp("legal"))


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    file = configuration(root, legal.NAMES)
    with Server("tensorflow_model_server", f"--model_config_file={file}") as server:
        yield server.ready()


@pytest.mark.parametrize("model", legal.NAMES)
def test_it_is_answered_as_by_tensorflow(server: Server, root: Path, model: str) -> None:
    inputs, outputs = expected(root, model, NAME)
    assert_equal(over_grpc(server, model, NAME, inputs), outputs)
    assert_equal(over_rest(server, model, NAME, inputs, outputs), outputs)

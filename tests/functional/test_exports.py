"""What the libraries themselves export answers as TensorFlow does, over both interfaces."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.exporting import export
from tests.functional.asking import over_grpc
from tests.functional.exports.answers import (
    FLOAT32,
    assert_equal,
    configuration,
    expected,
    over_rest,
)
from tests.functional.exports.cases import ALL, PILLOW, TF_KERAS
from tests.functional.servers import Server

OPTIONAL = {"tf_keras": TF_KERAS, "PIL": PILLOW}
"""Models that need a package, to be written or to be served."""


LIKE_ANOTHER = {"estimator_linear"}
"""Models of whose parts others consist as well, which take seconds to be compiled."""


def cases() -> Iterator[Any]:
    for model, asked in ALL.items():
        marks = [pytest.mark.soak] if model in LIKE_ANOTHER else []
        for name in asked:
            yield pytest.param(model, name, marks=marks)
    for package, models in OPTIONAL.items():
        missing = importlib.util.find_spec(package) is None
        mark = pytest.mark.skipif(missing, reason=f"{package} is not installed")
        for model, asked in models.items():
            for name in asked:
                yield pytest.param(model, name, marks=mark)


CASES = list(cases())
ROUNDING = {"keras_mixed": 1e-3}
"""Relative difference allowed where TensorFlow rounds to 16-bit floats and OpenVINO does not."""
STEP_S = 100.0
"""Bound of each step of the export and of the load of each model. All models together take 12 s of
processor time to be written and 8 s to be compiled, sixty signatures: on a busy machine minutes."""

# Above what the start takes while it makes progress: the bounds above say what hangs.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = Path(__file__).with_name("exports") / "make.py"
    return export(script, tmp_path_factory.mktemp("exports"))


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, root: Path) -> Iterator[Server]:
    """Give a server of the models that are asked."""
    asking = (item for item in request.session.items if item.path == request.path)
    made = sorted({item.callspec.params["model"] for item in asking})  # type: ignore[attr-defined]
    if importlib.util.find_spec("PIL") is None:
        made = [name for name in made if name not in PILLOW]
    with Server(
        "tensorflow_model_server", f"--model_config_file={configuration(root, made)}"
    ) as server:
        yield server.ready(STEP_S)


@pytest.mark.parametrize(("model", "name"), CASES)
def test_grpc_predict_equals_tensorflow(server: Server, root: Path, model: str, name: str) -> None:
    inputs, outputs = expected(root, model, name)
    assert_equal(over_grpc(server, model, name, inputs), outputs, ROUNDING.get(model, FLOAT32))


@pytest.mark.parametrize(("model", "name"), CASES)
def test_rest_predict_equals_tensorflow(server: Server, root: Path, model: str, name: str) -> None:
    inputs, outputs = expected(root, model, name)
    answer = over_rest(server, model, name, inputs, outputs)
    assert_equal(answer, outputs, ROUNDING.get(model, FLOAT32))

"""What SageMaker's environment comes to."""

from pathlib import Path

import pytest

from ie_serving.compat.sagemaker import container as sagemaker
from ie_serving.config.settings import ParsedCommandLine
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.layer_options import Batching
from tests.tables import named_by


def parse(root: Path, *flags: str, **variables: str) -> ParsedCommandLine:
    given = {f"SAGEMAKER_{name}": value for name, value in variables.items()}
    return sagemaker.parse(["serve", *flags], {"SAGEMAKER_MODEL_DIR": str(root), **given})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An archive with two models, and directories that are none."""
    for each in ("export/Servo/1", "export/Servo/2", "a/7/assets/8", "code/lib", "deep/1x"):
        (tmp_path / each).mkdir(parents=True)
    return tmp_path


def test_the_environment_has_defaults(root: Path) -> None:
    settings = parse(root).settings
    models = {each.name: each.base_path for each in settings.models}
    assert models == {"Servo": str(root / "export" / "Servo"), "a": str(root / "a")}
    server = settings.server
    assert (server.port, server.rest_port, server.workers) == (0, 8080, 1)
    assert server.invocations_model == "Servo"
    assert all(each.engine.of(Batching).rows == 0 for each in settings.models)


def test_each_variable_sets_its_setting(root: Path) -> None:
    parsed = parse(
        root,
        "--nireq=3",
        BIND_TO_PORT="18080",
        SAFE_PORT_RANGE="10000-10999",
        TFS_DEFAULT_MODEL_NAME="a",
        TFS_ENABLE_BATCHING="true",
        TFS_MAX_BATCH_SIZE="32",
        TFS_INSTANCE_COUNT="2",
        CONTAINER_LOG_LEVEL="10",
        GUNICORN_THREADS="4",
    )
    server = parsed.settings.server
    assert (server.rest_port, server.port, server.grpc_host) == (18080, 10000, "127.0.0.1")
    assert (server.invocations_model, server.workers, server.log_level) == ("a", 2, "DEBUG")
    for model in parsed.settings.models:
        batching = model.engine.of(Batching)
        assert (batching.max_batch_size, batching.batch_timeout_micros) == (32, 1000)
        assert model.engine.nireq == 3
    assert "SAGEMAKER_GUNICORN_THREADS has no effect" in " ".join(parsed.warnings)


def test_versions_in_the_root_are_the_model(tmp_path: Path) -> None:
    (tmp_path / "model" / "1").mkdir(parents=True)
    (model,) = parse(tmp_path / "model").settings.models
    assert model.name == "model"


def test_two_models_of_one_name_are_refused(root: Path) -> None:
    (root / "other" / "a" / "1").mkdir(parents=True)
    with pytest.raises(ConfigError, match="two models are named a"):
        parse(root)


@named_by(
    "name value",
    ("name", "value", "said"),
    [
        ("BIND_TO_PORT", "abc", "abc given; expected a port"),
        ("BIND_TO_PORT", "0", "0 given; expected a port"),
        ("SAFE_PORT_RANGE", "x-y", "'x' given"),
        ("TFS_INSTANCE_COUNT", "0", "'0' given"),
        ("CONTAINER_LOG_LEVEL", "99", "99 given; expected 10, 20, 30, 40"),
    ],
)
def test_a_wrong_value_is_blamed_on_its_variable(
    root: Path, name: str, value: str, said: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(root, **{name: value})
    (fault,) = raised.value.faults
    assert fault.startswith(f"SAGEMAKER_{name}: {said}")


def test_a_wrong_flag_is_blamed_on_itself(root: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--workers: "):
        parse(root, "--workers=0", TFS_INSTANCE_COUNT="2")

"""The command line of `ie_serving tune`."""

import os
from pathlib import Path

import pytest

from ie_serving.config.dialects import ie_serving
from ie_serving.config.settings import TuneSettings
from ie_serving.core.values.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text('{"model_config_list": [{"config": {"name": "f", "base_path": "models/f"}}]}')
    return path


def faults(*argv: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        ie_serving.parse(argv, {})
    return caught.value.faults


def test_tune_is_about_one_model(file: Path) -> None:
    asked = ("--latency_ms=20", "--seconds=5", "--concurrency=3", "--output=tuned.json")
    found = ie_serving.parse(("tune", "--model_path=/models/resnet", "--nireq=2", *asked), {})
    expected = TuneSettings(
        latency_ms=20.0, seconds=5.0, concurrency=3, output=Path("tuned.json").absolute()
    )
    assert found.tune == expected
    (model,) = found.settings.models
    assert (model.name, model.engine.nireq) == ("resnet", 2)
    assert ie_serving.parse(("check", "--model_path=/models/resnet"), {}).tune is None
    assert ie_serving.parse(("tune", f"--config_path={file}"), {}).settings.models[0].name == "f"


@pytest.mark.parametrize("output", ["none/tuned.json", "."])
def test_tune_knows_beforehand_that_it_cannot_write(tmp_path: Path, output: str) -> None:
    """Before, it measured for a minute first."""
    (found,) = faults("tune", "--model_path=/m", f"--output={tmp_path / output}")
    assert found.startswith("--output: ")
    assert found.endswith("expected a file that can be written to")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_tune_may_write_a_file_that_is_there_where_no_other_can_be_made(tmp_path: Path) -> None:
    """As `/dev/stdout` is."""
    (tmp_path / "tuned.json").touch()
    tmp_path.chmod(0o500)
    asked = ("tune", "--model_path=/m", f"--output={tmp_path / 'tuned.json'}")
    assert ie_serving.parse(asked, {}).settings.models


def test_tune_names_the_models_of_a_file_where_it_means_none(file: Path) -> None:
    found = faults("tune", f"--config_path={file}", "--model_name=other")
    assert found == ("--model_name: expected one model of the file: f",)
    assert "--seconds: '0' given" in faults("tune", "--model_path=/m", "--seconds=0")[0]

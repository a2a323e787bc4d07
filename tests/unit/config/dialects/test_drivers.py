"""Which driver runs a model, what it is told, and whether code may run: in files and by flags."""

import json
from pathlib import Path
from typing import Any

import pytest

from ie_serving.config.dialects import ie_serving, tensorflow_model_server
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines import drivers
from ie_serving.models.configuration import ModelConfig
from tests.tables import named_by

FLAGS = ("model", "--model_name=m", "--model_path=/models/m")


def of_file(directory: Path, *flags: str, **config: Any) -> ModelConfig:
    path = directory / "c.json"
    entry = {"config": {"name": "m", "base_path": "/models/m", **config}}
    path.write_text(json.dumps({"model_config_list": [entry]}))
    (model,) = ie_serving.parse(["config", f"--config_path={path}", *flags], {}).settings.models
    return model


@named_by(
    "given",
    ("given", "driver"),
    [("sklearn", "sklearn"), ("XGBoost", "xgboost"), ("null", "null"), (None, "null")],
)
def test_a_driver_is_chosen_by_its_name(tmp_path: Path, given: object, driver: str) -> None:
    assert of_file(tmp_path, driver=given).engine.driver == driver


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (
            "sklern",
            "'sklern' given; expected one of auto, catboost, lightgbm, litert, null,"
            " onnxruntime, openvino, pmml, python, pytorch, sklearn, xgboost;"
            ' did you mean "sklearn"? (model "m")',
        ),
        (7, "7 given; expected one of auto, "),
        ("", "'' given; expected one of auto, "),
    ],
)
def test_an_unknown_driver_is_answered_with_the_list(
    tmp_path: Path, given: object, fault: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        of_file(tmp_path, driver=given)
    (found,) = caught.value.faults
    assert found.startswith(f"model_config_list[0].config.driver: {fault}")


def test_a_driver_of_another_package_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "mine-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[ie_serving.drivers]\nmine = mine:Driver\n")
    monkeypatch.syspath_prepend(tmp_path)
    drivers.third_parties.cache_clear()
    try:
        assert of_file(tmp_path, driver="mine").engine.driver == "mine"
    finally:
        drivers.third_parties.cache_clear()


def test_params_keep_their_types(tmp_path: Path) -> None:
    params = {"i": 1, "f": 1.0, "b": True, "t": "1", "n": None, "l": [1, "a"], "o": {"x": 0.5}}
    found = of_file(tmp_path, params=params).engine.params
    assert json.dumps(found) == json.dumps(params)
    (model,) = ie_serving.parse([*FLAGS, f"--params={json.dumps(params)}"], {}).settings.models
    assert json.dumps(model.engine.params) == json.dumps(params)
    with pytest.raises(ConfigError, match=r"params.*expected an object"):
        of_file(tmp_path, params=[1])


@pytest.mark.parametrize("name", ["allow_pickle", "allow_python"])
def test_code_runs_by_a_flag_of_the_server_alone(tmp_path: Path, name: str) -> None:
    assert not getattr(of_file(tmp_path).engine, name)
    assert not getattr(of_file(tmp_path, **{name: True}).engine, name)
    assert getattr(of_file(tmp_path, f"--{name}").engine, name)
    (model,) = ie_serving.parse([*FLAGS, f"--{name}=true"], {}).settings.models
    assert getattr(model.engine, name)
    argv = ["--model_base_path=/models/m", f"--{name}"]
    (model,) = tensorflow_model_server.parse(argv, {}).settings.models
    assert getattr(model.engine, name)
    assert not getattr(tensorflow_model_server.parse(argv[:1], {}).settings.engine, name)


def test_a_reload_has_the_consent_of_the_start(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"model_config_list": []}')
    parsed = ie_serving.parse(["config", f"--config_path={path}", "--allow_pickle"], {})
    assert parsed.settings.engine.allow_pickle

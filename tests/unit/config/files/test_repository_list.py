"""Directories of models in a configuration file and on the command line, and what they hold."""

import json
from pathlib import Path
from typing import Any

import pytest

from ie_serving.config.dialects import ie_serving
from ie_serving.config.files.fleet_models import FleetModels
from ie_serving.config.files.json_file import ConfigFile, parse_config_file
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.base import EngineOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.fleet.repository import FILES, ModelRepository, Shelf
from ie_serving.models.repository.version_policy import All
from ie_serving.storage.backends.storage_opener import open_directories
from ie_serving.storage.options import StorageOptions
from ie_serving.storage.siblings import Neighbours


def read(listed: object, **more: Any) -> ConfigFile:
    text = json.dumps({"model_repository_list": listed, **more})
    return parse_config_file(text, origin=Path("/etc/serving"), place="c.json")


def test_an_entry_has_a_place_and_patterns() -> None:
    found = read(
        [
            {"base_path": "models", "include": "res*", "exclude": ["*-old"]},
            {"base_path": "s3://b/m"},
        ]
    )
    assert found.models == ()
    assert found.repositories == (
        ModelRepository(base_path="/etc/serving/models", include=("res*",), exclude=("*-old",)),
        ModelRepository(base_path="s3://b/m"),
    )


def test_every_fault_is_told_with_its_place() -> None:
    with pytest.raises(ConfigError) as raised:
        read([{"include": [1]}, "models", {"base_path": ""}])
    assert [fault.partition(": ")[0] for fault in raised.value.faults] == [
        "model_repository_list[0].base_path",
        "model_repository_list[0].include",
        "model_repository_list[1]",
        "model_repository_list[2].base_path",
    ]
    with pytest.raises(ConfigError, match="model_repository_list: expected a list such as"):
        read({"base_path": "/models"})
    found = read([{"base_path": "/models", "exlude": ["x"]}])
    assert found.warnings == (
        'model_repository_list[0].exlude: unknown key, ignored; did you mean "exclude"?',
    )


def test_a_graph_may_use_a_model_of_a_directory() -> None:
    graph = {
        "name": "both",
        "steps": {"a": {"model": "resnet", "in": {"x": "request.x"}}},
        "outputs": {"y": "a.y"},
    }
    (model,) = read([{"base_path": "/models"}], graphs=[graph]).models
    assert model.name == "both"
    with pytest.raises(ConfigError, match='"resnet", which is not configured'):
        parse_config_file(
            json.dumps({"model_config_list": [], "graphs": [graph]}), origin=Path(), place="c.json"
        )


@pytest.mark.parametrize("command", [["config"], ["check"], []])
def test_flags_name_directories(command: list[str], tmp_path: Path) -> None:
    argv = [*command, "--model-repository=/a,s3://b/c", "--model_repository", "/d"]
    settings = ie_serving.parse(argv, {}).settings
    assert [each.base_path for each in settings.repositories] == ["/a", "s3://b/c", "/d"]
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"model_repository_list": [{"base_path": "e"}]}))
    settings = ie_serving.parse([*argv, f"--config_path={file}"], {}).settings
    assert len(settings.repositories) == 3
    assert [each.base_path for each in settings.in_file] == [str(tmp_path / "e")]


def test_without_a_directory_a_file_is_needed() -> None:
    with pytest.raises(ConfigError, match="--config_path: missing"):
        ie_serving.parse(["config", "--rest_port=1"], {})


class Models:
    """The models of a directory on disk."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.fleet = FleetModels(EngineOptions(), lambda model: "")

    def write(self, path: str, content: str = "") -> None:
        (self.base / path).parent.mkdir(parents=True, exist_ok=True)
        (self.base / path).write_text(content)

    def read(self) -> dict[str, ModelConfig]:
        options = StorageOptions(cache_dir=self.base)
        directories = open_directories(str(self.base), FILES, options, Neighbours())
        repository = ModelRepository(base_path=str(self.base))
        shelf = Shelf(repository, directories, repository.chosen(directories))
        return {model.name: model for model in self.fleet.of([shelf])}


@pytest.fixture
def models(tmp_path: Path) -> Models:
    return Models(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "fault"),
    [
        pytest.param("model.json", "[]", "an object with keys of a model", id="no object"),
        pytest.param("model.json", '{"nireq": -1}', "model.json: nireq: -1 given", id="a value"),
        pytest.param("model.json", '{"name": "n"}', 'expected "m", as its directory', id="name"),
        pytest.param("model.json", '{"a": 1, "a": 2}', 'key "a" stands twice', id="twice"),
        pytest.param("model.json", " " * (1 << 20) + "{}", "has 1048578 bytes", id="size"),
        pytest.param("config.pbtxt", "name: 1", "Invalid protobuf file", id="no protobuf"),
        pytest.param("config.pbtxt", 'name: "n"', '"n" given; expected "m"', id="Triton's name"),
        pytest.param("config.pbtxt", 'backend: "python"', "code for Triton", id="backend"),
    ],
)
def test_settings_that_cannot_be_used_are_the_fault_of_their_model(
    models: Models, file: str, content: str, fault: str
) -> None:
    models.write("good/1/model.xml")
    models.write(f"m/{file}", content)
    found = models.read()
    assert fault in found["m"].fault
    assert found["good"].fault == ""
    models.write(f"m/{file}", "{}" if file == "model.json" else "")
    assert models.read()["m"].fault == ""


def test_settings_are_read_once_until_they_change(models: Models) -> None:
    models.write("m/model.json", '// all of them\n{"model_version_policy": {"all": {}}}')
    models.write("m/config.pbtxt", "max_batch_size: 8")
    first, again = models.read()["m"], models.read()["m"]
    assert first is again
    assert first.version_policy == All()
    assert first.repository == str(models.base)
    models.write("m/model.json", "{} ")
    assert models.read()["m"].version_policy != All()


def test_a_file_that_cannot_be_read_is_read_again(models: Models) -> None:
    models.write("m/model.json", "x" * (1 << 21))
    models.read()
    assert not models.fleet.is_whole
    models.write("m/model.json", "{}")
    models.read()
    assert models.fleet.is_whole


def test_an_ensemble_of_triton_is_a_graph(models: Models) -> None:
    models.write(
        "both/config.pbtxt",
        'platform: "ensemble"\n'
        'input [{name: "x" data_type: TYPE_FP32 dims: [1]}]\n'
        'output [{name: "y" data_type: TYPE_FP32 dims: [1]}]\n'
        'ensemble_scheduling {step [{model_name: "m" model_version: -1\n'
        'input_map {key: "in" value: "x"} output_map {key: "out" value: "y"}}]}',
    )
    model = models.read()["both"]
    assert model.fault == ""
    assert model.graph is not None
    assert json.loads(model.graph.text)["steps"]["step0"]["model"] == "m"

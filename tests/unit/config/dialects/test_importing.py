"""`ie_serving config import`: what is printed is a configuration that means the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from ie_serving.app import command_line as main
from ie_serving.config.dialects import importing
from ie_serving.config.files import source
from ie_serving.core.values.errors import ConfigError
from ie_serving.models.configuration import ModelConfig

LOGGING = {"@type": "LOGGING"}
PYTHON = {"@type": "PYTHON", "pythonConfig": {"pythonCodePath": "run.py"}}
ONNX = {"@type": "ONNX", "modelUri": "m.onnx"}


def imported(directory: Path, given: Any) -> tuple[list[str], tuple[ModelConfig, ...]]:
    """Give the notes, and the models of what is printed, read from another directory."""
    (directory / "theirs.json").write_text(json.dumps(given))
    lines = importing.run([str(directory / "theirs.json")])
    ours = directory / "elsewhere" / "ours.json"
    ours.parent.mkdir()
    ours.write_text("\n".join(lines))
    found = source.read(ours)
    assert found.warnings == ()
    return [line for line in lines if line.startswith("//")], found.models


def test_a_file_of_konduit_is_imported(tmp_path: Path) -> None:
    given = {"port": 9008, "host": "h", "pipeline": {"steps": [LOGGING, ONNX, PYTHON]}}
    notes, models = imported(tmp_path, given)
    assert models == source.read(tmp_path / "theirs.json").models
    assert notes == [
        "// host has no effect: addresses are named by flags of the server",
        "// port: give --rest_port 9008",
        "// steps of type PYTHON run: give --allow_python",
    ]


def test_a_file_of_konduit_in_yaml_is_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.yaml").write_text("pipeline: {steps: [{'@type': LOGGING}]}")
    assert main.main(["config", "import", str(tmp_path / "c.yaml")]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "model_config_list": [],
        "pipeline": {"steps": [LOGGING]},
    }


def test_a_list_of_simple_tensorflow_serving_is_imported(tmp_path: Path) -> None:
    entries = [
        {"name": "a", "base_path": "/a", "platform": "tensorflow"},
        {"name": "b", "base_path": "/b/m.pkl", "platform": "scikitlearn"},
    ]
    notes, (a, b) = imported(tmp_path, {"model_config_list": entries})
    assert (a.name, a.base_path, b.base_path, b.engine.driver) == ("a", "/a", "/b/m.pkl", "sklearn")
    assert notes == ["// pickles are read: give --allow_pickle"]


def test_pipelines_of_openvino_model_server_are_imported(tmp_path: Path) -> None:
    source_ = {"node_name": "request", "data_item": "x"}
    output = {"node_name": "n", "data_item": "y"}
    node = {"name": "n", "model_name": "a", "type": "DL model", "inputs": [{"x": source_}]}
    pipeline = {"name": "p", "inputs": ["x"], "nodes": [node], "outputs": [{"y": output}]}
    entries = [{"config": {"name": "a", "base_path": "/a"}}]
    given = {"model_config_list": entries, "pipeline_config_list": [pipeline]}
    notes, models = imported(tmp_path, given)
    assert notes == []
    theirs = source.read(tmp_path / "theirs.json").models
    assert [(each.name, each.graph) for each in models] == [
        (each.name, each.graph) for each in theirs
    ]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        pytest.param([], "expected an object", id="a list"),
        pytest.param({"model_config_list": []}, "not a file of another server", id="no models"),
        pytest.param(
            {"model_config_list": 5}, "not a file of another server", id="models that are no list"
        ),
        pytest.param(
            {"pipeline_config_list": [], "graphs": 5},
            "graphs: expected a list",
            id="graphs that are no list",
        ),
        pytest.param(
            {"pipeline": {"steps": [{"@type": "KERAS"}]}},
            "steps of type KERAS are not supported",
            id="a step of Keras",
        ),
        pytest.param(
            {"pipeline_config_list": [{}]},
            "not a pipeline as OpenVINO Model Server takes it",
            id="an empty pipeline",
        ),
        pytest.param(
            {"model_config_list": [{"name": "a", "base_path": "/a", "platform": "mxnet"}]},
            "mxnet is not served",
            id="another platform",
        ),
    ],
)
def test_a_file_that_cannot_be_translated_is_refused(
    tmp_path: Path, given: Any, fault: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        imported(tmp_path, given)
    assert fault in str(caught.value)

"""Files of Konduit Serving: the models that they become, and what is refused, with its place."""

import json
from pathlib import Path
from typing import Any

import pytest

from ie_serving.compat.konduit import FILE
from ie_serving.compat.konduit.pipeline.definition import read
from ie_serving.compat.konduit.pipeline.running import made
from ie_serving.config.dialects import ie_serving
from ie_serving.config.files import source
from ie_serving.config.files.json_file import ConfigFile, parse_config_file
from ie_serving.core.values.errors import ConfigError

ONNX = {"@type": "ONNX", "modelUri": "iris.onnx", "inputNames": ["x"], "outputNames": ["y"]}
LOGGING = {"@type": "LOGGING"}


def parsed(pipeline: Any, **more: Any) -> ConfigFile:
    text = json.dumps({"pipeline": pipeline, **more})
    return parse_config_file(text, origin=Path("/konduit"), place="c.json")


def test_files_of_steps_become_models() -> None:
    steps = [LOGGING, ONNX, {**ONNX, "modelUri": "file:///a/iris.onnx"}, ONNX]
    *models, default = parsed({"steps": steps}).models
    assert {model.name: model.base_path for model in models} == {
        "iris": "/konduit/iris.onnx",
        "iris_2": "/a/iris.onnx",
    }
    assert default.graph
    assert (default.name, default.graph.file) == ("default", FILE)
    named = [step.get("model") for step in json.loads(default.graph.text)["steps"]]
    assert named == [None, "iris", "iris_2", "iris"]


def test_paths_of_scripts_begin_at_the_file() -> None:
    config = {"pythonCodePath": "run.py", "importCodePath": "/imports.py"}
    (default,) = parsed({"steps": [{"@type": "PYTHON", "pythonConfig": config}]}).models
    assert default.graph
    assert json.loads(default.graph.text)["steps"][0]["pythonConfig"] == {
        "pythonCodePath": "/konduit/run.py",
        "importCodePath": "/imports.py",
    }


def test_yaml_has_the_words_of_the_server_in_snake_case(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "host: localhost\nport: 9008\nprotocol: HTTP\nuse_ssl: false\n"
        "static_content_root: static-content\n"
        "pipeline:\n  steps:\n  - '@type': LOGGING\n    logLevel: INFO\n"
    )
    found = source.read(tmp_path / "c.yaml")
    assert [model.name for model in found.models] == ["default"]
    assert found.rest_port == 9008
    assert found.warnings == (
        "host has no effect: addresses are named by flags of the server",
        "staticContentRoot has no effect: no static pages are served",
    )


PRINTED = """
host: localhost
use_ssl: false
pipeline:
  steps:
    read:
      '@type': IMAGE_TO_NDARRAY
      '@input': input
      config: {height: 28, width: 28, data_type: FLOAT, include_minibatch_dim: true,
               channel_layout: GRAYSCALE, list_handling: NONE, normalization: {type: SCALE}}
      keys: [image]
      output_names: [in_put]
      keep_other_values: true
      metadata: false
      metadata_key: '@ImageToNDArrayMetadata'
    my_model:
      '@type': ND4JTENSORFLOW
      '@input': read
      input_names: [in_put]
      output_names: [out_put]
      constants: {}
      model_uri: m
    my_names:
      '@type': CLASSIFIER_OUTPUT
      '@input': my_model
      input_name: out_put
      return_index: true
      label_name: label
      top_n: null
      labels: ["0", "1"]
    my_script:
      '@type': PYTHON
      '@input': my_names
      python_config:
        python_config_type: CONDA
        python_code: "a_b = 1"
        io_inputs: {in_put: {python_type: numpy.ndarray, secondary_type: NONE, type: NDARRAY}}
        io_outputs: {a_b: {name: a_b, python_type: int, type: INT64}}
  output_step: my_script
"""


def test_the_keys_of_steps_may_be_in_snake_case(tmp_path: Path) -> None:
    """As `konduit config` prints them; names that the author chose stay."""
    (tmp_path / "c.yaml").write_text(PRINTED)
    *_, default = source.read(tmp_path / "c.yaml").models
    assert default.graph
    steps = {step.name: step for step in read(json.loads(default.graph.text), "p").steps}
    assert steps["my_model"].keys["inputNames"] == ["in_put"]
    assert steps["my_names"].keys["inputName"] == "out_put"
    config = steps["my_script"].keys["pythonConfig"]
    assert (config["ioInputs"].keys(), config["ioOutputs"].keys()) == ({"in_put"}, {"a_b"})
    for step in steps.values():
        made(step)


def test_the_port_of_the_file_is_that_of_rest(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"port": 9008, "pipeline": {"steps": [LOGGING]}}))
    ports = [
        ie_serving.parse(["config", f"--config_path={path}", *flags], {}).settings.server.rest_port
        for flags in ([], ["--rest_port=8000"])
    ]
    assert ports == [9008, 8000]


GRAPH: dict[str, Any] = {"a": {**LOGGING, "@input": "input"}}


@pytest.mark.parametrize(
    ("given", "faults"),
    [
        pytest.param(
            {"pipeline": {"steps": [{"@type": "KERAS", "modelUri": "m.h5"}]}},
            [
                "pipeline.steps[0].@type: steps of type KERAS are not supported: save the model"
                " as a SavedModel, and make it a step of type TENSORFLOW"
            ],
            id="KERAS",
        ),
        pytest.param(
            {"pipeline": {"steps": [{"@type": "LOGING"}, 7]}},
            [
                "pipeline.steps[0].@type: steps of type LOGING are not",
                "pipeline.steps[1]: expected",
            ],
            id="no step",
        ),
        pytest.param(
            {"pipeline": {"steps": [{"@type": "ONNX"}]}},
            ["pipeline.steps[0].modelUri: missing"],
            id="ONNX without a file",
        ),
        pytest.param(
            {"pipeline": {"steps": [{**LOGGING, "@trigger": {}}]}},
            ["pipeline.steps[0].@trigger: not supported; LOGGING has keyFilterRegex, log,"],
            id="an unknown key",
        ),
        pytest.param(
            {"pipeline": {"steps": [{"@type": "MERGE"}]}},
            ["pipeline.steps[0].@type: MERGE stands"],
            id="MERGE in a sequence",
        ),
        pytest.param(
            {"pipeline": {}},
            ["pipeline.steps: expected a list of steps, or an object of them"],
            id="no steps",
        ),
        pytest.param(
            {"pipeline": {"steps": []}},
            ["pipeline.outputStep: '' is no step"],
            id="an empty sequence",
        ),
        pytest.param(
            {"pipeline": {"steps": GRAPH}},
            ["pipeline.outputStep: '' is no step; the steps are a"],
            id="no output step",
        ),
        pytest.param(
            {"pipeline": {"steps": {"a": {**LOGGING, "@input": "b"}}, "outputStep": "a"}},
            ["pipeline.steps.a.@input: 'b' is no step; there are input, a"],
            id="no such input",
        ),
        pytest.param(
            {"pipeline": {"steps": {"a": {**LOGGING, "@input": [{}]}}, "outputStep": "a"}},
            ["pipeline.steps.a.@input: {} is no step; there are input, a"],
            id="an input that is no name",
        ),
        pytest.param(
            {"pipeline": {"steps": GRAPH, "outputStep": ["a"]}},
            ["pipeline.outputStep: ['a'] is no step; the steps are a"],
            id="a list as output step",
        ),
        pytest.param(
            {
                "pipeline": {
                    "steps": {"a": {**LOGGING, "@input": ["input", "a"]}},
                    "outputStep": "a",
                }
            },
            ["pipeline.steps.a.@input: LOGGING takes one step; MERGE joins several"],
            id="two inputs",
        ),
        pytest.param(
            {"pipeline": {"steps": {"a": {**LOGGING, "@input": "a"}}, "outputStep": "a"}},
            ["pipeline.steps: these need each other in a circle: a"],
            id="a circle",
        ),
        pytest.param(
            {"pipeline": {"steps": [LOGGING]}, "useSsl": True, "protocol": "KAFKA"},
            [
                "useSsl: True given; certificate and key are named by flags of the server",
                "protocol: 'KAFKA' given; only HTTP is spoken: remove it",
            ],
            id="TLS over Kafka",
        ),
        pytest.param(
            {"pipeline": {"steps": [LOGGING]}, "graphs": [], "monitoring": {}},
            [
                "graphs: it cannot stand beside pipeline",
                "monitoring: it cannot stand beside pipeline",
            ],
            id="graphs beside a pipeline",
        ),
        pytest.param(
            {"pipeline": {"steps": [LOGGING]}, "customEndpoints": ["a.B"], "port": "x"},
            [
                "customEndpoints: ['a.B'] given; classes of Java",
                "port: 'x' given; expected a number",
            ],
            id="endpoints and a port",
        ),
    ],
)
def test_each_fault_is_told_with_its_place(given: dict[str, Any], faults: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config_file(json.dumps(given), origin=Path("/"), place="c.json")
    found = caught.value.faults
    assert len(found) == len(faults), found
    assert all(each.startswith(text) for each, text in zip(found, faults, strict=True)), found

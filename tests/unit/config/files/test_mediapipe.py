"""Graphs of MediaPipe, as OpenVINO Model Server documents them: which graphs they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from ie_serving.config.dialects import ie_serving, tensorflow_model_server
from ie_serving.config.files.json_file import parse_config_file
from ie_serving.config.files.pbtxt import read as read_text
from ie_serving.core.values.errors import ConfigError

MODELS = [{"config": {"name": n, "base_path": f"/m/{n}"}} for n in ("halve", "together")]
SESSION = """
node {{
  calculator: "OpenVINOModelServerSessionCalculator"
  output_side_packet: "SESSION:{0}"
  node_options: {{
    [type.googleapis.com / mediapipe.OpenVINOModelServerSessionCalculatorOptions]: {{
      servable_name: "{0}"
      servable_version: "{1}"
    }}
  }}
}}"""
INFERENCE = """
node {{
  calculator: "OpenVINOInferenceCalculator"
  input_side_packet: "SESSION:{0}"
  {1}
  node_options: {{
    [type.googleapis.com / mediapipe.OpenVINOInferenceCalculatorOptions]: {{ {2} }}
  }}
}}"""
MULTI_MODEL = (
    'input_stream: "left"  # two numbers\ninput_stream: "right"\noutput_stream: "total"'
    + SESSION.format("halve", "1")
    + SESSION.format("together", "")
    + INFERENCE.format(
        "halve",
        'input_stream: "ROW:left" output_stream: "HALF:half"',
        'tag_to_input_tensor_names { key: "ROW" value: "x" }'
        ' tag_to_output_tensor_names { key: "HALF" value: "y" }',
    )
    + INFERENCE.format(
        "together",
        'input_stream: "FIRST:half" input_stream: "n:right" output_stream: "BOTH:total"',
        'tag_to_input_tensor_names { key: "FIRST" value: "m" }'
        ' tag_to_output_tensor_names { key: "BOTH" value: "s" }',
    )
)
PYTHON = """
input_stream: "OVMS_PY_TENSOR:spoken"
output_stream: "OVMS_PY_TENSOR:louder"

node {
  name: "megaphone"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "INPUT:spoken"
  output_stream: "OUTPUT:louder"
  node_options: {
    [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: {
      handler_path: "model.py"
    }
  }
}"""


def config(directory: Path, graph: str, **more: Any) -> str:
    (directory / "g").mkdir(exist_ok=True)
    (directory / "g" / "graph.pbtxt").write_text(graph)
    entry = {"name": "g", "base_path": "g", **more}
    return json.dumps({"model_config_list": MODELS, "mediapipe_config_list": [entry]})


def found(directory: Path, graph: str, **more: Any) -> Any:
    file = parse_config_file(config(directory, graph, **more), origin=directory, place="c.json")
    assert file.warnings == ()
    made = file.models[-1].graph
    assert made is not None
    return json.loads(made.text)


def fault(directory: Path, graph: str, **more: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        found(directory, graph, **more)
    (text,) = raised.value.faults
    return text


def test_models_in_a_row_become_steps(tmp_path: Path) -> None:
    """MediaPipe Multi Model Demo."""
    assert found(tmp_path, MULTI_MODEL) == {
        "steps": {
            "node_0": {
                "model": "halve",
                "version": 1,
                "in": {"x": "request.left"},
                "outputs": {"half": "y"},
            },
            "node_1": {
                "model": "together",
                "in": {"m": "node_0.half", "n": "request.right"},
                "outputs": {"total": "s"},
            },
        },
        "outputs": {"total": "node_1.total"},
    }


def test_a_python_node_takes_tensors_as_they_are(tmp_path: Path) -> None:
    """Python nodes, quickstart."""
    names = {"node_name": "megaphone", "input_names": ["spoken"], "output_names": ["louder"]}
    tensors = {"inputs": {"spoken": {"dtype": "any"}}, "outputs": {"louder": {"dtype": "any"}}}
    step = {
        "kernel": f"{tmp_path}/g/model.py",
        "with": {**tensors, "node": names},
        "in": {"spoken": "request.spoken"},
    }
    outputs = {"louder": "megaphone.louder"}
    assert found(tmp_path, PYTHON) == {"steps": {"megaphone": step}, "outputs": outputs}
    numbers = {"dtype": "float32", "shape": [-1, 4]}
    declared = found(tmp_path, PYTHON, params={"inputs": {"spoken": numbers}})
    assert declared["steps"]["megaphone"]["with"]["inputs"] == {"spoken": numbers}


def test_inputs_stand_in_the_order_of_their_tags(tmp_path: Path) -> None:
    streams = 'input_stream: "B:x" input_stream: "LOOPBACK:l" input_stream: "A:spoken"'
    looping = ' input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }'
    graph = PYTHON.replace('input_stream: "INPUT:spoken"', f"{streams}{looping}").replace(
        'output_stream: "OUTPUT:louder"', 'output_stream: "LOOPBACK:l" output_stream: "O:louder"'
    )
    graph = f'input_stream: "x" {graph}'
    told = found(tmp_path, graph)["steps"]["megaphone"]["with"]
    assert (list(told["inputs"]), list(told["outputs"])) == (["spoken", "x"], ["louder"])
    assert told["node"]["input_names"] == ["x", "l", "spoken"]
    assert told["node"]["output_names"] == ["l", "louder"]


def test_incomplete_inputs_may_be_left_out(tmp_path: Path) -> None:
    handler = 'input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler", }'
    graph = PYTHON.replace("node_options", f"{handler} node_options")
    told = found(tmp_path, graph)["steps"]["megaphone"]["with"]
    assert told["inputs"] == {"spoken": {"dtype": "any", "optional": True}}


def test_a_graph_without_steps_passes_its_input_on(tmp_path: Path) -> None:
    graph = """input_stream: "OVTENSOR:in" output_stream: "OVMS_PY_TENSOR:out"
    node {
      calculator: "PyTensorOvTensorConverterCalculator"
      input_stream: "OVTENSOR:in"
      output_stream: "OVMS_PY_TENSOR:out"
    }"""
    assert found(tmp_path, graph) == {
        "inputs": {"in": {"dtype": "any"}},
        "steps": {},
        "outputs": {"out": "request.in"},
    }


def test_a_converter_is_no_step(tmp_path: Path) -> None:
    graph = PYTHON.replace('output_stream: "OVMS_PY_TENSOR:louder"', 'output_stream: "made"')
    converter = """
    node {
      calculator: "PyTensorOvTensorConverterCalculator"
      input_stream: "OVMS_PY_TENSOR:louder"
      output_stream: "OVTENSOR:made"
    }"""
    made = found(tmp_path, graph + converter)
    assert (list(made["steps"]), made["outputs"]) == (
        ["megaphone"],
        {"made": "megaphone.louder"},
    )


def test_models_of_the_graph_s_own_file(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    listed = [{"config": {"name": n, "base_path": "own"}} for n in ("together", "more")]
    (tmp_path / "g" / "subconfig.json").write_text(json.dumps({"model_config_list": listed}))
    file = parse_config_file(config(tmp_path, MULTI_MODEL), origin=tmp_path, place="c.json")
    assert [(model.name, model.base_path) for model in file.models[:3]] == [
        ("halve", "/m/halve"),
        ("together", "/m/together"),
        ("more", f"{tmp_path}/g/own"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param(
            "OpenVINOInferenceCalculator",
            "HttpLLMCalculator",
            "calculator HttpLLMCalculator is not",
            id="another calculator",
        ),
        pytest.param(
            'output_side_packet: "SESSION:together',
            'output_side_packet: "SESSION:b',
            '"together", which no node gives',
            id="another session",
        ),
        pytest.param(
            "FIRST:half",
            "FIRST:nowhere",
            '"nowhere" is taken, and nothing gives',
            id="a stream from nowhere",
        ),
        pytest.param(
            '"BOTH:total"',
            '"BOTH:total"\n  input_stream_info: { back_edge: true }',
            'line 36: node "node_1" takes what a later one gives',
            id="an edge that goes back",
        ),
        pytest.param(
            '"FIRST:half"',
            '"FIRST:half" input_stream: "LOOPBACK:half"',
            'line 32: node "node_1" has a stream LOOPBACK: take it in and give it out',
            id="a loopback",
        ),
        pytest.param(
            '"OpenVINOInferenceCalculator"',
            '"OpenVINOInferenceCalculator" name: "twin"',
            'line 32: "twin" is the name of two nodes',
            id="a name twice",
        ),
        pytest.param(
            'key: "BOTH"',
            'key: "BOTH" } output_order_list: "a" x {',
            "output_order_list is not",
            id="an order of outputs",
        ),
        pytest.param(
            "node {",
            "node ]",
            "cannot be read: line 4: expected a value, got ]",
            id="a bracket that closes nothing",
        ),
        pytest.param(
            'servable_name: "together"',
            "",
            "not a graph as OpenVINO Model Server takes it",
            id="no servable",
        ),
    ],
)
def test_a_graph_that_cannot_be_served_is_refused(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert said in fault(tmp_path, MULTI_MODEL.replace(old, new))


def test_a_graph_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert "cannot be read" in fault(tmp_path, PYTHON, graph_path="other.pbtxt")


def listed(directory: Path, **config: Any) -> Any:
    """Read a file whose only model is of this configuration."""
    text = json.dumps({"model_config_list": [{"config": {"name": "g", **config}}]})
    return parse_config_file(text, origin=directory, place="c.json")


@pytest.mark.parametrize(
    ("file", "config"),
    [
        pytest.param("g/graph.pbtxt", {"base_path": "g"}, id="in the model's folder"),
        pytest.param("g/7/graph.pbtxt", {"base_path": "g"}, id="in a version's folder"),
        pytest.param("g/graph.pbtxt", {"graph_path": "graph.pbtxt"}, id="by its own path"),
        pytest.param(
            "h/other.pbtxt", {"base_path": "h", "graph_path": "other.pbtxt"}, id="another file"
        ),
    ],
)
def test_a_graph_among_the_models_is_served(tmp_path: Path, file: str, config: Any) -> None:
    """MediaPipe, "Graph deployment": recommended since 2026."""
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(PYTHON)
    made = listed(tmp_path, **config, nireq=2)
    (model,) = made.models
    assert (model.name, model.base_path) == ("g", "graph:g")
    kernel = json.loads(model.graph.text)["steps"]["megaphone"]["kernel"]
    assert kernel == str((tmp_path / file).parent / "model.py")
    assert made.warnings == ('"g" is a graph: it has no nireq',)


@pytest.mark.parametrize("text", [None, 'node { name: "x" op: "Placeholder" }'])
def test_a_model_beside_a_graph_pbtxt_of_tensorflow_stays_a_model(
    tmp_path: Path, text: str | None
) -> None:
    """TensorFlow writes a graph.pbtxt of its own beside checkpoints."""
    (tmp_path / "g" / "1").mkdir(parents=True)
    if text:
        (tmp_path / "g" / "graph.pbtxt").write_text(text)
    (model,) = listed(tmp_path, base_path="g").models
    assert (model.graph, model.base_path) == (None, str(tmp_path / "g"))


@pytest.mark.parametrize("parse", [ie_serving.parse, tensorflow_model_server.parse])
def test_a_directory_on_a_command_line_is_a_graph(tmp_path: Path, parse: Any) -> None:
    (tmp_path / "graph.pbtxt").write_text(PYTHON)
    path = "model_path" if parse is ie_serving.parse else "model_base_path"
    start = ["model"] if parse is ie_serving.parse else []
    (model,) = parse([*start, "--model_name=g", f"--{path}={tmp_path}"], {}).settings.models
    assert json.loads(model.graph.text)["outputs"] == {"louder": "megaphone.louder"}
    (tmp_path / "graph.pbtxt").write_text(MULTI_MODEL)
    with pytest.raises((ConfigError, SystemExit)) as raised:
        parse([*start, "--model_name=g", f"--{path}={tmp_path}"], {})
    if isinstance(raised.value, ConfigError):
        assert 'graph "g" uses model "halve", which is not configured' in str(raised.value)


def test_text_of_protocol_buffers_is_read() -> None:
    text = """a: 1 a: -2.5, b { c: "x\\"y" 'z' } d < e: true >  # end
    [type / p.Q] { f: WORD }; g: [1, "2",
    { h: [] }] g: 3"""
    assert read_text(text) == {
        "a": [1, -2.5],
        "b": [{"c": ['x"yz']}],
        "d": [{"e": [True]}],
        "Q": [{"f": ["WORD"]}],
        "g": [1, "2", {"h": []}, 3],
    }


@pytest.mark.parametrize(
    "text", ["a", "a:", "a {", "}", "a: }", "a: [1", "a: [1 2]", "a { " * 60, '"x": 1']
)
def test_a_text_that_is_no_protocol_buffer_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="line 1: "):
        read_text(text)

"""Graphs of MediaPipe, as OpenVINO Model Server documents them: which graphs they are."""

import json
from pathlib import Path
from typing import Any

import pytest

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


def test_models_in_a_row(tmp_path: Path) -> None:
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


def test_a_python_node_takes_texts(tmp_path: Path) -> None:
    """Python nodes, quickstart."""
    texts = {"dtype": "string", "shape": [-1]}
    step = {
        "kernel": f"{tmp_path}/g/model.py",
        "with": {"inputs": {"spoken": texts}, "outputs": {"louder": texts}},
        "in": {"spoken": "request.spoken"},
    }
    outputs = {"louder": "megaphone.louder"}
    assert found(tmp_path, PYTHON) == {"steps": {"megaphone": step}, "outputs": outputs}
    numbers = {"dtype": "float32", "shape": [-1, 4]}
    declared = found(tmp_path, PYTHON, params={"inputs": {"spoken": numbers}})
    assert declared["steps"]["megaphone"]["with"]["inputs"] == {"spoken": numbers}


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
        ("OpenVINOInferenceCalculator", "HttpLLMCalculator", "calculator HttpLLMCalculator is not"),
        (
            'output_side_packet: "SESSION:together',
            'output_side_packet: "SESSION:b',
            '"together", which no node gives',
        ),
        ("FIRST:half", "FIRST:nowhere", '"nowhere" is taken, and nothing gives'),
        ('"BOTH:total"', '"BOTH:total" input_stream_info: { back_edge: true }', "loops are not"),
        ('key: "BOTH"', 'key: "BOTH" } output_order_list: "a" x {', "output_order_list is not"),
        ("node {", "node ]", "cannot be read: line 4: ']"),
        ('servable_name: "together"', "", "not a graph as OpenVINO Model Server takes it"),
    ],
)
def test_what_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert said in fault(tmp_path, MULTI_MODEL.replace(old, new))


def test_a_graph_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot be read" in fault(tmp_path, PYTHON, graph_path="other.pbtxt")


def test_text_of_protocol_buffers() -> None:
    text = """a: 1 a: -2.5, b { c: "x\\"y" 'z' } d < e: true >  # end
    [type / p.Q] { f: WORD };"""
    assert read_text(text) == {
        "a": [1, -2.5],
        "b": [{"c": ['x"yz']}],
        "d": [{"e": [True]}],
        "Q": [{"f": ["WORD"]}],
    }


@pytest.mark.parametrize("text", ["a", "a:", "a {", "}", "a: }", "a: [1]", "a { " * 60, '"x": 1'])
def test_what_is_no_text_of_protocol_buffers(text: str) -> None:
    with pytest.raises(ValueError, match="line 1: "):
        read_text(text)

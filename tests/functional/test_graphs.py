"""Graphs of models, as clients see them: addressed, described, versioned and measured as models."""

import base64
import io
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from tensorflow_serving.apis import model_management_pb2

from tests.functional.asking import predict_request
from tests.functional.graph_models import colours, total
from tests.functional.servers import ROOT, Server, rpc_refused
from tests.process import PATIENCE_S
from tests.unit.engines.openvino.models import linear

PAGE = (ROOT / "docs" / "guide" / "graphs.md").read_text()
SHOWN = ROOT / "docs" / "images"
BLOCKS = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
EXAMPLE, COLOURS = (json.loads(block) for block in BLOCKS[:2])
MAKE, ASK = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CODE = """
class Count:
    def load(self, ctx):
        self.more = int(ctx.params["more"])

    def metadata(self):
        return {"inputs": {"x": {"dtype": "float32", "shape": [-1, 4]}},
                "outputs": {"n": {"dtype": "int64", "shape": []}}}

    def execute(self, inputs, ctx):
        if len(inputs["x"]) > 9:
            ctx.fail("OUT_OF_RANGE", "too many rows")
        return len(inputs["x"]) + self.more
"""
PIPELINE = {
    "name": "piped",
    "inputs": ["tables"],
    "demultiply_count": -1,
    "nodes": [
        {
            "name": "scale",
            "model_name": "scaler",
            "type": "DL model",
            "inputs": [{"x": {"node_name": "request", "data_item": "tables"}}],
            "outputs": [{"data_item": "y", "alias": "scaled"}],
        },
        {
            "name": "score",
            "model_name": "scorer",
            "type": "DL model",
            "inputs": [{"x": {"node_name": "scale", "data_item": "scaled"}}],
            "outputs": [],
        },
    ],
    "outputs": [{"scores": {"node_name": "score", "data_item": "score"}}],
}
"""As OpenVINO Model Server takes it: each entry of `tables` passes both models by itself."""
MEDIAPIPE = """
input_stream: "OVMS_PY_TENSOR:text"
input_stream: "rows"
output_stream: "upper"
output_stream: "score"
node {
  calculator: "OpenVINOModelServerSessionCalculator"
  output_side_packet: "SESSION:s"
  node_options: {
    [type.googleapis.com / mediapipe.OpenVINOModelServerSessionCalculatorOptions]: {
      servable_name: "scorer"
    }
  }
}
node {
  calculator: "OpenVINOInferenceCalculator"
  input_side_packet: "SESSION:s"
  input_stream: "X:rows"
  output_stream: "Y:score"
  node_options: {
    [type.googleapis.com / mediapipe.OpenVINOInferenceCalculatorOptions]: {
      tag_to_input_tensor_names { key: "X" value: "x" }
      tag_to_output_tensor_names { key: "Y" value: "score" }
    }
  }
}
node {
  name: "python"
  calculator: "PythonExecutorCalculator"
  input_stream: "INPUT:text"
  output_stream: "OUTPUT:upper"
  node_options: {
    [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: { handler_path: "model.py" }
  }
}
"""
NODE = """
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs):
        return [Tensor("upper", bytes(inputs[0]).upper())]
"""
COUNTED = {
    "name": "counted",
    "inputs": ["rows"],
    "nodes": [
        {
            "name": "count",
            "library_name": "counting",
            "type": "custom",
            "params": {"more": "40"},
            "inputs": [{"x": {"node_name": "request", "data_item": "rows"}}],
            "outputs": [{"data_item": "n", "alias": "number"}],
        }
    ],
    "outputs": [{"n": {"node_name": "count", "data_item": "number"}}],
}
"""With a custom node, whose library is Python code here."""
LIBRARY = {"name": "counting", "base_path": "count.py:Count"}
ROWS = [[1.0, 2.0, 3.0, 4.0], [-1.0, 0.0, 0.0, 0.0]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("graphs")
    linear(root / "models/scaler/1", 0.5)
    total(root / "models/scorer/1")
    colours(root / "models/colours/1")
    linear(root / "models/turning/1", 0.5)
    (root / "count.py").write_text(CODE)
    (root / "both").mkdir()
    (root / "both/graph.pbtxt").write_text(MEDIAPIPE)
    (root / "both/model.py").write_text(NODE)
    (root / "make.py").write_text(MAKE)
    subprocess.run([sys.executable, "make.py"], cwd=root, check=True, timeout=PATIENCE_S)
    graph = {
        "steps": [{"model": "scored", "in": "request"}],
        "outputs": {"twice": "scored.score"},
    }
    (root / "models/nested/7").mkdir(parents=True)
    (root / "models/nested/7/graph.json").write_text(json.dumps(graph))
    return root


def write(root: Path, top: dict[str, Any]) -> Path:
    names = ("scaler", "scorer", "nested", "turning")
    models = [{"config": {"name": n, "base_path": f"models/{n}"}} for n in names]
    coloured = {"name": "colours", "base_path": "models/colours", "color_format": "RGB:RGB"}
    models.append({"config": coloured})
    models += COLOURS["model_config_list"]
    lone = {"name": "lone", "base_path": "models/lone"}
    file = root / "config.json"
    file.write_text(json.dumps({**top, "model_config_list": [*models, {"config": lone}]}))
    return file


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    """The example of the page, a graph in a repository, and a graph whose model is not there."""
    steps = [{"model": "lone", "in": "request"}]
    early = {"name": "early", "version": 3, "steps": steps, "outputs": {"y": "lone.y"}}
    seen = {"name": "seen", "steps": [{"model": "colours"}], "outputs": {"y": "colours.y"}}
    (found,) = COLOURS["graphs"]
    first, last = ({"model": "turning", "in": {"x": x}} for x in ("request.x", "first.y"))
    turned = {"name": "turned", "steps": {"first": first, "last": last}, "outputs": {"y": "last.y"}}
    old = {"steps": [{"model": "turning", "version": 1}], "outputs": {"y": "turning.y"}}
    kept = {"name": "kept", **old}
    graphs = [*EXAMPLE["graphs"], early, seen, {**found, "name": "found"}, turned, kept]
    pipelines = {"pipeline_config_list": [PIPELINE, COUNTED]}
    libraries = {"custom_node_library_config_list": [LIBRARY]}
    texts = {"dtype": "string", "shape": [-1]}
    said = {"inputs": {"text": texts}, "outputs": {"upper": texts}}
    libraries["mediapipe_config_list"] = [{"name": "both", "base_path": "both", "params": said}]
    config = write(root, {"graphs": graphs, **pipelines, **libraries})
    flags = ("--metrics_path=/metrics", "--file_system_poll_wait_seconds=0.2", "--allow_python")
    server = Server("ie_serving", "config", f"--config_path={config}", *flags)
    with closing(server):
        yield server.ready(100)


def predict(server: Server, model: str, x: object) -> dict[str, Any]:
    request = predict_request(model, x=tf.make_tensor_proto(x, np.float32))
    reply = server.prediction.Predict(request, PATIENCE_S)
    found = {name: tf.make_ndarray(proto).tolist() for name, proto in reply.outputs.items()}
    return {**found, "version": reply.model_spec.version.value}


def test_the_example_of_the_page_is_answered_as_printed(server: Server) -> None:
    """Over both interfaces; also by the path of a version, as the page asks."""
    answer = {"score": [5.0, -0.5], "scaled": [[0.5, 1.0, 1.5, 2.0], [-0.5, 0.0, 0.0, 0.0]]}
    assert predict(server, "scored", ROWS) == {**answer, "version": 1}
    body = re.findall(r"curl -d '(.*)'", PAGE)[0]
    shown = re.findall(r"^\{\"outputs\".*", PAGE, re.MULTILINE)[0]
    path = "/v1/models/scored/versions/1:predict"
    reply = server.rest.post(path, content=body).json()
    assert reply == json.loads(shown)


def test_the_pictures_of_the_page_are_drawn_as_shown(server: Server, root: Path) -> None:
    """Only the port and the name of the graph differ; `colours` is a model here."""
    address = f"localhost:{server.rest_port}/v1/models/found:predict"
    assert "localhost:8000/v1/models/colours:predict" in ASK
    (root / "ask.py").write_text(ASK.replace("localhost:8000/v1/models/colours:predict", address))
    command = [sys.executable, "ask.py"]
    printed = subprocess.check_output(command, cwd=root, text=True, timeout=PATIENCE_S)
    assert f"```\n{printed}```" in PAGE, printed
    with Image.open(root / "found.png") as picture:
        assert picture.getpixel((0, 150)) == (230, 25, 75)  # the frame around what is blue
    for name in ("picture", "found"):
        with (
            Image.open(root / f"{name}.png") as made,
            Image.open(SHOWN / f"graph-{name}.png") as it,
        ):
            assert np.abs(np.subtract(made, it, dtype=float)).mean() < 1  # fonts differ a little


def test_a_picture_without_anything_to_find(server: Server) -> None:
    file = io.BytesIO()
    Image.new("RGB", (30, 20)).save(file, "PNG")
    body = {"inputs": {"image": {"b64": base64.b64encode(file.getvalue()).decode()}}}
    reply = server.rest.post("/v1/models/found:predict", json=body).json()["outputs"]
    assert (reply["label"], reply["box"]) == ([], [])
    with Image.open(io.BytesIO(base64.b64decode(reply["picture_bytes"]["b64"]))) as picture:
        assert picture.getbbox() is None
    body = {"inputs": {"image": {"b64": base64.b64encode(b"none").decode()}}}
    reply = server.rest.post("/v1/models/found:predict", json=body)
    assert reply.status_code == 400
    assert 'step "tensor" (use "image_to_tensor"): image 0 is no JPEG' in reply.json()["error"]


def test_a_custom_node_is_python_code(server: Server) -> None:
    reply = server.rest.post("/v1/models/counted:predict", json={"inputs": {"rows": ROWS}})
    assert reply.json() == {"outputs": 42}
    reply = server.rest.post("/v1/models/counted:predict", json={"inputs": {"rows": ROWS * 5}})
    assert 'step "count" (kernel "count.py:Count"): too many rows' in reply.json()["error"]


def test_metadata_describe_a_graph(server: Server) -> None:
    found = server.rest.get("/v1/models/scored/metadata").json()["metadata"]["signature_def"]
    default = found["signatureDef"]["serving_default"]
    shapes = {
        name: [dim["size"] for dim in spec["tensorShape"]["dim"]]
        for name, spec in {**default["inputs"], **default["outputs"]}.items()
    }
    assert shapes == {"x": ["-1", "4"], "score": ["-1"], "scaled": ["-1", "4"]}


def test_a_graph_in_a_repository_uses_a_graph(server: Server) -> None:
    assert predict(server, "nested", ROWS) == {"twice": [5.0, -0.5], "version": 7}


def test_a_pipeline_of_openvino_model_server_is_answered(server: Server) -> None:
    body = {"inputs": {"tables": [ROWS, ROWS, ROWS[::-1]]}}
    reply = server.rest.post("/v1/models/piped:predict", json=body).json()
    assert reply == {"outputs": [[5.0, -0.5], [5.0, -0.5], [-0.5, 5.0]]}


def test_a_graph_of_mediapipe_is_answered(server: Server) -> None:
    """A model and a Python node, as OpenVINO Model Server has them in graph.pbtxt; with dtypes."""
    given = {"inputs": {"text": ["hello"], "rows": [ROWS[0]]}}
    reply = server.rest.post("/v1/models/both:predict", json=given)
    assert reply.status_code == 200, reply.text
    upper, score = (reply.json()["outputs"][name] for name in ("upper", "score"))
    assert (upper[0].endswith("HELLO"), score) == (True, [sum(ROWS[0])])


def test_an_image_is_decoded_as_its_model_does(server: Server) -> None:
    file = io.BytesIO()
    Image.new("RGB", (2, 2), (250, 100, 0)).save(file, "PNG")
    body = {"inputs": {"x": {"b64": base64.b64encode(file.getvalue()).decode()}}}
    for model in ("colours", "seen"):
        reply = server.rest.post(f"/v1/models/{model}:predict", json=body).json()
        assert np.allclose(reply["outputs"], [[250, 100, 0]], atol=1), reply


def test_steps_are_measured(server: Server) -> None:
    with pytest.raises(grpc.RpcError):
        predict(server, "scored", [[1.0, 2.0]])
    page = server.rest.get("/metrics").text
    refused = 'ovms_requests_rejected{api="TensorFlowServing",interface="gRPC",method="Predict"'
    assert f'{refused},name="scored"}} ' in page  # of a graph that may not have computed yet
    predict(server, "scored", ROWS)
    page = server.rest.get("/metrics").text
    for step in ("scale", "score"):
        line = f'ie_serving_step_seconds_count{{graph="scored",step="{step}"}} '
        assert int(page.split(line)[1].split()[0]) > 0
    assert ':request_count{model_name="scored",status="OK"}' in page


def test_a_wrong_request_names_what_the_graph_takes(server: Server) -> None:
    with rpc_refused("INVALID_ARGUMENT", '"x" float (-1, 4)'):
        predict(server, "scored", [[1.0, 2.0]])


def status(server: Server, model: str) -> Any:
    (found,) = server.status(model)
    return found


def test_a_graph_serves_when_its_models_do(server: Server, root: Path) -> None:
    """The start did not wait for what is not there; the graph follows its model by itself."""
    found = status(server, "early")
    assert (found.version, found.State.Name(found.state)) == (3, "LOADING")
    assert 'it uses model "lone", which does not serve' in found.status.error_message
    made = linear(root / "made", 3.0)
    (root / "models/lone").mkdir()
    shutil.move(made, root / "models/lone/1")
    server.line(r"model=early version=3 state=AVAILABLE", PATIENCE_S)
    assert predict(server, "early", [ROWS[0]])["y"] == [[3.0, 6.0, 9.0, 12.0]]


def test_no_answer_mixes_versions(server: Server, root: Path) -> None:
    """Version 1 halves and version 2 doubles: of both together the rows would stay as they are."""
    made = linear(root / "made_2", 2.0)
    shutil.move(made, root / "models/turning/2")
    began, seen = time.monotonic(), [[0.25] * 4]
    while seen[-1] == [0.25] * 4 and time.monotonic() - began < PATIENCE_S:
        seen += predict(server, "turned", [[1.0] * 4])["y"]
    assert seen[-1] == [4.0] * 4


def test_a_version_that_a_graph_names_stays_loaded(server: Server) -> None:
    assert predict(server, "turned", [[1.0] * 4])["y"] == [[4.0] * 4]
    assert predict(server, "kept", [[1.0] * 4])["y"] == [[0.5] * 4]


def test_a_reload_of_the_file_changes_graphs(server: Server, root: Path) -> None:
    steps = [{"model": "scorer", "in": "request"}]
    other = {"name": "scored", "version": 2, "steps": steps, "outputs": {"s": "scorer.score"}}
    write(root, {"graphs": [other]})
    reply = server.rest.post("/v1/config/reload")
    assert reply.status_code in (200, 201), reply.text
    server.line(r"model=scored version=2 state=AVAILABLE", PATIENCE_S)
    assert predict(server, "scored", [ROWS[0]]) == {"s": [10.0], "version": 2}


def test_one_reload_adds_a_graph_and_what_it_uses(
    server: Server, root: Path, tmp_path: Path
) -> None:
    """Over gRPC: all of it, or nothing; the graph has a golden request, which its model answers."""
    before = [*server.rest.get("/v1/models").json()["models"]]
    added = {"inner": str(linear(tmp_path / "inner/1", 4.0).parent), "outer": graph_of(tmp_path)}
    with pytest.raises(grpc.RpcError) as caught:
        reload(server, outer=added["outer"])
    assert 'it uses model "inner", which is not configured' in caught.value.details()
    assert server.rest.get("/v1/models").json()["models"] == before
    kept = {name: str(root / "models" / name) for name in ("scaler", "scorer")}
    reload(server, **kept, **added)
    assert server.rest.get("/v1/models").json()["models"] == ["inner", "outer", "scaler", "scorer"]
    assert predict(server, "outer", [ROWS[0]]) == {
        "y": [[4.0, 8.0, 12.0, 16.0]],
        "version": 1,
    }


def graph_of(folder: Path) -> str:
    """Write a graph of the model `inner`, with a golden request."""
    version = folder / "outer" / "1"
    version.mkdir(parents=True)
    graph = {"steps": [{"model": "inner", "in": "request"}], "outputs": {"y": "inner.y"}}
    (version / "graph.json").write_text(json.dumps(graph))
    pair = {
        "request": {"inputs": [[1.0, 1.0, 1.0, 1.0]]},
        "response": {"outputs": [[4.0, 4.0, 4.0, 4.0]]},
    }
    (version / "golden.json").write_text(json.dumps({"requests": [pair]}))
    return str(version.parent)


def reload(server: Server, **models: str) -> None:
    request = model_management_pb2.ReloadConfigRequest()
    for name, base in models.items():
        request.config.model_config_list.config.add(
            name=name, base_path=base, model_platform="tensorflow"
        )
    server.model.HandleReloadConfigRequest(request, PATIENCE_S)


def test_a_file_with_a_broken_graph_says_where(root: Path, tmp_path: Path) -> None:
    steps = {"a": {"model": "none", "in": "request"}, "b": {"model": "scorer"}}
    graphs = [
        {"name": "g", "steps": steps, "outputs": {"y": "b.y"}},
        {"name": "scorer", "steps": [{"model": "scaler"}], "outputs": {"y": "scaler.y"}},
    ]
    (tmp_path / "models").symlink_to(root / "models")
    config = write(tmp_path, {"graphs": graphs})
    server = Server("ie_serving", "config", f"--config_path={config}")
    with closing(server):
        assert server.exit_code() == 2
        text = server.log
    assert "graphs[0].steps.b.in: expected" in text
    assert 'graphs[1].name: "scorer" is the name of another model already' in text

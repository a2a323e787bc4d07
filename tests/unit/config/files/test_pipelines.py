"""Pipelines of OpenVINO Model Server: which graphs they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from ie_serving.config.files.json_file import parse_config_file
from ie_serving.core.errors import ConfigError

MODELS = [{"config": {"name": n, "base_path": f"/m/{n}"}} for n in ("detect", "crop", "classify")]


def of(node: str, item: str) -> dict[str, str]:
    return {"node_name": node, "data_item": item}


def node(name: str, sources: dict[str, tuple[str, str]], **keys: object) -> dict[str, Any]:
    inputs = [{key: of(*source)} for key, source in sources.items()]
    return {"name": name, "model_name": name, "type": "DL model", "inputs": inputs, **keys}


def pipeline(*nodes: object, output: tuple[str, str], **keys: object) -> dict[str, Any]:
    outputs = [{"label": of(*output)}]
    return {"name": "p", "inputs": ["image"], "nodes": [*nodes], "outputs": outputs, **keys}


def read(*pipelines: object) -> dict[str, Any]:
    text = json.dumps({"model_config_list": MODELS, "pipeline_config_list": pipelines})
    file = parse_config_file(text, origin=Path("/"), place="c.json")
    assert file.warnings == ()
    graph = file.models[-1].graph
    assert graph is not None
    found: dict[str, Any] = json.loads(graph.text)
    return found


def test_nodes_are_steps() -> None:
    found = read(
        pipeline(
            node(
                "detect",
                {"data": ("request", "image")},
                version=2,
                outputs=[{"data_item": "boxes:0", "alias": "boxes"}],
            ),
            node("classify", {"x": ("detect", "boxes")}),
            output=("classify", "y"),
        )
    )
    assert found == {
        "steps": {
            "detect": {
                "model": "detect",
                "version": 2,
                "in": {"data": "request.image"},
                "outputs": {"boxes": "boxes:0"},
            },
            "classify": {"model": "classify", "in": {"x": "detect.boxes"}},
        },
        "outputs": {"label": "classify.y"},
    }


def test_what_is_behind_a_demultiplexer_runs_for_each_entry() -> None:
    found = read(
        pipeline(
            node("detect", {"data": ("request", "image")}, demultiply_count=-1),
            node("crop", {"box": ("detect", "boxes"), "image": ("request", "image")}),
            node("classify", {"x": ("crop", "y")}),
            output=("classify", "y"),
        )
    )["steps"]
    assert found["crop"]["for_each"] == {"box": "detect.boxes"}
    assert found["crop"]["in"] == {"box": "item.box", "image": "request.image"}
    assert found["classify"]["for_each"] == {"x": "crop.y"}


def test_a_node_that_gathers_runs_once() -> None:
    found = read(
        pipeline(
            node("detect", {"data": ("request", "image")}, demultiply_count=4),
            node("crop", {"box": ("detect", "boxes")}),
            node("classify", {"x": ("crop", "y")}, gather_from_node="detect"),
            output=("classify", "y"),
        )
    )["steps"]
    assert found["crop"]["for_each"] == {"box": "detect.boxes"}
    assert found["classify"] == {"model": "classify", "in": {"x": "crop.y"}}


def test_a_request_that_is_a_list() -> None:
    detect = node("detect", {"data": ("request", "image")})
    found = read(pipeline(detect, output=("detect", "y"), demultiply_count=-1))["steps"]
    assert found["detect"]["for_each"] == {"data": "request.image"}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        pytest.param(
            pipeline(
                node("cut", {"x": ("request", "image")}, type="custom", library_name="ocr"),
                output=("cut", "y"),
            ),
            '.nodes.cut: custom node "cut" (library "ocr"): libraries of custom nodes are not',
            id="a library",
        ),
        pytest.param(
            pipeline(node("detect", {"x": ("request", "img")}), output=("detect", "y")),
            '.inputs: lack "img", which a node takes; there is image',
            id="an input",
        ),
        pytest.param(
            pipeline(node("detect", {"x": ("lost", "y")}), output=("detect", "y")),
            '.steps.detect: no step "lost"; the graph has detect',
            id="a node",
        ),
        pytest.param(
            pipeline(
                node("detect", {"x": ("request", "image")}, demultiply_count=-1),
                node("crop", {"x": ("detect", "y")}, demultiply_count=-1),
                output=("crop", "y"),
            ),
            ".nodes.crop: lists within lists are not supported: crop, detect",
            id="a list within a list",
        ),
        pytest.param(
            pipeline(
                node("detect", {"x": ("request", "image")}, gather_from_node="crop"),
                output=("detect", "y"),
            ),
            '.nodes.detect.gather_from_node: "crop" gives no list',
            id="gathered of no list",
        ),
        pytest.param({"name": "p"}, ": not a pipeline as OpenVINO", id="no nodes"),
        pytest.param(
            pipeline(output=("request", "image"), nods=[]), ".nods: unknown key", id="a key"
        ),
    ],
)
def test_faults(given: object, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(given)
    assert caught.value.faults[0].startswith(f"pipeline_config_list[0]{fault}"), caught.value.faults

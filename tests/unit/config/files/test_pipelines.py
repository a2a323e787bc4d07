"""Pipelines of OpenVINO Model Server: which graphs they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from ie_serving.config.files.json_file import parse_config_file
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.kernels import GraphFiles

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


def test_nodes_behind_a_demultiplexer_run_for_each_entry() -> None:
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


@pytest.mark.parametrize("count", [-1, 0], ids=["any", "any, as written before 2022"])
def test_a_request_that_is_a_list_runs_each_entry(count: int) -> None:
    detect = node("detect", {"data": ("request", "image")})
    found = read(pipeline(detect, output=("detect", "y"), demultiply_count=count))["steps"]
    assert "entries" not in found["detect"]
    assert found["detect"]["for_each"] == {"data": "request.image"}


def test_a_demultiplexer_within_another_makes_lists_within_lists() -> None:
    found = read(
        pipeline(
            node("detect", {"data": ("request", "image")}, demultiply_count=3),
            node("crop", {"box": ("detect", "boxes")}, demultiply_count=-1),
            node("classify", {"x": ("crop", "y"), "id": ("detect", "id")}),
            node("sum", {"x": ("classify", "y")}, model_name="crop", gather_from_node="crop"),
            output=("sum", "y"),
        )
    )["steps"]
    assert found["crop"] | {"in": {}} == {
        "model": "crop",
        "in": {},
        "for_each": {"box": "detect.boxes"},
        "entries": [3],
    }
    assert found["classify"]["for_each"] == {"x": "crop.y", "id": "detect.id"}
    assert found["classify"]["levels"] == {"x": 2, "id": 1}
    assert found["classify"]["entries"] == [3, -1]
    assert found["sum"]["for_each"] == {"x": "classify.y"}
    assert found["sum"]["entries"] == [3]


CUT = node("cut", {"x": ("request", "image")}, type="custom", library_name="ocr")


def of_library(path: object, **keys: object) -> Any:
    library = [{"name": "ocr", "base_path": path}]
    given = pipeline(CUT | keys, output=("cut", "y"))
    top = {"model_config_list": MODELS, "pipeline_config_list": [given]}
    text = json.dumps({**top, "custom_node_library_config_list": library})
    return parse_config_file(text, origin=Path("/c"), place="c.json").models[-1]


def test_a_custom_node_is_code() -> None:
    found = of_library("nodes.py:Cut", params={"size": "3"})
    assert json.loads(found.graph.text)["steps"]["cut"] == {
        "kernel": "nodes.py:Cut",
        "with": {"size": "3"},
        "in": {"x": "request.image"},
    }
    assert found.engine.of(GraphFiles).directory == "/c"


def test_a_library_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError) as caught:
        of_library("/ovms/lib/libcustom_node_ocr.so")
    assert caught.value.faults[0].startswith(
        "custom_node_library_config_list[0].base_path: '/ovms/lib/libcustom_node_ocr.so' given;"
        " libraries are not loaded; expected FILE.py"
    )


def test_a_chain_may_be_longer_than_the_stack() -> None:
    nodes = [node("n0", {"x": ("request", "image")}, model_name="crop", demultiply_count=-1)]
    for at in range(1, 1500):
        nodes.append(node(f"n{at}", {"x": (f"n{at - 1}", "y")}, model_name="crop"))
    found = read(pipeline(*nodes[::-1], output=("n1499", "y")))["steps"]
    assert found["n1499"]["for_each"] == {"x": "n1498.y"}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        pytest.param(
            pipeline(
                node("cut", {"x": ("request", "image")}, type="custom", library_name="ocr"),
                output=("cut", "y"),
            ),
            '.nodes.cut: "ocr" is no library of custom_node_library_config_list',
            id="a library",
        ),
        pytest.param(
            pipeline(node("detect", {"x": ("request", "img")}), output=("detect", "y")),
            '.inputs: lack "img", which node "detect" takes; there is image',
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
                node("classify", {"x": ("crop", "y")}, gather_from_node="detect"),
                output=("classify", "y"),
            ),
            '.nodes.classify.gather_from_node: "detect" is not the innermost list there; name crop',
            id="gathered of an outer list",
        ),
        pytest.param(
            pipeline(
                node("detect", {"x": ("request", "image")}, demultiply_count=-1),
                node("crop", {"x": ("request", "image")}, demultiply_count=-1),
                node("classify", {"x": ("crop", "y"), "z": ("detect", "y")}),
                output=("classify", "y"),
            ),
            ".nodes.classify: takes entries of ",
            id="entries of two lists",
        ),
        pytest.param(
            pipeline(
                node("detect", {"x": ("request", "image")}, gather_from_node="crop"),
                output=("detect", "y"),
            ),
            '.nodes.detect.gather_from_node: "crop" gives no list; leave the key out: none does',
            id="gathered of no list",
        ),
        pytest.param(
            pipeline({**node("n", {"x": ("request", "image")}), "name": 5}, output=("n", "y")),
            ".nodes: 5 given as a name; expected a text",
            id="a number as a node's name",
        ),
        pytest.param({"name": "p"}, ": not a pipeline as OpenVINO", id="no nodes"),
        pytest.param(
            pipeline(output=("request", "image"), nods=[]), ".nods: unknown key", id="a key"
        ),
    ],
)
def test_a_fault_is_told_with_its_place(given: object, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(given)
    assert caught.value.faults[0].startswith(f"pipeline_config_list[0]{fault}"), caught.value.faults

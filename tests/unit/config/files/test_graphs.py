"""`graphs` of the JSON file: what they become, and every fault with its place."""

import json
from pathlib import Path
from typing import Any

import pytest

from ie_serving.config.files.json_file import parse_config_file
from ie_serving.core.values.errors import ConfigError
from ie_serving.models.configuration import ModelConfig

MODELS = [{"config": {"name": name, "base_path": f"/models/{name}"}} for name in ("a", "b")]


def graph(name: str = "g", **keys: object) -> dict[str, Any]:
    return {"name": name, "steps": [{"model": "a"}], "outputs": {"y": "a.y"}, **keys}


def read(graphs: object) -> tuple[ModelConfig, ...]:
    text = json.dumps({"model_config_list": MODELS, "graphs": graphs})
    return parse_config_file(text, origin=Path("/"), place="c.json").models


def test_a_graph_is_a_model_without_a_repository() -> None:
    *models, found = read([graph(version=4)])
    assert [model.graph for model in models] == [None, None]
    assert (found.name, found.base_path) == ("g", "graph:g")
    assert found.graph
    assert found.graph.version == 4
    assert json.loads(found.graph.text) == {"steps": [{"model": "a"}], "outputs": {"y": "a.y"}}


def test_only_a_graph_that_differs_is_read_anew() -> None:
    (one, two, other) = (read([graph(**keys)])[-1] for keys in ({}, {}, {"version": 2}))
    assert one == two
    assert one != other


@pytest.mark.parametrize(
    ("graphs", "faults"),
    [
        pytest.param(
            {},
            ['graphs: expected a list such as [{"name": "both", "steps": [..], "outputs": {..}}]'],
            id="no list",
        ),
        pytest.param(
            ["g"],
            ['graphs[0]: expected an object with "name", "steps" and "outputs"'],
            id="no object",
        ),
        pytest.param(
            [graph("a")],
            ['graphs[0].name: "a" is the name of another model already'],
            id="the name of a model",
        ),
        pytest.param(
            [graph(), graph()],
            ['graphs[1].name: "g" is the name of another model already'],
            id="a name twice",
        ),
        pytest.param(
            [graph(version="x")], ["graphs[0].version: "], id="a version that is no number"
        ),
        pytest.param(
            [graph(steps={"s": {}})],
            ["graphs[0].steps.s: expected an object with exactly one of "],
            id="an empty step",
        ),
        pytest.param(
            [graph(steps=[{"model": "c"}], outputs={"y": "c.y"})],
            [
                'graphs[0]: step "c" of graph "g" uses model "c", which is not configured; the'
                " file has a, b, g"
            ],
            id="no such model",
        ),
        pytest.param(
            [
                graph("g", steps=[{"model": "h"}], outputs={"y": "h.y"}),
                graph("h", steps=[{"model": "g"}], outputs={"y": "g.y"}),
            ],
            ["graphs[0]: graphs use each other: g -> h -> g"],
            id="graphs in a circle",
        ),
        pytest.param(
            [graph(steps=[{"model": "g"}], outputs={"y": "g.y"})],
            ["graphs[0]: graphs use each other: g -> g"],
            id="a graph of itself",
        ),
        pytest.param(
            [
                graph(f"g{at}", steps=[{"graph": f"g{at + 1}"}], outputs={"y": f"g{at + 1}.y"})
                for at in range(16)
            ]
            + [graph("g16")],
            ["graphs[0]: graphs within graphs, at most 16: g0 -> g1 -> "],
            id="a chain of 17",
        ),
    ],
)
def test_each_fault_is_told_with_its_place(graphs: object, faults: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        read(graphs)
    found = caught.value.faults
    assert len(found) == len(faults)
    assert all(each.startswith(text) for each, text in zip(found, faults, strict=True)), found

"""Steps that choose among steps, and steps that put answers together."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor
from tests.unit.engines.graph.shelf import Model, ask, filled

BRANCHES = {
    "a": {"model": "add", "in": {"x": "request.x"}},
    "b": {"model": "double", "in": {"x": "request.x"}},
}
LANGUAGE = {"language": {"dtype": "string", "shape": []}}


async def test_a_switch_runs_the_one_step_that_it_chooses(tmp_path: Path) -> None:
    models = filled()
    switch = {"on": "request.language", "cases": {"en": "a", "de": "b"}}
    graph = models.graph(tmp_path, {**BRANCHES, "last": {"switch": switch}}, inputs=LANGUAGE)
    assert await ask(graph, x=[5], language=np.array(b"de", np.object_)) == {"y": [10]}
    assert models.recorded == ["b"]
    with pytest.raises(InvalidRequest, match=r"request.language is 'fr'; expected one of en, de"):
        await ask(graph, x=[5], language=np.array(b"fr", np.object_))
    switch["default"] = "a"
    graph = models.graph(tmp_path, {**BRANCHES, "last": {"switch": switch}}, inputs=LANGUAGE)
    assert await ask(graph, x=[5], language=np.array(b"fr", np.object_)) == {"y": [6]}


async def test_weights_divide_the_requests(tmp_path: Path) -> None:
    models = filled()
    steps = {**BRANCHES, "last": {"switch": {"weights": {"a": 90, "b": 10}}}}
    graph = models.graph(tmp_path, steps)
    for _ in range(1000):
        await ask(graph, x=[1])
    # Six standard deviations of 1,000 draws: one run in 500 million fails by chance.
    assert 900 - 57 < models.recorded.count("a") < 900 + 57


async def test_the_same_user_gets_the_same_step(tmp_path: Path) -> None:
    models = filled()
    switch = {"weights": {"a": 50, "b": 50}, "sticky": "request.user"}
    user = {"user": {"dtype": "int64", "shape": []}}
    graph = models.graph(tmp_path, {**BRANCHES, "last": {"switch": switch}}, inputs=user)
    chosen = []
    for _ in range(3):
        models.recorded.clear()
        for number in range(40):
            await ask(graph, x=[1], user=number)
        chosen.append(list(models.recorded))
    assert chosen[0] == chosen[1] == chosen[2]
    assert set(chosen[0]) == {"a", "b"}


@pytest.mark.parametrize(
    ("merge", "outputs", "answer"),
    [
        pytest.param({"combine": "mean"}, {"y": "last.y"}, {"y": [5]}, id="the mean"),
        pytest.param({"combine": "max"}, {"y": "last.y"}, {"y": [6]}, id="the largest"),
        pytest.param({"on_conflict": "last"}, {"y": "last.y"}, {"y": [6]}, id="the last"),
        pytest.param(
            {"on_conflict": "prefix"},
            {"p": "last.a.y", "q": "last.b.y"},
            {"p": [4], "q": [6]},
            id="a prefix",
        ),
    ],
)
async def test_merge(tmp_path: Path, merge: dict[str, str], outputs: Any, answer: Any) -> None:
    steps = {**BRANCHES, "last": {"merge": ["a", "b"], **merge}}
    graph = filled().graph(tmp_path, steps, outputs=outputs)
    assert await ask(graph, x=[3]) == answer


async def test_a_mean_of_what_differs_in_shape_names_the_step(tmp_path: Path) -> None:
    cut = Model("x:f[-1]", "y:f[-1]", lambda x: {"y": x[:1]})
    steps = {
        **BRANCHES,
        "b": {"model": "cut", "in": "request"},
        "last": {"merge": ["a", "b"], "combine": "mean"},
    }
    with pytest.raises(InvalidTensor, match='step "last": combine: "y" of "a", "b" has shapes'):
        await ask(filled(cut=cut).graph(tmp_path, steps), x=[3, 4])

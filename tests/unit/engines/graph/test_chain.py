"""Steps one after the other: what they have in common with other steps, on their shorter way."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest, ServingError
from ie_serving.core.values.tensors import SERVING_DEFAULT
from tests.unit.engines.graph.shelf import CHAIN, Model, ask, failing, filled, specs

X = np.float32([1, 2])


async def given(graph: Any, read: Any) -> Any:
    """Ask, and read the reply by `read`."""
    return await graph.infer(graph.signatures[SERVING_DEFAULT], {"x": X}, read)


async def test_an_error_of_the_reader_names_no_step(tmp_path: Path) -> None:
    """It is called while the last step runs, whose fault it is not."""

    def refuse(outputs: Any) -> None:
        raise InvalidRequest("no such output")

    models = filled()
    graph = models.graph(tmp_path, CHAIN)
    with pytest.raises(InvalidRequest, match=r"^no such output$"):
        await given(graph, refuse)
    assert models.recorded == ["first", "last"]
    models.put("double", failing(ServingError("broken")))
    with pytest.raises(ServingError, match=r'^step "last" \(model "double"\): broken$'):
        await given(graph, refuse)


async def test_the_time_of_the_last_step_ends_where_the_reply_begins(tmp_path: Path) -> None:
    models = filled()
    graph = models.graph(tmp_path, CHAIN)

    def slow(outputs: Any) -> list[float]:
        threading.Event().wait(0.2)
        return list(outputs["y"])

    assert await given(graph, slow) == [4, 6]
    assert list(models.took) == ["first", "last"] and max(models.took.values()) < 0.2


async def test_outputs_of_a_step_stay_as_they_are(tmp_path: Path) -> None:
    """A model uses the memory of its outputs again, also for the next step."""
    memory = np.zeros(2, np.float32)

    def add(x: Any) -> dict[str, Any]:
        memory[...] = x + 1
        return {"y": memory}

    outputs = {"first": "first.y", "sent": "request.x", "y": "last.y"}
    steps = {name: {**step, "model": "same"} for name, step in CHAIN.items()}
    graph = filled(same=Model("x:f[-1]", "y:f[-1]", add)).graph(tmp_path, steps, outputs=outputs)
    assert await ask(graph, x=X) == {"first": [2, 3], "sent": [1, 2], "y": [3, 4]}
    assert graph.chain is not None


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        pytest.param("x:f[-1]", "y:f[-1]", id="the same"),
        pytest.param("x:f[2]", "y:f[2]", id="a fixed size"),
        pytest.param("x:f[-1,1]", "y:f[-1,1]", id="one dimension more"),
    ],
)
async def test_a_version_takes_what_fits_its_own_signature(
    tmp_path: Path, inputs: str, outputs: str
) -> None:
    models = filled()
    graph = models.graph(tmp_path, CHAIN)
    assert await ask(graph, x=X) == {"y": [4, 6]}
    seen: list[tuple[int, ...]] = []

    def triple(x: Any) -> dict[str, Any]:
        seen.append(x.shape[1:])
        return {"y": x * 3}

    models.put("double", Model(inputs, outputs, triple), version=2)
    for _ in range(2):
        assert await ask(graph, x=X) == {"y": [6, 9]}
    assert seen == [specs(inputs)["x"].shape[1:]] * 2


async def test_an_output_that_does_not_fit_is_refused_each_time(tmp_path: Path) -> None:
    models = filled()
    graph = models.graph(tmp_path, CHAIN)
    models.put("double", Model("x:f[3]", "y:f[3]", lambda x: {"y": x}), version=2)
    for _ in range(2):
        with pytest.raises(ServingError, match=r'^step "last" \(model "double"\): .*size'):
            await ask(graph, x=X)
    assert await ask(graph, x=[1, 2, 3]) == {"y": [2, 3, 4]}


async def test_versions_are_let_go_of(tmp_path: Path) -> None:
    """An unload of one waits for that."""
    models = filled()
    graph = models.graph(tmp_path, CHAIN)
    held = models.servables["add"]
    held.unheld = asyncio.Event()
    await ask(graph, x=X)
    assert held.holders == 0 and held.unheld.is_set()

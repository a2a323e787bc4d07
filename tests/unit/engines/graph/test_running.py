"""Which steps of a graph run, in which order, and what ends them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ie_serving.core.values.errors import NotAvailable, QueueFull, ServingError
from tests.unit.engines.asking import told
from tests.unit.engines.graph.shelf import CHAIN, Model, ask, failing, filled, plus

PATIENCE_S = 20

DIAMOND = {
    "left": {"model": "add", "in": {"x": "request.x"}},
    "right": {"model": "double", "in": {"x": "request.x"}},
    "last": {"model": "sum", "in": {"a": "left.y", "b": "right.y"}},
}


async def test_a_chain_is_its_models_one_after_the_other(tmp_path: Path) -> None:
    models = filled()
    graph = models.graph(tmp_path, CHAIN)
    assert await ask(graph, x=[1, 2]) == {"y": [4, 6]}
    assert models.recorded == ["first", "last"]
    assert told(graph) == {"x": "float [-1]", "y": "float [-1]"}
    graph.close()


@pytest.mark.parametrize("names", [("flat", "column"), ("column", "flat")])
async def test_an_input_fits_all_that_take_it_in_any_order(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    column = Model("x:f[-1,1]", "y:f[-1,1]", lambda x: {"y": x + 1})
    steps = {name: {"model": name, "in": "request"} for name in names}
    outputs = {name: f"{name}.y" for name in names}
    graph = filled(flat=plus(1), column=column).graph(tmp_path, steps, outputs=outputs)
    assert told(graph)["x"] == "float [-1]"
    assert await ask(graph, x=[1, 2]) == {"flat": [2, 3], "column": [2, 3]}


@pytest.mark.parametrize(
    ("names", "steps", "y"),
    [(("add", "double"), CHAIN, [4]), (("add", "double", "sum"), DIAMOND, [10])],
    ids=["chain", "branches"],
)
async def test_steps_that_do_not_wait_make_no_task(
    tmp_path: Path, names: tuple[str, ...], steps: Any, y: list[float]
) -> None:
    models = filled()
    seen: list[int] = []

    async def count() -> None:
        seen.append(len(asyncio.all_tasks()))

    for name in names:
        models.servables[name].compiled.before = count  # type: ignore[attr-defined]
    assert await ask(models.graph(tmp_path, steps), x=[3 if steps is DIAMOND else 1]) == {"y": y}
    assert seen == [1] * len(names)


async def test_a_list_is_a_sequence(tmp_path: Path) -> None:
    again = Model("y:f[-1] x:f[-1]", "z:f[-1]", lambda y, x: {"z": y * 10 + x})
    steps: list[dict[str, Any]] = [{"model": "add"}, {"model": "again"}]
    with pytest.raises(ServingError, match=r'step "again": nothing fills input "x" float \(-1\)'):
        filled(again=again).graph(tmp_path, steps, outputs={"z": "again.z"})
    steps[0]["keep"] = True
    graph = filled(again=again).graph(tmp_path, steps, outputs={"z": "again.z"})
    assert await ask(graph, x=[1]) == {"z": [21]}


async def test_branches_that_do_not_need_each_other_run_side_by_side(tmp_path: Path) -> None:
    models = filled()
    both = asyncio.Barrier(2) if hasattr(asyncio, "Barrier") else None
    if both is None:
        pytest.skip("Python 3.10 has no barrier")
    for name in ("add", "double"):
        models.servables[name].compiled.before = both.wait  # type: ignore[attr-defined]
    graph = models.graph(tmp_path, DIAMOND)
    assert await asyncio.wait_for(ask(graph, x=[3]), PATIENCE_S) == {"y": [10]}


async def test_a_branch_that_fails_at_once_ends_those_that_wait(tmp_path: Path) -> None:
    models = filled()
    ended = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def fail() -> None:
        raise QueueFull("none is free")

    models.servables["add"].compiled.before = wait  # type: ignore[attr-defined]
    models.servables["double"].compiled.before = fail  # type: ignore[attr-defined]
    with pytest.raises(QueueFull, match=r'step "right" \(model "double"\): none is free'):
        await asyncio.wait_for(ask(models.graph(tmp_path, DIAMOND), x=[3]), PATIENCE_S)
    assert ended.is_set()
    assert [models.servables[name].holders for name in ("add", "double", "sum")] == [0, 0, 0]


async def test_a_step_that_several_need_runs_once(tmp_path: Path) -> None:
    models = filled()
    steps = {
        "first": {"model": "add", "in": "request"},
        "left": {"model": "add", "in": {"x": "first.y"}},
        "last": {"model": "sum", "in": {"a": "left.y", "b": "first.y"}},
    }
    assert await ask(models.graph(tmp_path, steps), x=[1]) == {"y": [5]}
    assert models.recorded == ["first", "left", "last"]


async def test_a_failure_names_its_step_and_keeps_its_kind(tmp_path: Path) -> None:
    graph = filled(double=failing(QueueFull("no lane"))).graph(tmp_path, CHAIN)
    with pytest.raises(QueueFull, match=r'^step "last" \(model "double"\): no lane$'):
        await ask(graph, x=[1])
    graph = filled(double=failing(ZeroDivisionError())).graph(tmp_path, CHAIN)
    with pytest.raises(ServingError, match=r'^step "last"'):
        await ask(graph, x=[1])


async def test_a_failure_ends_what_runs_beside_it(tmp_path: Path) -> None:
    models = filled(add=failing(QueueFull("no lane")))
    ended = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    models.servables["double"].compiled.before = hang  # type: ignore[attr-defined]
    with pytest.raises(QueueFull):
        await asyncio.wait_for(ask(models.graph(tmp_path, DIAMOND), x=[1]), PATIENCE_S)
    assert ended.is_set()
    assert models.servables["double"].holders == 0


async def test_a_client_that_goes_cancels_every_step(tmp_path: Path) -> None:
    models = filled()
    reached = [asyncio.Event(), asyncio.Event()]
    for event, name in zip(reached, ("add", "double"), strict=True):
        models.servables[name].compiled.before = _waiting(event)  # type: ignore[attr-defined]
    asked = asyncio.create_task(ask(models.graph(tmp_path, DIAMOND), x=[1]))
    await asyncio.wait_for(asyncio.gather(*(event.wait() for event in reached)), PATIENCE_S)
    assert [models.servables[name].holders for name in ("add", "double", "sum")] == [1, 1, 1]
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert [models.servables[name].holders for name in ("add", "double", "sum")] == [0, 0, 0]
    assert len(asyncio.all_tasks()) == 1


def _waiting(event: asyncio.Event) -> Any:
    async def wait() -> None:
        event.set()
        await asyncio.Event().wait()

    return wait


async def test_versions_do_not_mix_within_a_request(tmp_path: Path) -> None:
    models = filled()
    steps = {
        "first": {"model": "add", "in": "request"},
        "last": {"model": "add", "in": {"x": "first.y"}},
    }
    graph = models.graph(tmp_path, steps)
    old = models.servables["add"]

    async def replace() -> None:
        if models.servables["add"] is old:
            models.put("add", plus(100), version=2)

    old.compiled.before = replace  # type: ignore[attr-defined]
    assert await ask(graph, x=[0]) == {"y": [2]}
    assert await ask(graph, x=[0]) == {"y": [200]}


async def test_a_model_that_is_gone_is_named_with_its_step(tmp_path: Path) -> None:
    models = filled()
    graph = models.graph(tmp_path, CHAIN)
    del models.servables["double"]
    with pytest.raises(NotAvailable, match='step "last": no model double'):
        await ask(graph, x=[1])
    models.put("double", Model("x:f[-1]", "z:f[-1]", lambda x: {"z": x}), version=2)
    with pytest.raises(ServingError, match=r'step "last".*version 2 has no output "y"'):
        await ask(graph, x=[1])

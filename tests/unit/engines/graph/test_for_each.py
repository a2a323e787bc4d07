"""Steps that run once for each entry of a tensor."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.engines.graph import calls
from tests.unit.engines.asking import told
from tests.unit.engines.graph.shelf import Model, ask, filled


@pytest.mark.parametrize("rows", [0, 1, 17])
async def test_a_step_runs_once_for_each_entry(tmp_path: Path, rows: int) -> None:
    models = filled()
    steps = {"last": {"model": "add", "for_each": "request.rows", "in": {"x": "item"}}}
    graph = models.graph(tmp_path, steps)
    assert told(graph) == {"rows": "float [-1, -1]", "y": "float [-1, -1]"}
    sent = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    assert await ask(graph, rows=sent) == {"y": (sent + 1).tolist()}
    assert models.servables["add"].compiled.calls == rows  # type: ignore[attr-defined]


async def test_an_entry_of_a_list_of_texts_is_a_tensor(tmp_path: Path) -> None:
    size = Model("x:s[]", "y:i[]", lambda x: {"y": len(x.item())})
    steps = {"last": {"model": "size", "for_each": "request.texts", "in": {"x": "item"}}}
    graph = filled(size=size).graph(tmp_path, steps)
    assert await ask(graph, texts=np.array([b"a", b"bcd"], object)) == {"y": [1, 3]}


async def test_for_each_runs_as_many_as_there_are_lanes(tmp_path: Path) -> None:
    models = filled()
    running, most = 0, 0

    async def count() -> None:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        await asyncio.sleep(0)
        running -= 1

    models.servables["add"].compiled.before = count  # type: ignore[attr-defined]
    steps = {"last": {"model": "add", "for_each": "request.rows", "in": {"x": "item"}}}
    await ask(models.graph(tmp_path, steps), rows=np.zeros((9, 1), np.float32))
    assert most == 2


async def test_entries_of_several_tensors_go_together(tmp_path: Path) -> None:
    each = {"p": "request.p", "q": "request.q"}
    steps = {"last": {"model": "sum", "for_each": each, "in": {"a": "item.p", "b": "item.q"}}}
    graph = filled().graph(tmp_path, steps)
    assert await ask(graph, p=[[1], [2]], q=[[10], [20]]) == {"y": [[11], [22]]}
    with pytest.raises(InvalidTensor, match=r'step "last".*first dimension'):
        await ask(graph, p=[[1], [2]], q=[[10]])


async def test_entries_are_bounded_before_anything_is_made_of_them(tmp_path: Path) -> None:
    steps = {"last": {"model": "add", "for_each": "request.rows", "in": {"x": "item"}}}
    graph = filled().graph(tmp_path, steps)
    with pytest.raises(InvalidTensor, match=r'step "last".*at most 16384 entries; 1000000000 came'):
        await ask(graph, rows=np.empty((1_000_000_000, 0), np.float32))


async def test_other_requests_have_turns_between_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "LOOP_S", 0.0)
    models = filled()
    compiled: Any = models.servables["add"].compiled
    turns: list[int] = []
    asyncio.get_running_loop().call_soon(lambda: turns.append(compiled.calls))

    async def at_once() -> None:
        """Run on the loop."""

    compiled.before, compiled.lanes = at_once, 1
    steps = {"last": {"model": "add", "for_each": "request.rows", "in": {"x": "item"}}}
    await ask(models.graph(tmp_path, steps), rows=np.zeros((9, 1), np.float32))
    assert turns == [0]


async def test_entries_that_differ_in_shape_are_refused(tmp_path: Path) -> None:
    cut = Model("x:f[-1]", "y:f[-1]", lambda x: {"y": x[: int(x[0])]})
    steps = {"last": {"model": "cut", "for_each": "request.rows", "in": {"x": "item"}}}
    graph = filled(cut=cut).graph(tmp_path, steps)
    with pytest.raises(InvalidTensor, match=r'entries give "y" of different shapes, \[1\], \[2\]'):
        await ask(graph, rows=[[1, 1], [2, 2]])

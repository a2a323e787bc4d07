"""What a graph runs itself: kernels and built-in steps, for each entry, and kept for a while."""

import asyncio
import json
import logging
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import (
    DeadlineExceeded,
    InvalidTensor,
    LoadFailed,
    NotAvailable,
    ServingError,
)
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.graph.engine import FILE, GraphEngine
from ie_serving.telemetry.metrics.step_metrics import StepMetrics, step_lines
from tests.process import PATIENCE_S
from tests.stand_in_engine import StandInEngine
from tests.unit.engines.graph.shelf import Model, Shelf, ask, plus, times

KERNEL = """
import time

class Add:
    def load(self, ctx):
        self.number = ctx.params["number"]

    def metadata(self):
        rows = {"dtype": "float32", "shape": [-1]}
        return {"inputs": {"x": rows}, "outputs": {"y": rows}}

    def execute(self, inputs, ctx):
        if inputs["x"].size == 13:
            raise KeyError("thirteen")
        if inputs["x"].size == 99:
            time.sleep(5)
        return inputs["x"] + self.number
"""


def shelf(**models: Model) -> Shelf:
    return Shelf(**{"add": plus(1), "double": times(2), **models})


def compiled(models: Shelf, directory: Path, steps: object, **rest: Any) -> Any:
    """Compile a graph that may run code, with metrics."""
    watch = rest.pop("watch", None)
    allowed = rest.pop("allow_python", True)
    rest.setdefault("outputs", {"y": "last.y"})
    (directory / FILE).write_text(json.dumps({"steps": steps, **rest}))
    record = lambda step, _: models.recorded.append(step)  # noqa: E731
    engine = GraphEngine(StandInEngine(), models, record, watch)
    return engine.compile(directory, EngineOptions(allow_python=allowed))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "add.py").write_text(KERNEL)
    return tmp_path


def code(**keys: object) -> dict[str, Any]:
    return {"kernel": "add.py:Add", "with": {"number": 10}, "in": "request", **keys}


# -- kernels ----------------------------------------------------------------------------------


async def test_a_kernel_is_a_step(directory: Path) -> None:
    models = shelf()
    steps = {"code": code(), "last": {"model": "double", "in": {"x": "code.y"}}}
    with closing(compiled(models, directory, steps)) as graph:
        assert await ask(graph, x=[1]) == {"y": [22]}
        assert models.recorded == ["code", "last"]
        with pytest.raises(ServingError, match=r'step "code" \(kernel "add.py:Add"\): .*KeyError'):
            await ask(graph, x=np.zeros(13, np.float32))


async def test_a_kernel_that_hangs_is_given_up(directory: Path) -> None:
    steps = {"last": code(timeout_ms=20, max_concurrency=2)}
    graph = compiled(shelf(), directory, steps)
    with pytest.raises(DeadlineExceeded, match=r'step "last" .*within 20 ms \(timeout_ms'):
        await asyncio.wait_for(ask(graph, x=np.zeros(99, np.float32)), PATIENCE_S)
    assert await ask(graph, x=[1]) == {"y": [11]}


async def test_a_kernel_in_a_process_of_its_own(directory: Path) -> None:
    with closing(
        compiled(shelf(), directory, {"last": code(isolation="process", timeout_ms=700)})
    ) as graph:
        assert await asyncio.wait_for(ask(graph, x=[1]), PATIENCE_S) == {"y": [11]}
        with pytest.raises(DeadlineExceeded, match=r'step "last" .*within 700 ms'):
            await asyncio.wait_for(ask(graph, x=np.zeros(99, np.float32)), PATIENCE_S)


def test_code_needs_consent(directory: Path) -> None:
    with pytest.raises(LoadFailed, match=r'step "last": .*asks to run Python code'):
        compiled(shelf(), directory, {"last": code()}, allow_python=False)


def test_a_kernel_that_is_not_there_is_named(directory: Path) -> None:
    with pytest.raises(LoadFailed, match=r'step "last": kernel lost.py is neither'):
        compiled(shelf(), directory, {"last": code(kernel="lost.py")})


# -- built-in steps ---------------------------------------------------------------------------


async def test_a_built_in_step_reads_files_beside_the_graph(directory: Path) -> None:
    (directory / "labels.txt").write_text("cat\ndog\n")
    use = {"use": "classifier_output", "with": {"labels": "labels.txt"}}
    steps = [{"model": "double", "in": {"x": "request.probs"}, "outputs": {"probs": "y"}}, use]
    outputs = {"label": "classifier_output.label", "prob": "classifier_output.prob"}
    graph = compiled(shelf(), directory, steps, outputs=outputs)
    assert await ask(graph, probs=[0.1, 0.4]) == {
        "label": [b"dog"],
        "prob": [pytest.approx(0.8)],
    }


@pytest.mark.parametrize("name", ["/etc/hostname", "../labels.txt", "lost.txt"])
def test_files_of_others_are_not_read(directory: Path, name: str) -> None:
    use = {"use": "classifier_output", "with": {"labels": name}, "in": "request"}
    with pytest.raises(LoadFailed, match=rf'step "last": file "{name}"'):
        compiled(shelf(), directory, {"last": use}, outputs={"y": "last.label"})


def test_a_built_in_step_that_does_not_fit_is_named(directory: Path) -> None:
    steps = {"last": {"use": "crop", "with": {"height": 2, "width": 2}, "in": {"box": "request.b"}}}
    with pytest.raises(LoadFailed, match=r'use "crop" has no input "box".*nothing fills input "bo'):
        compiled(shelf(), directory, steps, outputs={"y": "last.items"})


async def test_values_that_pass_are_written_as_texts(directory: Path) -> None:
    steps = {
        "double": {"model": "double", "in": "request"},
        "json": {"use": "json", "in": {"x": "request.x", "y": "double.y"}},
        "text": {
            "use": "template",
            "with": {"text": "{x:.1f} -> {y:.0f} {{ok}}"},
            "in": {"x": "request.x", "y": "double.y"},
        },
    }
    graph = compiled(shelf(), directory, steps, outputs={"j": "json.text", "t": "text.text"})
    assert await ask(graph, x=[1.5, 2]) == {
        "j": b'{"x": [1.5, 2.0], "y": [3.0, 4.0]}',
        "t": b"1.5, 2.0 -> 3, 4 {ok}",
    }


async def test_values_that_pass_are_logged_and_counted(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    steps = [
        {"model": "double"},
        {"use": "log", "with": {"keys": "y"}},
        {"use": "metrics", "name": "last"},
    ]
    metrics = StepMetrics()
    graph = compiled(shelf(), directory, steps, watch=metrics)
    with caplog.at_level(logging.INFO, "ie_serving.steps"):
        assert await ask(graph, x=[1, 4]) == {"y": [2, 8]}
    assert 'step passed step=log items="y float32[2] [2.0, 8.0]"' in caplog.text
    lines = [line for line in step_lines({"g": metrics}) if "step_values{" in line]
    start = 'ie_serving_step_values{graph="g",step="last",item="y",of='
    wanted = {"count": 2, "sum": 10, "min": 2, "max": 8}
    assert lines == [f'{start}"{of}"}} {number}' for of, number in wanted.items()]


# -- lists within lists -----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 3, 4), (2, 0, 4)])
async def test_a_step_runs_once_for_each_entry_of_lists_within_lists(
    directory: Path, shape: tuple[int, ...]
) -> None:
    both = Model("a:f[-1] b:f[-1]", "y:f[-1]", lambda a, b: {"y": a + b})
    each = {"a": "request.a", "b": "request.b"}
    step = {"model": "both", "in": {"a": "item.a", "b": "item.b"}, "for_each": each}
    graph = compiled(shelf(both=both), directory, {"last": {**step, "levels": {"a": 2}}})
    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    b = np.arange(shape[0] * 4, dtype=np.float32).reshape(shape[0], 4)
    found = await ask(graph, a=a, b=b)
    assert found == {"y": (a + b[:, None]).tolist()}


async def test_entries_are_counted(directory: Path) -> None:
    step = {"model": "add", "in": {"x": "item"}, "for_each": "request.x", "entries": 2}
    graph = compiled(shelf(), directory, {"last": step})
    assert await ask(graph, x=[[1], [2]]) == {"y": [[2], [3]]}
    with pytest.raises(InvalidTensor, match=r'step "last".*takes 2 entries; 3 came'):
        await ask(graph, x=[[1], [2], [3]])


async def test_a_step_gathers_what_entries_gave(directory: Path) -> None:
    total = Model("y:f[-1,-1]", "y:f[]", lambda y: {"y": y.sum()})
    each = {"model": "add", "in": {"x": "item"}, "for_each": "request.x"}
    steps = {"each": each, "last": {"model": "total", "gather": "each"}}
    graph = compiled(shelf(total=total), directory, steps)
    assert await ask(graph, x=[[1], [2], [3]]) == {"y": 9}


async def test_a_signature_that_a_later_version_lacks_is_told(directory: Path) -> None:
    models = shelf()
    graph = compiled(models, directory, {"last": {"model": "add", "in": "request"}})
    later = plus(1)
    later.signatures = {"other": later.signatures["serving_default"]}
    held = models.put("add", later, version=2)
    with pytest.raises(NotAvailable, match='step "last": version 2 has no signature'):
        await ask(graph, x=[1])
    assert held.holders == 0


# -- kept answers -----------------------------------------------------------------------------


async def test_equal_inputs_are_computed_once(directory: Path) -> None:
    models = shelf()
    graph = compiled(
        models, directory, {"last": {"model": "add", "in": "request", "cache_ms": 60_000}}
    )
    found = await asyncio.gather(*(ask(graph, x=[1]) for _ in range(100)))
    assert found == [{"y": [2]}] * 100
    assert await ask(graph, x=[5]) == {"y": [6]}
    assert models.servables["add"].compiled.calls == 2  # type: ignore[attr-defined]
    models.put("add", plus(100), version=2)
    assert await ask(graph, x=[1]) == {"y": [101]}


async def test_a_graph_keeps_answers(directory: Path) -> None:
    models = shelf()
    graph = compiled(
        models, directory, {"last": {"model": "add", "in": "request"}}, cache_ms=60_000
    )
    assert [await ask(graph, x=[1]) for _ in range(3)] == [{"y": [2]}] * 3
    assert models.servables["add"].compiled.calls == 1  # type: ignore[attr-defined]


async def test_defaults_hold_for_every_step(directory: Path) -> None:
    models = shelf()
    models.servables["add"].compiled.before = asyncio.Event().wait  # type: ignore[attr-defined]
    steps = {"last": {"model": "add", "in": "request"}}
    graph = compiled(models, directory, steps, defaults={"timeout_ms": 5})
    with pytest.raises(DeadlineExceeded, match="timeout_ms, 5"):
        await asyncio.wait_for(ask(graph, x=[1]), PATIENCE_S)


# -- long chains ------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [{}, {"when": "request.go"}, {"fallback": "s0"}], ids=str)
async def test_a_chain_may_be_longer_than_the_stack(directory: Path, keys: dict[str, str]) -> None:
    steps = {"s0": {"model": "add", "in": {"x": "request.x"}}}
    for at in range(1, 1000):
        steps[f"s{at}"] = {"model": "add", "in": {"x": f"s{at - 1}.y"}, **keys}  # type: ignore[dict-item]
    inputs = {"inputs": {"go": {"dtype": "bool", "shape": []}}} if "when" in keys else {}
    graph = compiled(shelf(), directory, steps, outputs={"y": "s999.y"}, **inputs)
    go = {"go": True} if "when" in keys else {}
    assert await ask(graph, x=[0], **go) == {"y": [1000]}

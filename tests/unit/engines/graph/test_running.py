"""What a graph answers, which steps run for it, and when."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.errors import (
    DeadlineExceeded,
    InvalidRequest,
    InvalidTensor,
    NotAvailable,
    QueueFull,
    ServingError,
)
from ie_serving.engines.graph import calls
from ie_serving.engines.graph.condition import parse
from tests.unit.engines.asking import told
from tests.unit.engines.graph.shelf import Model, Shelf, ask, plus, times

PATIENCE_S = 20

CHAIN = {
    "first": {"model": "add", "in": {"x": "request.x"}},
    "last": {"model": "double", "in": {"x": "first.y"}},
}
DIAMOND = {
    "left": {"model": "add", "in": {"x": "request.x"}},
    "right": {"model": "double", "in": {"x": "request.x"}},
    "last": {"model": "sum", "in": {"a": "left.y", "b": "right.y"}},
}


def total() -> Model:
    return Model("a:f[-1] b:f[-1]", "y:f[-1]", lambda a, b: {"y": a + b})


def shelf(**models: Model) -> Shelf:
    return Shelf(**{"add": plus(1), "double": times(2), "sum": total(), **models})


def failing(error: Exception) -> Model:
    def fail(x: Any) -> dict[str, Any]:
        raise error

    return Model("x:f[-1]", "y:f[-1]", fail)


async def test_a_chain_is_its_models_one_after_the_other(tmp_path: Path) -> None:
    models = shelf()
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
    graph = shelf(flat=plus(1), column=column).graph(tmp_path, steps, outputs=outputs)
    assert told(graph)["x"] == "float [-1]"
    assert await ask(graph, x=[1, 2]) == {"flat": [2, 3], "column": [2, 3]}


async def test_a_chain_makes_no_task(tmp_path: Path) -> None:
    models = shelf()
    seen: list[int] = []

    async def count() -> None:
        seen.append(len(asyncio.all_tasks()))

    for name in ("add", "double"):
        models.servables[name].compiled.before = count  # type: ignore[attr-defined]
    await ask(models.graph(tmp_path, CHAIN), x=[1])
    assert seen == [1, 1]


async def test_a_list_is_a_sequence(tmp_path: Path) -> None:
    again = Model("y:f[-1] x:f[-1]", "z:f[-1]", lambda y, x: {"z": y * 10 + x})
    steps: list[dict[str, Any]] = [{"model": "add"}, {"model": "again"}]
    with pytest.raises(ServingError, match=r'step "again": nothing fills input "x" float \(-1\)'):
        shelf(again=again).graph(tmp_path, steps, outputs={"z": "again.z"})
    steps[0]["keep"] = True
    graph = shelf(again=again).graph(tmp_path, steps, outputs={"z": "again.z"})
    assert await ask(graph, x=[1]) == {"z": [21]}


async def test_branches_that_do_not_need_each_other_run_side_by_side(tmp_path: Path) -> None:
    models = shelf()
    both = asyncio.Barrier(2) if hasattr(asyncio, "Barrier") else None
    if both is None:
        pytest.skip("Python 3.10 has no barrier")
    for name in ("add", "double"):
        models.servables[name].compiled.before = both.wait  # type: ignore[attr-defined]
    graph = models.graph(tmp_path, DIAMOND)
    assert await asyncio.wait_for(ask(graph, x=[3]), PATIENCE_S) == {"y": [10]}


async def test_a_step_that_several_need_runs_once(tmp_path: Path) -> None:
    models = shelf()
    steps = {
        "first": {"model": "add", "in": "request"},
        "left": {"model": "add", "in": {"x": "first.y"}},
        "last": {"model": "sum", "in": {"a": "left.y", "b": "first.y"}},
    }
    assert await ask(models.graph(tmp_path, steps), x=[1]) == {"y": [5]}
    assert models.recorded == ["first", "left", "last"]


async def test_a_failure_names_its_step_and_keeps_its_kind(tmp_path: Path) -> None:
    graph = shelf(double=failing(QueueFull("no lane"))).graph(tmp_path, CHAIN)
    with pytest.raises(QueueFull, match=r'^step "last" \(model "double"\): no lane$'):
        await ask(graph, x=[1])
    graph = shelf(double=failing(ZeroDivisionError())).graph(tmp_path, CHAIN)
    with pytest.raises(ServingError, match=r'^step "last"'):
        await ask(graph, x=[1])


async def test_a_failure_ends_what_runs_beside_it(tmp_path: Path) -> None:
    models = shelf(add=failing(QueueFull("no lane")))
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
    models = shelf()
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
    models = shelf()
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
    models = shelf()
    graph = models.graph(tmp_path, CHAIN)
    del models.servables["double"]
    with pytest.raises(NotAvailable, match='step "last": no model double'):
        await ask(graph, x=[1])
    models.put("double", Model("x:f[-1]", "z:f[-1]", lambda x: {"z": x}), version=2)
    with pytest.raises(ServingError, match=r'step "last".*version 2 has no output "y"'):
        await ask(graph, x=[1])


# -- options of a step ------------------------------------------------------------------------


async def test_a_step_that_takes_too_long(tmp_path: Path) -> None:
    models = shelf()
    models.servables["double"].compiled.before = asyncio.Event().wait  # type: ignore[attr-defined]
    steps = {**CHAIN, "last": {**CHAIN["last"], "timeout_ms": 5}}
    with pytest.raises(DeadlineExceeded, match=r'step "last".*longer than its timeout_ms, 5'):
        await asyncio.wait_for(ask(models.graph(tmp_path, steps), x=[1]), PATIENCE_S)
    steps |= {"last": {**steps["last"], "fallback": "other"}}
    steps |= {"other": {"model": "add", "in": {"x": "first.y"}}}
    graph = models.graph(tmp_path, steps)
    assert await asyncio.wait_for(ask(graph, x=[1]), PATIENCE_S) == {"y": [3]}


async def test_a_fallback_runs_only_after_a_failure(tmp_path: Path) -> None:
    steps = {
        "last": {"model": "double", "in": "request", "fallback": "other"},
        "other": {"model": "add", "in": "request"},
    }
    models = shelf()
    assert await ask(models.graph(tmp_path, steps), x=[1]) == {"y": [2]}
    assert models.recorded == ["last"]
    models = shelf(double=failing(ServingError("broken")))
    assert await ask(models.graph(tmp_path, steps), x=[5]) == {"y": [6]}
    assert models.recorded == ["other"]


async def test_a_fallback_that_the_step_reads_runs_once(tmp_path: Path) -> None:
    models = shelf(double=failing(ServingError("broken")))
    steps = {
        "raw": {"model": "add", "in": {"x": "request.x"}},
        "last": {"model": "double", "in": {"x": "raw.y"}, "fallback": "raw"},
    }
    assert await ask(models.graph(tmp_path, steps), x=[1]) == {"y": [2]}
    models.put("add", failing(ServingError("broken")))
    graph = models.graph(tmp_path, steps)
    with pytest.raises(ServingError, match='step "raw"'):
        await ask(graph, x=[1])
    assert models.servables["add"].compiled.calls == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(("error", "calls"), [(QueueFull("q"), 3), (InvalidRequest("r"), 1)])
async def test_retries(tmp_path: Path, error: Exception, calls: int) -> None:
    models = shelf(double=failing(error))
    steps = {**CHAIN, "last": {**CHAIN["last"], "retries": 2}}
    with pytest.raises(type(error)):
        await ask(models.graph(tmp_path, steps), x=[1])
    assert models.servables["double"].compiled.calls == calls  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("when", "runs"),
    [
        ("first.y > 1", True),
        ("first.y <= 1", False),
        ("rows(first.y) == 1", True),
        ("any(first.y)", True),
        ("size(first.y)", True),
    ],
)
async def test_when(tmp_path: Path, when: str, runs: bool) -> None:
    models = shelf()
    graph = models.graph(tmp_path, {**CHAIN, "last": {**CHAIN["last"], "when": when}})
    assert await ask(graph, x=[1]) == {"y": [4] if runs else []}
    assert models.recorded == (["first", "last"] if runs else ["first"])


@pytest.mark.parametrize("when", ["max(first.y) != 9", "max(first.y)", "min(first.y) < 9"])
async def test_nothing_holds_of_the_greatest_of_no_elements(tmp_path: Path, when: str) -> None:
    models = shelf()
    graph = models.graph(tmp_path, {**CHAIN, "last": {**CHAIN["last"], "when": when}})
    assert await ask(graph, x=[]) == {"y": []}
    assert models.recorded == ["first"]


@pytest.mark.parametrize(("when", "holds"), [("max(a.s) == 'b'", True), ("min(a.s) < 'a'", False)])
def test_texts_are_compared_as_texts(when: str, holds: bool) -> None:
    condition = parse(when)
    assert condition is not None
    assert condition.holds(np.array([b"a", b"b"], object)) is holds


async def test_what_only_a_skipped_step_needs_does_not_run(tmp_path: Path) -> None:
    models = shelf()
    steps = {**CHAIN, "last": {**CHAIN["last"], "when": "max(request.x) < 0"}}
    assert await ask(models.graph(tmp_path, steps), x=[1]) == {"y": []}
    assert models.recorded == []


async def test_what_needs_a_step_that_is_skipped_is_skipped(tmp_path: Path) -> None:
    models = shelf()
    steps = {
        "maybe": {"model": "double", "in": "request", "when": "request.x > 10"},
        "behind": {"model": "add", "in": {"x": "maybe.y"}},
        "small": {"model": "add", "in": "request"},
        "last": {"any": ["behind", "small"]},
    }
    graph = models.graph(tmp_path, steps)
    assert await ask(graph, x=[11]) == {"y": [23]}
    assert await ask(graph, x=[1]) == {"y": [2]}
    assert models.recorded == ["maybe", "behind", "small"]


async def test_when_asks_for_one_value(tmp_path: Path) -> None:
    graph = shelf().graph(tmp_path, {**CHAIN, "last": {**CHAIN["last"], "when": "first.y"}})
    with pytest.raises(InvalidTensor, match=r'step "last".*one value.*shape \[2\]'):
        await ask(graph, x=[1, 2])


# -- for each ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [0, 1, 17])
async def test_for_each(tmp_path: Path, rows: int) -> None:
    models = shelf()
    steps = {"last": {"model": "add", "for_each": "request.rows", "in": {"x": "item"}}}
    graph = models.graph(tmp_path, steps)
    assert told(graph) == {"rows": "float [-1, -1]", "y": "float [-1, -1]"}
    sent = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    assert await ask(graph, rows=sent) == {"y": (sent + 1).tolist()}
    assert models.servables["add"].compiled.calls == rows  # type: ignore[attr-defined]


async def test_an_entry_of_a_list_of_texts_is_a_tensor(tmp_path: Path) -> None:
    size = Model("x:s[]", "y:i[]", lambda x: {"y": len(x.item())})
    steps = {"last": {"model": "size", "for_each": "request.texts", "in": {"x": "item"}}}
    graph = shelf(size=size).graph(tmp_path, steps)
    assert await ask(graph, texts=np.array([b"a", b"bcd"], object)) == {"y": [1, 3]}


async def test_for_each_runs_as_many_as_there_are_lanes(tmp_path: Path) -> None:
    models = shelf()
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
    graph = shelf().graph(tmp_path, steps)
    assert await ask(graph, p=[[1], [2]], q=[[10], [20]]) == {"y": [[11], [22]]}
    with pytest.raises(InvalidTensor, match=r'step "last".*first dimension'):
        await ask(graph, p=[[1], [2]], q=[[10]])


async def test_entries_are_bounded_before_anything_is_made_of_them(tmp_path: Path) -> None:
    steps = {"last": {"model": "add", "for_each": "request.rows", "in": {"x": "item"}}}
    graph = shelf().graph(tmp_path, steps)
    with pytest.raises(InvalidTensor, match=r'step "last".*at most 16384 entries; 1000000000 came'):
        await ask(graph, rows=np.empty((1_000_000_000, 0), np.float32))


async def test_other_requests_have_turns_between_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "LOOP_S", 0.0)
    models = shelf()
    compiled: Any = models.servables["add"].compiled
    turns: list[int] = []
    asyncio.get_running_loop().call_soon(lambda: turns.append(compiled.calls))

    async def at_once() -> None:
        """Run on the loop."""

    compiled.before, compiled.lanes = at_once, 1
    steps = {"last": {"model": "add", "for_each": "request.rows", "in": {"x": "item"}}}
    await ask(models.graph(tmp_path, steps), rows=np.zeros((9, 1), np.float32))
    assert turns == [0]


async def test_entries_that_differ_in_shape(tmp_path: Path) -> None:
    cut = Model("x:f[-1]", "y:f[-1]", lambda x: {"y": x[: int(x[0])]})
    steps = {"last": {"model": "cut", "for_each": "request.rows", "in": {"x": "item"}}}
    graph = shelf(cut=cut).graph(tmp_path, steps)
    with pytest.raises(InvalidTensor, match=r'entries give "y" of different shapes, \[1\], \[2\]'):
        await ask(graph, rows=[[1, 1], [2, 2]])


# -- steps of steps ---------------------------------------------------------------------------

BRANCHES = {
    "a": {"model": "add", "in": {"x": "request.x"}},
    "b": {"model": "double", "in": {"x": "request.x"}},
}
LANGUAGE = {"language": {"dtype": "string", "shape": []}}


async def test_a_switch_runs_the_one_step_that_it_chooses(tmp_path: Path) -> None:
    models = shelf()
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
    models = shelf()
    steps = {**BRANCHES, "last": {"switch": {"weights": {"a": 90, "b": 10}}}}
    graph = models.graph(tmp_path, steps)
    for _ in range(1000):
        await ask(graph, x=[1])
    # Six standard deviations of 1,000 draws: one run in 500 million fails by chance.
    assert 900 - 57 < models.recorded.count("a") < 900 + 57


async def test_the_same_user_gets_the_same_step(tmp_path: Path) -> None:
    models = shelf()
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
        ({"combine": "mean"}, {"y": "last.y"}, {"y": [5]}),
        ({"combine": "max"}, {"y": "last.y"}, {"y": [6]}),
        ({"on_conflict": "last"}, {"y": "last.y"}, {"y": [6]}),
        ({"on_conflict": "prefix"}, {"p": "last.a.y", "q": "last.b.y"}, {"p": [4], "q": [6]}),
    ],
)
async def test_merge(tmp_path: Path, merge: dict[str, str], outputs: Any, answer: Any) -> None:
    steps = {**BRANCHES, "last": {"merge": ["a", "b"], **merge}}
    graph = shelf().graph(tmp_path, steps, outputs=outputs)
    assert await ask(graph, x=[3]) == answer


async def test_a_mean_of_what_differs_in_shape_names_the_step(tmp_path: Path) -> None:
    cut = Model("x:f[-1]", "y:f[-1]", lambda x: {"y": x[:1]})
    steps = {
        **BRANCHES,
        "b": {"model": "cut", "in": "request"},
        "last": {"merge": ["a", "b"], "combine": "mean"},
    }
    with pytest.raises(InvalidTensor, match='step "last": combine: "y" of "a", "b" has shapes'):
        await ask(shelf(cut=cut).graph(tmp_path, steps), x=[3, 4])

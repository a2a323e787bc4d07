"""What a step does about failures and time, and when it does not run."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import (
    DeadlineExceeded,
    InvalidRequest,
    InvalidTensor,
    QueueFull,
    ServingError,
)
from ie_serving.core.values.tensors import DataType
from ie_serving.engines.graph import condition
from ie_serving.engines.graph.condition import parse
from tests.tables import named_by
from tests.unit.engines.graph.shelf import CHAIN, ask, failing, filled

PATIENCE_S = 20


async def test_a_step_that_takes_too_long(tmp_path: Path) -> None:
    models = filled()
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
    models = filled()
    assert await ask(models.graph(tmp_path, steps), x=[1]) == {"y": [2]}
    assert models.recorded == ["last"]
    models = filled(double=failing(ServingError("broken")))
    assert await ask(models.graph(tmp_path, steps), x=[5]) == {"y": [6]}
    assert models.recorded == ["other"]


async def test_a_fallback_that_the_step_reads_runs_once(tmp_path: Path) -> None:
    models = filled(double=failing(ServingError("broken")))
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
async def test_a_step_is_tried_again_where_another_try_may_help(
    tmp_path: Path, error: Exception, calls: int
) -> None:
    models = filled(double=failing(error))
    steps = {**CHAIN, "last": {**CHAIN["last"], "retries": 2}}
    with pytest.raises(type(error)):
        await ask(models.graph(tmp_path, steps), x=[1])
    assert models.servables["double"].compiled.calls == calls  # type: ignore[attr-defined]


@named_by(
    "when",
    ("when", "x", "run"),
    [
        ("first.y > 1", [1], ["first", "last"]),
        ("first.y <= 1", [1], ["first"]),
        ("rows(first.y) == 1", [1], ["first", "last"]),
        ("any(first.y)", [1], ["first", "last"]),
        ("size(first.y)", [1], ["first", "last"]),
        # Nothing holds of the greatest of no elements.
        ("max(first.y) != 9", [], ["first"]),
        ("max(first.y)", [], ["first"]),
        ("min(first.y) < 9", [], ["first"]),
        # What only a skipped step needs does not run.
        ("max(request.x) < 0", [1], []),
    ],
)
async def test_a_step_runs_when_its_condition_holds(
    tmp_path: Path, when: str, x: list[int], run: list[str]
) -> None:
    models = filled()
    graph = models.graph(tmp_path, {**CHAIN, "last": {**CHAIN["last"], "when": when}})
    assert await ask(graph, x=x) == {"y": [4] if "last" in run else []}
    assert models.recorded == run


BEYOND_FLOAT64 = 2**53 + 1


@pytest.mark.parametrize(
    ("when", "elements", "holds"),
    [
        pytest.param(f"a.n == {BEYOND_FLOAT64}", np.int64(BEYOND_FLOAT64), True, id="int64"),
        pytest.param(f"a.n == {BEYOND_FLOAT64}", np.int64(2**53), False, id="its neighbour"),
        pytest.param(f"max(a.n) > {2**53}", np.uint64(BEYOND_FLOAT64), True, id="max"),
        pytest.param("a.n == 2.0", np.int64(2), True, id="a float that is whole"),
        pytest.param("a.n > 2.5", np.int8(3), True, id="a float between integers"),
        pytest.param("a.n < 1e60", np.int8(3), True, id="beyond the integers"),
        pytest.param("a.x == 0.7", np.float32(0.7), True, id="float32"),
        pytest.param("max(a.x) >= 0.7", np.float32(0.7), True, id="max of float32"),
        pytest.param("a.x < 0.7", np.float32(0.7), False, id="not less"),
        pytest.param("a.x > 0.7", np.nextafter(np.float32(0.7), np.float32(1)), True, id="next"),
        pytest.param("a.x == 0.1", np.float16(0.1), True, id="float16"),
        pytest.param("a.x == 0.7", np.float64(0.7), True, id="float64"),
        pytest.param("a.x == 1e60", np.float32(np.inf), False, id="beyond float32"),
        pytest.param("a.x > 1e60", np.float32(np.inf), True, id="infinity"),
        pytest.param("a.x == true", np.float32(1), True, id="true"),
        pytest.param("max(a.s) == 'b'", [b"a", b"b"], True, id="texts as texts"),
        pytest.param("min(a.s) < 'a'", [b"a", b"b"], False, id="no text is less than the least"),
        # 1.0001 is 1.0 as float16.
        pytest.param("size(a.x) == 1.0001", np.float16(0), False, id="elements as they are"),
    ],
)
def test_a_number_is_as_exact_as_the_item(when: str, elements: Any, holds: bool) -> None:
    found = parse(when)
    assert found is not None
    array = np.array(elements, object if isinstance(elements, list) else None)
    assert found.holds(array.reshape(-1)) is holds


async def test_a_number_is_rounded_once_at_load_and_anew_for_another_dtype_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounded: list[object] = []

    def note(value: object, dtype: "np.dtype[Any]") -> object:
        rounded.append(dtype)
        return round_to(value, dtype)

    round_to = condition.round_to
    monkeypatch.setattr(condition, "round_to", note)
    models = filled()
    when = "max(first.y) < 2.7"
    graph = models.graph(tmp_path, {**CHAIN, "last": {**CHAIN["last"], "when": when}})
    assert rounded == [np.float32]
    for _ in range(3):
        await ask(graph, x=[np.float32(1.7)])
    assert rounded == [np.float32]
    met = condition.Condition("", "a.x", sign="==", value=0.1).meeting(DataType.FP32)
    assert met.holds(np.array([0.1], np.float32))
    assert met.holds(np.array([0.1], np.float64))
    assert rounded == [np.float32, np.float32, np.float64]


@pytest.mark.parametrize("when", ["max(a.x) == 'q'", "rows(a.x) != 'q'"])
def test_a_number_is_never_compared_with_a_text(when: str) -> None:
    found = parse(when)
    assert found is not None
    with pytest.raises(InvalidTensor, match="cannot be compared with 'q'"):
        found.holds(np.zeros(1, np.float32))


async def test_a_step_that_needs_a_skipped_step_is_skipped(tmp_path: Path) -> None:
    models = filled()
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
    graph = filled().graph(tmp_path, {**CHAIN, "last": {**CHAIN["last"], "when": "first.y"}})
    with pytest.raises(InvalidTensor, match=r'step "last".*one value.*shape \[2\]'):
        await ask(graph, x=[1, 2])

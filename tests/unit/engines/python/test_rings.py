"""Kernels that ask kernels: what would wait for itself is refused, and the rest goes on."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.codes import code_of
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import Arrays, Read, Signature
from ie_serving.engines.other_models import Surroundings
from ie_serving.engines.python import asking
from ie_serving.engines.python.kernel_model import KernelModel
from ie_serving.engines.run.program import SHARED_THREADS
from ie_serving.models.version.handle import Servable
from tests.unit.engines.asking import answer
from tests.unit.engines.python.kernels import served

LIMIT_S = 20
"""Far beyond what any of this takes; a ring would wait for ever."""

ASKS = """
import asyncio
NUMBER = {"dtype": "int64", "shape": []}

class Asks:
    def load(self, ctx):
        self.params = ctx.params

    def metadata(self):
        return {"inputs": {"x": NUMBER}, "outputs": {"y": NUMBER}}

    def execute(self, inputs, ctx):
        x = int(inputs["x"])
        if x == 0:
            return 0
        if "met" in self.params:
            self.params["met"].wait(20)
        other = ctx.models[self.params["asks"]]
        if "async" in self.params:
            return int(asyncio.run(other.predict_async({"x": x - 1}))["y"]) + 1
        return int(other.predict({"x": x - 1})["y"]) + 1
"""


class Served:
    """Kernels by name, which ask each other."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.models: dict[str, KernelModel] = {}
        self.held = asyncio.Event()

    def add(self, name: str, params: Mapping[str, Any], **own: Any) -> KernelModel:
        at_hand = Surroundings(name, self)
        self.models[name] = served(self._root / name, ASKS, "", dict(params), at_hand, **own)
        return self.models[name]

    def handle(self, spec: ModelSpec) -> Servable:
        own = self.models.get(spec.name)
        model: Any = own or Stands(self.models["a"], self.held if spec.name == "held" else None)
        return Servable(spec.name, 1, model, model.signatures)


class Stands:
    """In place of a kernel: waits for `held`; without it asks `inner` as steps side by side do."""

    def __init__(self, inner: KernelModel, held: asyncio.Event | None) -> None:
        self._inner, self._held = inner, held
        self.signatures = inner.signatures

    async def infer(self, signature: Signature, inputs: Arrays, read: Read[Any]) -> Any:
        if self._held is not None:
            await self._held.wait()
            return read({"y": np.array(0)})
        return await asyncio.create_task(self._inner.infer(signature, inputs, read))


@pytest.fixture
def kernels(tmp_path: Path) -> Iterator[Served]:
    found = Served(tmp_path)
    yield found
    for model in found.models.values():
        model.close()


async def asked(model: KernelModel, x: int) -> "int | str":
    """Give the answer, or the error with its code."""
    try:
        return int((await asyncio.wait_for(answer(model, x=x), LIMIT_S))["y"])
    except ServingError as error:
        return f"{code_of(error).name}: {error}"


async def test_a_kernel_that_asks_itself_is_told_so(kernels: Served) -> None:
    model = kernels.add("a", {"asks": "a"})
    said = await asked(model, 1)
    assert str(said).startswith("INTERNAL: kernel Asks is asked by a kernel that it waits for")
    assert "raise max_concurrency" in str(said)
    assert await asked(model, 0) == 0  # it goes on


async def test_with_room_for_both_calls_it_may(kernels: Served) -> None:
    model = kernels.add("a", {"asks": "a"}, max_concurrency=2)
    assert await asked(model, 1) == 1
    assert "all 2 of its calls at a time" in str(await asked(model, 2))


async def test_a_ring_of_kernels_is_told_so(kernels: Served) -> None:
    for name, other in ("ab", "bc", "ca"):
        kernels.add(name, {"asks": other})
    assert await asked(kernels.models["a"], 2) == 2
    assert "in a ring" in str(await asked(kernels.models["a"], 3))


async def test_a_ring_is_seen_through_tasks(kernels: Served) -> None:
    model = kernels.add("a", {"asks": "by_task"})
    assert "in a ring" in str(await asked(model, 1))


async def test_two_that_ask_each_other_at_the_same_time_do_not_wait_for_ever(
    kernels: Served,
) -> None:
    met = threading.Barrier(2)
    both = [kernels.add(name, {"asks": other, "met": met}) for name, other in ("ab", "ba")]
    found = await asyncio.gather(*(asked(model, 1) for model in both))
    assert sum("in a ring" in str(each) for each in found) == 1
    assert 1 in found


async def test_a_chain_may_be_as_long_as_it_likes(kernels: Served) -> None:
    names = "abcdef"
    for name, other in zip(names, names[1:] + "g", strict=True):
        kernels.add(name, {"asks": other})
    found = await asyncio.gather(*(asked(kernels.models["a"], 5) for _ in range(8)))
    assert found == [5] * 8


async def test_threads_of_all_models_do_not_all_wait(kernels: Served) -> None:
    model = kernels.add("a", {"asks": "held"}, isolation="inline", max_concurrency=SHARED_THREADS)
    calls = [asyncio.ensure_future(asked(model, 1)) for _ in range(SHARED_THREADS)]
    done, waiting = await asyncio.wait(calls, timeout=LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
    (refused,) = done
    assert "RESOURCE_EXHAUSTED" in str(refused.result())
    kernels.held.set()
    assert [await each for each in waiting] == [1] * (SHARED_THREADS - 1)


async def test_coroutines_ask_too(kernels: Served) -> None:
    a = kernels.add("a", {"asks": "b", "async": True})
    kernels.add("b", {"asks": "a"})
    assert await asked(a, 1) == 1
    assert "in a ring" in str(await asked(a, 2))


@pytest.mark.parametrize("how", [{}, {"async": True}])
async def test_no_question_waits_for_ever(
    kernels: Served, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]
) -> None:
    monkeypatch.setattr(asking, "LONGEST_S", 0.05)
    model = kernels.add("a", {"asks": "held", **how})
    assert (
        await asked(model, 1)
        == 'DEADLINE_EXCEEDED: "held" did not answer within 0.05 s; ask again later'
    )

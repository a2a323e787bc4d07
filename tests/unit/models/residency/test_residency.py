"""What models that are loaded on demand hold of the budget, while they come and go."""

import asyncio
import gc
import sys
import time
import weakref
from collections.abc import Mapping
from typing import cast

import pytest

from ie_serving.engines.base import CompiledModel
from ie_serving.models import residency
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.residency import Residency, ResidencyRules
from ie_serving.models.version.handle import Servable

BASE = 10


class Memory:
    """The resident bytes of a process, by what holds them.

    Attributes:
        ahead_s: seconds by which the clock is ahead.
    """

    def __init__(self, budget: int) -> None:
        self.ahead_s = 0.0
        self.held = {"": BASE}
        self.served: dict[str, ModelConfig] = {}
        self.residency = Residency(
            ResidencyRules(
                budget=budget,
                wait_s=5.0,
                is_on_demand=lambda config: config.load != "always",
                clock=lambda: time.monotonic() + self.ahead_s,
            ),
            lambda: sum(self.held.values()),
        )

    def model(self, name: str, size: int, **fields: object) -> "Model":
        self.serve(name, **fields)
        return Model(name, size, self.held)

    def serve(self, name: str, **fields: object) -> None:
        """Serve a model with this configuration from now on."""
        self.served[name] = config(name, **fields)
        self.residency.on_demand(self.served[name])
        self.residency.follow(self.served.values())


def config(name: str, **fields: object) -> ModelConfig:
    return ModelConfig(name=name, base_path="/", **fields)  # type: ignore[arg-type]


class Model:
    """A model whose load takes no time. See `DormantModel`."""

    def __init__(self, name: str, size: int, held: dict[str, int]) -> None:
        self.name = name
        self.stored_bytes = size
        self.available: Mapping[int, Servable] = {}
        self.is_admitted = False
        self._held = held

    @property
    def is_out(self) -> bool:
        return self.name not in self._held

    async def look_anew(self) -> None:
        pass

    def admit(self) -> None:
        self.is_admitted = True
        self._held[self.name] = self.stored_bytes

    def dismiss(self) -> None:
        self.is_admitted = False
        self._held.pop(self.name, None)

    async def first_load(self) -> None:
        await asyncio.sleep(0)

    async def changed(self) -> None:
        raise AssertionError(self.name)


class Draining(Model):
    """A model that stays in memory until `end`."""

    def __init__(self, name: str, size: int, held: dict[str, int]) -> None:
        super().__init__(name, size, held)
        self._ended = asyncio.Event()

    def dismiss(self) -> None:
        self.is_admitted = False

    def end(self) -> None:
        super().dismiss()
        self._ended.set()

    async def changed(self) -> None:
        await self._ended.wait()


class WithLibraries(Model):
    """A model whose first load imports its engine, of 50 bytes."""

    async def first_load(self) -> None:
        servable = Servable(self.name, 1, cast(CompiledModel, None), {})
        servable.memory = self.stored_bytes + 50
        self.available = {1: servable}
        self._held["engine"] = 50
        sys.modules["engine of the test"] = sys.modules[__name__]


async def test_the_libraries_of_an_engine_are_not_taken_for_the_model_that_is_loaded_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise it would be refused for ever once it has been unloaded."""
    monkeypatch.delitem(sys.modules, "engine of the test", raising=False)
    memory = Memory(budget=110)
    memory.serve("first")
    first, other = WithLibraries("first", 20, memory.held), memory.model("other", 40)
    await memory.residency.load(first)
    await memory.residency.load(other)
    first.available = {}
    await memory.residency.load(first)
    assert memory.held == {"": BASE, "engine": 50, "first": 20}


class Measured(Model):
    """A model of which 1.5 times the bytes of its files are measured."""

    async def first_load(self) -> None:
        servable = Servable(self.name, 1, cast(CompiledModel, None), {})
        servable.memory = self.stored_bytes * 3 // 2
        self.available = {1: servable}


async def test_the_size_of_other_files_of_a_model_does_not_refuse_it() -> None:
    memory = Memory(budget=110)
    model = Measured("m", 60, memory.held)
    await memory.residency.load(model)
    model.dismiss()
    memory.residency.keep(["m"])
    memory.held[""] = 40  # so that the files of before would not fit any more
    model.stored_bytes = 20
    await memory.residency.load(memory.model("other", 20))
    await memory.residency.load(model)
    assert memory.held == {"": 40, "m": 20, "other": 20}


class Busy(Model):
    """A model that a request uses, until `end`."""

    def admit(self) -> None:
        super().admit()
        self.available = {1: Servable(self.name, 1, cast(CompiledModel, None), {})}
        self.available[1].holders = 1

    def end(self) -> None:
        self.available[1].holders = 0


async def full() -> tuple[Memory, Busy]:
    """Give a memory that a model in use leaves no room for a large one."""
    memory = Memory(budget=110)
    memory.serve("busy")
    busy = Busy("busy", 60, memory.held)
    await memory.residency.load(busy)
    return memory, busy


async def test_a_load_that_fits_does_not_wait_behind_one_that_waits_for_a_model_in_use() -> None:
    memory, busy = await full()
    large, small = memory.model("large", 90), memory.model("small", 20)
    waits = [asyncio.create_task(memory.residency.load(each)) for each in (large, large)]
    await asyncio.sleep(0.01)
    memory.ahead_s = 2.0
    await memory.residency.load(small)
    assert memory.held == {"": BASE, "busy": 60, "small": 20}
    busy.end()
    await asyncio.gather(*waits)
    assert memory.held == {"": BASE, "large": 90}


async def test_a_load_that_fits_waits_behind_one_whose_room_is_free_soon() -> None:
    memory, busy = await full()
    large, small = memory.model("large", 90), memory.model("small", 20)
    loads = [asyncio.create_task(memory.residency.load(each)) for each in (large, small)]
    await asyncio.sleep(0.1)
    assert memory.held == {"": BASE, "busy": 60}
    busy.end()
    await loads[0]
    assert memory.held == {"": BASE, "large": 90}
    await loads[1]
    assert memory.held == {"": BASE, "small": 20}


@pytest.mark.parametrize("is_removed", [True, False], ids=["removed", "always loaded now"])
async def test_a_model_that_is_not_pinned_any_more_holds_nothing_of_the_budget(
    is_removed: bool,
) -> None:
    memory = Memory(budget=110)
    residency = memory.residency
    pinned = memory.model("pinned", 60, pinned=True)
    idle, large = memory.model("idle", 30), memory.model("large", 80)
    for each in (pinned, idle):
        await residency.load(each)
    pinned.dismiss()  # as its removal does
    if is_removed:
        residency.follow([memory.served["idle"], memory.served["large"]])
    else:
        memory.serve("pinned", load="always")
    await residency.load(large)
    assert memory.held == {"": BASE, "large": 80}


async def test_a_model_that_is_removed_leaves_nothing_behind() -> None:
    """Also without a budget, which would unload it some day."""
    memory = Memory(budget=0)
    await memory.residency.load(memory.model("stays", 60))
    goes = memory.model("goes", 60)
    await memory.residency.load(goes)
    memory.residency.keep(["stays"])
    goes.dismiss()  # as its removal does
    await asyncio.sleep(0)
    assert memory.residency.in_memory == ["stays"]
    left = weakref.ref(goes)
    del goes
    gc.collect()
    assert left() is None


async def test_a_model_that_is_removed_holds_the_budget_until_it_is_out() -> None:
    """Requests that it still answers keep it in memory."""
    memory = Memory(budget=110)
    goes = Draining("goes", 60, memory.held)
    await memory.residency.load(goes)
    memory.residency.keep(["large"])
    goes.dismiss()
    load = asyncio.create_task(memory.residency.load(memory.model("large", 80)))
    await asyncio.sleep(0.01)
    assert memory.held == {"": BASE, "goes": 60}
    goes.end()
    await load
    assert memory.held == {"": BASE, "large": 80}
    assert memory.residency.in_memory == ["large"]


async def test_a_model_that_does_not_leave_memory_holds_no_other_one_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as one whose load is overdue, on a mount that does not answer."""
    monkeypatch.setattr(residency, "LONGEST_UNLOAD_S", 0.05)
    memory = Memory(budget=110)
    memory.serve("hangs")
    hangs, idle = Draining("hangs", 40, memory.held), memory.model("idle", 40)
    for each in (hangs, idle):
        await memory.residency.load(each)
    await memory.residency.load(memory.model("other", 40))
    assert memory.held == {"": BASE, "hangs": 40, "other": 40}


async def test_memory_that_comes_back_late_is_room_for_a_load_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(residency, "LONGEST_UNLOAD_S", 0.05)
    memory = Memory(budget=110)
    for name in ("late", "busy"):
        memory.serve(name)
    late = Draining("late", 40, memory.held)
    for each in (late, Busy("busy", 30, memory.held)):
        await memory.residency.load(each)
    load = asyncio.create_task(memory.residency.load(memory.model("other", 60)))
    await asyncio.sleep(0.1)
    memory.ahead_s = 2.0
    assert "late" in memory.held
    late.end()
    await load
    assert memory.held == {"": BASE, "busy": 30, "other": 60}


async def test_a_model_that_is_removed_while_it_is_loaded_leaves_nothing_behind() -> None:
    memory = Memory(budget=0)
    goes = Draining("goes", 60, memory.held)
    load = asyncio.create_task(memory.residency.load(goes))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert memory.residency.in_memory == ["goes"]
    memory.residency.keep([])
    goes.end()
    await load
    await asyncio.sleep(0.01)
    assert not memory.residency.in_memory


async def test_a_configuration_that_is_refused_leaves_a_model_pinned() -> None:
    memory = Memory(budget=110)
    pinned, idle = memory.model("pinned", 60, pinned=True), memory.model("idle", 30)
    for each in (pinned, idle):
        await memory.residency.load(each)
    memory.residency.on_demand(config("pinned"))  # prepared, and never served
    await memory.residency.load(memory.model("other", 30))
    assert memory.held == {"": BASE, "pinned": 60, "other": 30}

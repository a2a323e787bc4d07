"""A kernel in a process of its own: what it does there is told, and what ends it ends its call."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.codes import code_of
from ie_serving.core.values.errors import DeadlineExceeded, LoadFailed, ServingError
from ie_serving.core.values.requests import CALLER, Caller
from ie_serving.engines.layer_options import Batching
from ie_serving.engines.python.driver import load
from ie_serving.engines.python.kernel_model import KernelModel
from tests.process import ended
from tests.tables import named_by
from tests.unit.engines.asking import answer, told
from tests.unit.engines.python.kernels import options, written

CODE = """
import ctypes, os, signal, sys, threading
import numpy as np

class Apart:
    def load(self, ctx):
        self.factor = ctx.params["factor"]
        self.held = []

    def metadata(self):
        rows = {"dtype": "float32", "shape": [-1]}
        text = {"dtype": "string", "shape": []}
        return {"inputs": {"x": rows, "do": text}, "outputs": {"y": rows, "said": text}}

    def execute(self, inputs, ctx):
        do = inputs["do"].item().decode()
        if do == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if do == "segfault":
            ctypes.string_at(0)
        if do == "exit":
            os._exit(3)
        if do == "close":
            control = int(sys.argv[-2])  # without it the process might end by itself
            os.closerange(3, control)
            os.closerange(control + 1, 4096)
            threading.Event().wait()
        if do == "hang":
            threading.Event().wait()
        if do == "spin":
            while True:
                pass
        if do == "leak":
            while True:
                self.held.append(np.ones(1 << 22))
        if do == "fail":
            ctx.fail("NOT_FOUND", "nobody")
        if do == "raise":
            raise KeyError("k")
        return inputs["x"] * np.float32(self.factor), f"{os.getpid()} {ctx.request_id}"
"""
BATCHES = """
import os
class Batches:
    def metadata(self):
        number = {"dtype": "int64", "shape": []}
        return {"inputs": {"x": number}, "outputs": {"y": number, "of": number}}
    def execute_batch(self, calls):
        if any(int(call.inputs["x"]) == 13 for call in calls):
            os._exit(13)
        return [(int(call.inputs["x"]) * 10, len(calls)) for call in calls]
"""


def served(directory: Path, **own: Any) -> KernelModel:
    given = options("", {"factor": 2}, isolation="process", timeout_ms=20_000, **own)
    return load(written(directory, CODE), given)


async def ask(model: KernelModel, do: str = "", x: Any = (1.0,)) -> Any:
    return await answer(model, x=np.asarray(x, np.float32), do=np.array(do.encode(), np.object_))


async def failed(model: KernelModel, do: str) -> str:
    with pytest.raises(ServingError) as raised:
        await ask(model, do)
    return f"{code_of(raised.value).name}: {raised.value}"


async def pid(model: KernelModel) -> int:
    return int((await ask(model))["said"].item().split()[0])


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Any:
    model = served(tmp_path_factory.mktemp("apart"), memory_limit_mb=400)
    yield model
    model.close()


async def test_it_answers_from_another_process(apart: KernelModel) -> None:
    assert told(apart)["y"] == "float [-1]"
    CALLER.set(Caller({"x-request-id": "r7"}))
    found = await ask(apart, x=np.arange(1 << 20))
    number, request = found["said"].item().decode().split()
    assert (request, int(number) != os.getpid()) == ("r7", True)
    assert found["y"].tolist() == (np.arange(1 << 20) * 2.0).tolist()


async def test_an_error_is_told_and_the_process_goes_on(apart: KernelModel) -> None:
    before = await pid(apart)
    assert await failed(apart, "raise") == "INTERNAL: kernel Apart failed: KeyError: 'k'"
    assert await failed(apart, "fail") == "NOT_FOUND: nobody"
    assert await pid(apart) == before


@named_by(
    "do",
    ("do", "said"),
    [
        ("kill", "killed by SIGKILL"),
        ("segfault", "killed by SIGSEGV"),
        ("exit", "exit code 3"),
        ("close", "it closed its connection to the server, and was ended"),
    ],
)
async def test_a_crash_fails_its_own_call(tmp_path: Path, do: str, said: str) -> None:
    model = served(tmp_path)
    before = await pid(model)
    text = await failed(model, do)
    assert text.startswith(
        f"INTERNAL: the process of kernel Apart ended while it ran this call: {said}"
    )
    assert await pid(model) != before
    model.close()


async def pid_of_next(model: KernelModel) -> int:
    """Ask until a process has started, which on a busy machine takes longer than `timeout_ms`."""
    for _ in range(50):
        with suppress(DeadlineExceeded):
            return await pid(model)
    pytest.fail("no process has started")


async def test_a_kernel_that_hangs_is_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = options("", {"factor": 2}, isolation="process", timeout_ms=300)
    model = load(written(tmp_path, CODE), given)
    before = await pid(model)
    both = await asyncio.gather(ask(model, "spin"), ask(model, "hang"), return_exceptions=True)
    assert [code_of(each).name for each in both] == ["DEADLINE_EXCEEDED"] * 2  # type: ignore[arg-type]
    assert await asyncio.to_thread(ended, before)
    assert await pid_of_next(model) != before
    # Not that memory may have run out, which is told of a process that was killed from outside.
    assert 'cause="a call took longer than 300 ms"' in caplog.text
    model.close()


async def test_a_leak_ends_with_its_call(apart: KernelModel) -> None:
    before = await pid(apart)
    assert (await failed(apart, "leak")).startswith(
        "RESOURCE_EXHAUSTED: kernel Apart has no memory"
    )
    assert await pid(apart) != before


async def test_several_processes_run_at_once(tmp_path: Path) -> None:
    model = served(tmp_path, max_concurrency=2)
    assert model.at_once(model.signatures["serving_default"]) == 2
    both = await asyncio.gather(pid(model), pid(model))
    assert len({*both}) == 2
    model.close()
    assert all([await asyncio.to_thread(ended, each) for each in both])


async def test_a_kernel_that_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match=r"Apart|cannot be loaded: KeyError: 'factor'"):
        load(written(tmp_path, CODE), options("", {}, isolation="process"))


async def test_one_of_a_batch_that_crashes_fails_alone(tmp_path: Path) -> None:
    given = options("", None, Batching(max_batch_size=8), isolation="process")
    model = load(written(tmp_path, BATCHES), given)
    calls = [answer(model, x=x) for x in (0, 1, 13, 3)]
    found = await asyncio.gather(*calls, return_exceptions=True)
    values = [each if isinstance(each, Exception) else int(each["y"]) for each in found]
    assert (values[:2], values[3]) == ([0, 10], 30)
    assert "ended while it ran this call: exit code 13" in str(values[2])
    model.close()


KEEPS = """
class Keeps:
    def load(self, ctx):
        self.kept = []
    def metadata(self):
        rows = {"dtype": "float32", "shape": [-1]}
        return {"inputs": {"x": rows}, "outputs": {"y": rows, "first": rows}}
    def execute(self, inputs):
        x = inputs["x"]
        if x[0] > 0:
            self.kept.append(x[1:])
        return {"y": x[::-1], "first": [float(each[-1]) for each in self.kept]}
"""


async def test_inputs_that_a_kernel_keeps_stay_as_they_were(tmp_path: Path) -> None:
    """Large arrays are views of memory that the next call would write over."""
    model = load(written(tmp_path, KEEPS), options("", None, isolation="process"))
    for first in (1.0, 0.0, 2.0, 0.0):
        x = np.full(1 << 18, first, np.float32)
        x[0] = first
        x[1] = 7.0
        found = await answer(model, x=x)
        # A view of the input, the other way round.
        assert (found["y"][-1], found["y"][-2], found["y"][0]) == (first, 7.0, first)
    assert found["first"].tolist() == [1.0, 2.0]
    model.close()


def shared_memory() -> set[str]:
    """Inodes of what this process shares with kernels."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[4] for line in lines if "memfd:ie_serving" in line}


async def test_a_kernel_that_keeps_nothing_has_one_memory_for_all_calls(tmp_path: Path) -> None:
    model = load(written(tmp_path, KEEPS), options("", None, isolation="process"))
    seen = []
    for first in (0.0, -1.0, 1.0, 0.0):
        await answer(model, x=np.full(1 << 18, first, np.float32))
        seen.append(shared_memory())
    assert seen[0] == seen[1]
    assert seen[3] - seen[1], "what is kept is left to the kernel"
    model.close()

"""Signatures that another process computes: answers, errors, deadlines, its end."""

import asyncio
import gc
import json
import os
import resource
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest, NotAvailable, QueueFull, ServingError
from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec
from ie_serving.engines.process.protocol import text, words
from ie_serving.engines.process.supervision import Supervisor
from ie_serving.engines.run.program import CompiledPrograms
from ie_serving.engines.tensorflow.tensorflow_program import TensorFlowProgram
from ie_serving.telemetry.log import logs
from tests.process import PATIENCE_S, ended
from tests.thinning import repeated
from tests.unit.engines.process.processes import Begin, task


def spec(name: str, dtype: DataType) -> TensorSpec:
    return TensorSpec(name, dtype, None, name)


COMMANDS = Signature(
    "commands", {"c": spec("c", DataType.STRING)}, {"a": spec("a", DataType.STRING)}
)
ECHO = Signature(
    "echo",
    {"x": spec("x", DataType.FP64), "s": spec("s", DataType.STRING)},
    {"x": spec("x", DataType.FP64), "s": spec("s", DataType.STRING)},
)


@pytest.fixture
def supervisor(begin: Begin) -> Supervisor:
    return begin()


@pytest.fixture
def commands(supervisor: Supervisor) -> Iterator[TensorFlowProgram]:
    with ExitStack() as stack:
        with logs.about(model="m", version=7):
            program = TensorFlowProgram(supervisor, 0, COMMANDS, at_once=2, abandoned_s=0.05)
        stack.callback(program.close)
        yield program


async def ask(program: TensorFlowProgram, command: str) -> str:
    work = program.infer({"c": text(command)}, lambda outputs: words(outputs["a"]))
    return await asyncio.wait_for(work, PATIENCE_S)


async def test_many_at_once_are_all_answered(commands: TensorFlowProgram) -> None:
    answers = await asyncio.gather(*(ask(commands, "count") for _ in range(50)))
    assert sorted(map(int, answers)) == list(range(1, 51))
    model = CompiledPrograms([commands])
    assert (model.at_once(COMMANDS), model.ahead(COMMANDS)) == (2, False)


@pytest.mark.parametrize("count", [0, 3, 1 << 19, 1 << 21], ids="{} numbers".format)
async def test_tensors_of_any_size_come_back_as_they_were(
    supervisor: Supervisor, count: int
) -> None:
    program = TensorFlowProgram(supervisor, 1, ECHO, at_once=1)
    strings = np.array([b"", b"\0end\0", b"x" * 100_000], np.object_)

    def kept(outputs: Mapping[str, Array]) -> tuple[Array, list[bytes]]:
        return outputs["x"].copy(), outputs["s"].tolist()

    for offset in (0.0, 0.5):
        x = np.arange(count) + offset
        found, said = await program.infer({"x": x, "s": strings}, kept)
        assert found.dtype == np.float64
        assert np.array_equal(found, x)
        assert said == strings.tolist()


async def test_a_refusal_of_tensorflow_is_the_requests_fault(commands: TensorFlowProgram) -> None:
    with pytest.raises(InvalidRequest, match=r"^Incompatible shapes$"):
        await ask(commands, "fault Incompatible shapes")
    assert await ask(commands, "count") == "1"


async def test_inputs_for_which_there_is_no_memory_are_refused(begin: Begin) -> None:
    program = TensorFlowProgram(begin(memory_bytes=1 << 27), 1, ECHO, at_once=1)
    strings = np.array([b""], np.object_)

    async def size_of(count: int) -> int:
        inputs = {"x": np.zeros(count), "s": strings}
        work = program.infer(inputs, lambda outputs: int(outputs["x"].size))
        return await asyncio.wait_for(work, PATIENCE_S)

    with pytest.raises(QueueFull, match="no memory"):
        await size_of(1 << 24)
    assert await size_of(1 << 10) == 1 << 10


async def test_outputs_for_which_there_is_no_descriptor_are_refused_and_later_ones_are_not(
    begin: Begin,
) -> None:
    """A map takes a descriptor, as it takes memory: of both there may be none left."""
    program = TensorFlowProgram(begin(), 0, COMMANDS, at_once=1)
    assert await ask(program, "say 1") == "x"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # those that are open stay
    try:
        with pytest.raises(QueueFull, match="Too many open files"):
            await ask(program, "say 100000")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert await ask(program, "say 100000") == "x" * 100_000


async def test_a_defect_there_is_an_error_of_the_server(commands: TensorFlowProgram) -> None:
    with pytest.raises(ServingError, match="KeyError: 'defect'") as caught:
        await ask(commands, "defect")
    assert type(caught.value) is ServingError


async def test_a_crash_costs_the_request_that_it_met_and_no_later_one(
    commands: TensorFlowProgram,
) -> None:
    with pytest.raises(NotAvailable, match="ended while it ran this request"):
        await ask(commands, "die")
    assert await ask(commands, "count") == "1"


async def test_requests_under_way_when_it_is_killed_fail_and_later_ones_do_not(
    commands: TensorFlowProgram, tmp_path: Path
) -> None:
    pid = int(await ask(commands, "pid"))
    fifos = [tmp_path / "first", tmp_path / "second"]
    for fifo in fifos:
        os.mkfifo(fifo)
    under_way = [asyncio.ensure_future(ask(commands, f"hang {fifo}")) for fifo in fifos]
    for fifo in fifos:
        await asyncio.wait_for(asyncio.to_thread(fifo.read_bytes), PATIENCE_S)
    os.kill(pid, signal.SIGKILL)
    for each in await asyncio.gather(*under_way, return_exceptions=True):
        assert isinstance(each, NotAvailable)
    assert await ask(commands, "count") == "1"


async def test_a_run_that_hangs_after_its_client_has_left_is_ended_with_the_process(
    commands: TensorFlowProgram, caplog: pytest.LogCaptureFixture
) -> None:
    pid = int(await ask(commands, "pid"))
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(ask(commands, "hang"), 0.1)
    assert await asyncio.to_thread(ended, pid)
    said = f"TensorFlow run abandoned, process ended signature=commands pid={pid} after_s=0.05"
    assert f"{said} model=m version=7" in caplog.text
    assert await ask(commands, "count") == "1"


@repeated(3, 9)
async def test_descriptors_do_not_grow_with_the_versions_that_came_and_went(rounds: int) -> None:
    async def descriptors_of_another() -> int:
        program = TensorFlowProgram(started(), 1, ECHO, at_once=2)
        inputs = {"x": np.zeros(1 << 14), "s": text("")}
        both = (program.infer(inputs, lambda outputs: None) for _ in range(2))
        await asyncio.wait_for(asyncio.gather(*both), PATIENCE_S)
        await asyncio.to_thread(program.close)
        return len(os.listdir("/proc/self/fd"))

    gc.collect()  # what earlier tests left must not be closed in between
    first = await descriptors_of_another()
    assert [await descriptors_of_another() for _ in range(rounds)] == [first] * rounds


def started() -> Supervisor:
    supervisor = Supervisor(task())
    supervisor.start()
    return supervisor


async def test_a_program_without_a_holder_takes_its_process_along() -> None:
    supervisor = Supervisor(task())
    pid = int(json.loads(words(supervisor.start().tensors[0]))["pid"])
    program = TensorFlowProgram(supervisor, 0, COMMANDS)
    assert await ask(program, "count") == "1"
    del program
    gc.collect()
    assert await asyncio.to_thread(ended, pid)

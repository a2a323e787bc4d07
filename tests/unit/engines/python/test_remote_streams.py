"""Streams of a kernel in a process: fed and read as it asks; what ends it ends its streams."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.codes import code_of
from ie_serving.core.values.errors import InvalidRequest, ServingError
from ie_serving.core.values.requests import Caller
from ie_serving.engines.python.driver import load
from ie_serving.engines.python.kernel_model import KernelModel
from tests.process import PATIENCE_S, ended
from tests.unit.engines.python.kernels import options, written

CODE = """
import asyncio
import os

class Apart:
    def load(self, ctx):
        self.notes = ctx.params["notes"]

    def metadata(self):
        rows = {"dtype": "float32", "shape": [-1]}
        text = {"dtype": "string", "shape": []}
        return {
            "inputs": {"x": rows, "do": text},
            "outputs": {"y": rows, "said": {"dtype": "json", "shape": []}},
        }

    async def stream(self, items, ctx):
        kept = []
        try:
            async for inputs in items:
                do, x = inputs["do"].item().decode(), inputs["x"]
                if do == "raise":
                    raise KeyError("k")
                if do == "fail":
                    ctx.fail("NOT_FOUND", "nobody")
                if do == "exit":
                    os._exit(3)
                if do == "spin":
                    self.note("spins")
                    while True:
                        pass
                if do == "fill":
                    raise MemoryError
                if do == "wrong":
                    yield {"y": "no number"}
                    continue
                if do == "wait":
                    self.note("waits")
                    await asyncio.Event().wait()
                kept.append(x)
                assert not x.flags.writeable
                yield {"y": x, "said": [os.getpid(), ctx.headers.get("who")]}
            total = sum(each.astype("float64") for each in kept)
            yield {"y": total.astype("float32"), "said": "end"}
        finally:
            self.note("over")

    def note(self, word):
        with open(self.notes, "a") as notes:
            notes.write(word + "\\n")
"""


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notes") / "notes"


def served(directory: Path, notes: Path, **own: Any) -> KernelModel:
    given = options("", {"notes": str(notes)}, isolation="process", **own)
    return load(written(directory, CODE), given)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory, notes: Path) -> Any:
    model = served(tmp_path_factory.mktemp("apart"), notes, max_concurrency=2)
    yield model
    model.close()


def item(do: str = "", x: Any = (1.0,)) -> dict[str, Any]:
    return {"x": np.asarray(x, np.float32), "do": np.array(do.encode(), np.object_)}


async def listed(*items: Any) -> AsyncIterator[Any]:
    for each in items:
        yield each


def opened(model: KernelModel, items: Any) -> AsyncGenerator[Any, None]:
    assert model.stream is not None
    (signature,) = model.signatures.values()

    def read(outputs: Any) -> Any:
        said = outputs["said"].item().decode()
        return outputs["y"].copy() if outputs["y"].size > 9 else (outputs["y"].tolist(), said)

    return model.stream(signature, items, read, Caller({"who": "me"}))


async def all_of(model: KernelModel, *items: Any) -> list[Any]:
    async with asyncio.timeout(PATIENCE_S), aclosing(opened(model, listed(*items))) as replies:
        return [reply async for reply in replies]


async def failed(model: KernelModel, do: str) -> str:
    with pytest.raises(ServingError) as raised:
        await all_of(model, item(), item(do))
    return f"{code_of(raised.value).name}: {raised.value}"


async def test_it_is_fed_and_read_by_another_process(apart: KernelModel) -> None:
    first, second, end = await all_of(apart, item(x=[1]), item(x=[2]))
    pid, who = first[1].strip("[]").split(",")
    assert (first[0], second[0], end) == ([1.0], [2.0], ([3.0], '"end"'))
    assert (int(pid) != os.getpid(), who.strip()) == (True, '"me"')


async def test_large_tensors_are_kept_whole(apart: KernelModel) -> None:
    large = [np.arange(1 << 20, dtype=np.float32) + n for n in range(3)]
    replies = await all_of(apart, *(item(x=each) for each in large))
    assert all(np.array_equal(*each) for each in zip(replies, large, strict=False))
    assert np.array_equal(replies[3], sum(each.astype(np.float64) for each in large))


@pytest.mark.parametrize(
    ("do", "said"),
    [
        ("raise", "INTERNAL: kernel Apart failed: KeyError: 'k'"),
        ("fail", "NOT_FOUND: nobody"),
    ],
)
async def test_an_exception_of_a_kernel_ends_its_stream(
    apart: KernelModel, do: str, said: str
) -> None:
    assert await failed(apart, do) == said


async def test_a_wrong_output_is_an_error_in_its_place(apart: KernelModel) -> None:
    replies = await all_of(apart, item("wrong"), item(x=[2]))
    assert isinstance(replies[0], ServingError)
    assert replies[1][0] == [2.0]


async def test_a_crash_ends_its_streams_with_the_cause(tmp_path: Path, notes: Path) -> None:
    with closing(served(tmp_path, notes)) as model:
        neighbour = opened(model, held := listed_until(asyncio.Event(), item()))
        assert (await anext(neighbour))[0] == [1.0]
        text = await failed(model, "exit")
        assert text.startswith("INTERNAL: the process of kernel Apart ended while it answered")
        assert "exit code 3" in text
        with pytest.raises(ServingError, match="exit code 3"):
            await anext(neighbour)
        await held.aclose()
        assert (await all_of(model, item(x=[5])))[0][0] == [5.0]
        text = await failed(model, "fill")
        assert text == "RESOURCE_EXHAUSTED: kernel Apart has no memory for this call: MemoryError"


async def listed_until(event: asyncio.Event, *items: Any) -> AsyncGenerator[Any, None]:
    for each in items:
        yield each
    await event.wait()


async def test_streams_run_side_by_side_and_over_all_processes(apart: KernelModel) -> None:
    streams = [opened(apart, listed_until(asyncio.Event(), item())) for _ in range(4)]
    replies = [await anext(stream) for stream in streams]
    assert len({said for _, said in replies}) == 2
    for stream in streams:
        await stream.aclose()


async def noted(notes: Path, word: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while word not in notes.read_text().split():
            await asyncio.sleep(0.01)


async def test_a_client_that_leaves_ends_the_kernel_s_generator(
    apart: KernelModel, notes: Path
) -> None:
    notes.write_text("")
    stream = opened(apart, listed_until(asyncio.Event(), item(), item("wait")))
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await noted(notes, "waits")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await stream.aclose()
    await noted(notes, "over")


async def test_it_is_asked_for_no_more_than_its_client_takes(apart: KernelModel) -> None:
    fed = 0

    async def endless() -> AsyncIterator[Any]:
        nonlocal fed
        while True:
            fed += 1
            yield item()

    async with aclosing(opened(apart, endless())) as stream:
        for _ in range(10):
            await anext(stream)
        assert fed <= 13  # the next one of kernel and server each, and one that waits between


async def test_an_exception_of_the_client_ends_the_stream(apart: KernelModel) -> None:
    async def breaks() -> AsyncIterator[Any]:
        yield item()
        raise InvalidRequest("no such thing")

    async with asyncio.timeout(PATIENCE_S), aclosing(opened(apart, breaks())) as stream:
        assert (await anext(stream))[0] == [1.0]
        with pytest.raises(InvalidRequest, match="no such thing"):
            await anext(stream)


async def test_a_stream_that_hangs_is_ended_with_its_process(tmp_path: Path, notes: Path) -> None:
    with closing(served(tmp_path, notes, timeout_ms=200)) as model:
        notes.write_text("")
        stream = opened(model, listed_until(asyncio.Event(), item(), item("spin")))
        pid = int((await anext(stream))[1].strip("[]").split(",")[0])
        waiting = asyncio.ensure_future(anext(stream))
        await noted(notes, "spins")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await stream.aclose()
        assert await asyncio.to_thread(ended, pid)
        assert (await all_of(model, item(x=[5])))[0][0] == [5.0]  # of another process

"""A warm-up on the event loop lets requests have their turn."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import InferRequest, ModelSpec
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, Signature
from ie_serving.inference import warmup
from ie_serving.inference.warmup import MOST_RECORDS, RECORDS, WarmUp
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.tfs.rest_interface import rest_interface
from tests.unit.inference.stand_ins import MODEL, Heart

ITERATIONS = 2


@pytest.mark.parametrize("is_bad", [False, True])
async def test_other_work_has_its_turn_between_any_two_replays(
    tmp_path: Path, is_bad: bool
) -> None:
    """However many records there are, and however many of them are refused."""
    turns = 0
    seen: list[int] = []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def replay(servable: Servable, request: bytes) -> None:
        seen.append(turns)
        if is_bad:
            raise InvalidRequest("no such input")

    def records(file: BinaryIO) -> Iterator[tuple[str, bytes]]:
        yield from [("predict_log", b"")] * MOST_RECORDS

    path = tmp_path / RECORDS
    path.parent.mkdir()
    path.touch()
    beside = asyncio.create_task(others())
    await WarmUp(records, {"predict_log": replay}, ITERATIONS)(Heart().servable, tmp_path)
    beside.cancel()
    assert len(seen) == (1 if is_bad else ITERATIONS) * MOST_RECORDS
    assert sorted(set(seen)) == seen


async def test_a_file_that_cannot_be_read_in_time_keeps_no_version_from_serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as on a network mount that does not answer: other work in threads goes on as well."""
    go_on = threading.Event()
    monkeypatch.setattr(warmup, "LONGEST_READ_S", 0.05)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))

    def hang(path: Path) -> bool:
        assert threading.current_thread() is not threading.main_thread()
        return go_on.wait(60.0)

    monkeypatch.setattr(Path, "is_file", hang)
    try:
        await WarmUp(lambda file: iter(()), {}, ITERATIONS)(Heart().servable, tmp_path)
        assert await asyncio.wait_for(asyncio.to_thread(int, "7"), 10.0) == 7
    finally:
        go_on.set()
    assert "warm-up stopped" in caplog.text


async def test_a_large_record_is_decoded_beside_the_loop() -> None:
    heart = Heart()
    plane = await heart.plane()
    interface = rest_interface(limit_s=1)
    signature = heart.servable.signatures[SERVING_DEFAULT]
    form = next(iter(interface.encoders(heart.servable, signature, ("y",))))
    threads: list[int] = []

    def decode(signature: Signature) -> tuple[dict[str, Array], object]:
        threads.append(threading.get_ident())
        return {"x": np.ones((1, 2), np.float32)}, form

    for size in (interface.large_request - 1, interface.large_request):
        request = InferRequest(ModelSpec(MODEL), "", decode, size)
        await plane.replay_predict(heart.servable, request, interface)
    small, large = threads
    assert small == threading.get_ident()
    assert large != small

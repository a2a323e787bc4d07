"""A warm-up on the event loop lets requests have their turn."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import InferRequest, ModelSpec
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, Signature
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

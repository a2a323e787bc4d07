"""What is opened with the first use is closed, whenever that is."""

import asyncio
import threading

import pytest

from ie_serving.engines.run.detour import OnDemandResource

PATIENCE_S = 10


async def test_it_is_closed_though_it_opens_after_the_close() -> None:
    begun, go, closed = threading.Event(), threading.Event(), asyncio.Event()

    def opens() -> str:
        begun.set()
        assert go.wait(PATIENCE_S)
        return "opened"

    held = OnDemandResource(opens, lambda _: closed.set())
    waiting = asyncio.ensure_future(held.get())
    await asyncio.to_thread(begun.wait, PATIENCE_S)
    held.close()
    go.set()
    assert await waiting == "opened"
    await asyncio.wait_for(closed.wait(), PATIENCE_S)


async def test_a_caller_that_waits_for_a_failed_opening_does_not_forget_the_next() -> None:
    results = iter([RuntimeError("first"), "second", "third"])
    closed: list[object] = []

    def opens() -> object:
        found = next(results)
        if isinstance(found, Exception):
            raise found
        return found

    held = OnDemandResource(opens, closed.append)

    async def tries() -> object:
        while True:
            try:
                return await held.get()
            except RuntimeError:
                continue

    assert await asyncio.gather(*(tries() for _ in range(3))) == ["second"] * 3
    held.close()
    assert closed == ["second"]


async def test_one_that_failed_has_nothing_to_close() -> None:
    def opens() -> object:
        raise RuntimeError("never")

    held = OnDemandResource(opens, lambda _: pytest.fail("closed"))
    with pytest.raises(RuntimeError, match="never"):
        await held.get()
    held.close()

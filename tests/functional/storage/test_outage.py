"""How soon a store that was away is listed again: seconds here for what are minutes elsewhere."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.functional.storage.repositories import S3Repository
from tests.functional.storage.servers import Proxy, Weed
from tests.process import PATIENCE_S
from tests.stand_in_engine import FILE
from tests.unit.models.conftest import World, until
from tests.unit.models.streams import started

POLL_S, LONGEST_PAUSE_S = 0.1, 0.5
FAILURES = 7
"""Listings that fail: after them a back-off without a limit would be 6 s at least."""
BACK_WITHIN_S = 5.0
"""A pause, two listings and a load; and a machine that does something else meanwhile."""


def test_a_new_version_is_served_soon_after_the_store_is_back(
    weed: Weed,
    proxied: Callable[[int], Proxy],
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ie_serving.models.stream_rules.LONGEST_PAUSE_S", LONGEST_PAUSE_S)
    repository = S3Repository("s3", weed, proxied(weed.port), bucket, tmp_path / "cache")
    repository.put(f"1/{FILE}", b"{}")
    world = World(tmp_path)
    world.poll_s = POLL_S
    world.storages["m"] = lambda base: repository.storage

    async def test() -> None:
        stream = await started(world)
        with repository.proxy.outage():
            await until(stream, lambda: stream.trouble)
            for _ in range(1, FAILURES):
                await stream.changed()
            repository.put(f"2/{FILE}", b"{}")
            assert set(stream.available) == {1}
        await asyncio.wait_for(until(stream, lambda: 2 in stream.available), BACK_WITHIN_S)
        await stream.retire()

    asyncio.run(asyncio.wait_for(test(), PATIENCE_S))

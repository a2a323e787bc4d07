"""The configuration file is followed whatever one look at it comes to."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ie_serving.config.files import watch
from ie_serving.config.files.watch import ConfigWatch
from ie_serving.models.configuration import ModelConfig

LIMIT_S = 10.0


async def test_a_system_without_a_thread_left_does_not_end_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a container at its limit of processes; the next look may find one."""
    file, applied, refusals = tmp_path / "models.json", asyncio.Event(), [2]
    file.write_text("old")

    async def apply(configs: Sequence[ModelConfig]) -> None:
        applied.set()

    async def short_of_threads(call: Callable[..., Any], *arguments: Any) -> Any:
        if refusals[0]:
            refusals[0] -= 1
            raise RuntimeError("can't start new thread")
        return call(*arguments)

    monkeypatch.setattr(watch.asyncio, "to_thread", short_of_threads)
    watching = ConfigWatch(file, lambda path: (), apply, poll_wait_s=0.001)
    file.write_text("new")
    task = asyncio.create_task(watching.run())
    try:
        await asyncio.wait_for(applied.wait(), LIMIT_S)
    finally:
        task.cancel()
    assert "configuration not applied" in caplog.text

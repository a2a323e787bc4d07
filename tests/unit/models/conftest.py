"""A model over a real directory, the stand-in engine, and time that passes quickly."""

import asyncio
import gc
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ie_serving.core.values.errors import NotFound
from ie_serving.core.values.requests import ModelSpec
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.listing.schedule import Polls
from ie_serving.models.manager import ModelManager
from ie_serving.models.repository.source import VersionSource
from ie_serving.models.stream import ModelStream
from ie_serving.models.stream_rules import LoadOnDemand, StreamRules
from ie_serving.models.version.handle import Servable
from ie_serving.models.version.loader import Loader
from ie_serving.storage.backends.local import LocalStorage
from ie_serving.storage.base import Storage
from tests.stand_in_engine import FILE, StandInEngine
from tests.unit.models.stand_ins import Stand

POLL_S = 0.01
LIMIT_S = 10.0


class World:
    """A repository on disk, an engine, and the models opened on them."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.engine = StandInEngine()
        self.executor = ThreadPoolExecutor(4)
        self.polls = Polls(lambda store: self.executor)
        self.warmed: list[int] = []
        self.applied = asyncio.Event()
        """Set whenever a manager has changed what is desired or served."""
        self.poll_s = POLL_S
        self.labels_wait = True
        self.drain_timeout_s = LIMIT_S
        self.load_timeout_s = 0.0
        self.on_demand: LoadOnDemand | None = None
        self.storages: dict[str, Callable[[str], Storage]] = {}
        self._streams: list[ModelStream] = []
        self._managers: list[ModelManager] = []

    async def end(self) -> None:
        """Close what the test has opened and left open."""
        for manager in self._managers:
            await manager.close()
        for stream in self._streams:
            if not stream.is_retired:
                await stream.retire()
        self.executor.shutdown()

    def write(self, version: int, *, model: str = "m", **description: object) -> Path:
        """Put a version in place in one step, older than any poll interval."""
        beside = self.base / f"{model}.{version}.tmp"
        beside.mkdir(parents=True)
        path = beside / FILE
        path.write_text(json.dumps(description))
        os.utime(path, (1, 1))
        target = self.base / model / str(version)
        target.parent.mkdir(exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        beside.rename(target)
        return target

    def remove(self, version: int, model: str = "m") -> None:
        shutil.rmtree(self.base / model / str(version))

    async def warm_up(self, servable: Servable, directory: Path) -> None:
        self.warmed.append(servable.version)

    def config(self, name: str = "m", **fields: object) -> ModelConfig:
        return ModelConfig(name=name, base_path=str(self.base / name), **fields)  # type: ignore[arg-type]

    def open_stream(self, config: ModelConfig) -> ModelStream:
        storage = self.storages.get(config.name, LocalStorage)(config.base_path)
        stream = ModelStream(
            config.name,
            VersionSource(storage, self.engine, rest_s=self.poll_s, unload_when_empty=True),
            lambda: Loader(
                config.name,
                storage,
                self.engine,
                config.engine,
                self.warm_up,
                self.executor,
                self.executor,
            ),
            self.polls,
            store="file",
            policy=config.version_policy,
            labels=config.version_labels,
            rules=StreamRules(
                labels_wait=self.labels_wait,
                poll_wait_s=self.poll_s,
                drain_timeout_s=self.drain_timeout_s,
                load_timeout_s=self.load_timeout_s,
                on_demand=self.on_demand,
            ),
        )
        self._streams.append(stream)
        return stream

    def manager(self, **options: Any) -> ModelManager:
        names = ("labels_for_unavailable", "allow_unavailable_models", "require_available")
        defaults = dict.fromkeys(names, False)
        options = {**defaults, **options, "on_applied": self.applied.set}
        self._managers.append(ModelManager(self.open_stream, **options))
        return self._managers[-1]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    (tmp_path / "m").mkdir()
    world = World(tmp_path)
    yield world
    await world.end()


@pytest.fixture
async def stand(tmp_path: Path) -> Stand:
    return Stand(tmp_path)


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Only reference counts free memory meanwhile."""
    gc.disable()
    yield
    gc.enable()


async def until(stream: ModelStream, holds: Callable[[], object]) -> None:
    """Wait until `holds`, looking after each change of the stream."""
    while not holds():
        await stream.changed()


async def managed(world: World, *configs: ModelConfig, **options: Any) -> ModelManager:
    manager = world.manager(**options)
    await manager.start(configs or [world.config()])
    return manager


async def serves(world: World, manager: ModelManager, spec: ModelSpec, version: int) -> None:
    """Wait until `spec` is answered by `version`, looking after each change."""
    while _answering(manager, spec) != version:
        entry = manager.served.entries.get(spec.name)
        changes = [world.applied.wait(), *([entry.stream.changed()] if entry else [])]
        waits = [asyncio.ensure_future(change) for change in changes]
        await asyncio.sleep(0)  # from here on no change is missed
        if _answering(manager, spec) != version:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        world.applied.clear()


def _answering(manager: ModelManager, spec: ModelSpec) -> int | None:
    try:
        return manager.served.handle(spec).version
    except NotFound:
        return None

"""The composition root on the stand-in engine: what it builds fits together."""

import ast
import asyncio
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag

import pytest

from ie_serving.app import application, engine_stack, repositories
from ie_serving.app.application import ServingApplication
from ie_serving.app.workers import Workers
from ie_serving.config.files.followed_config import FollowedConfig
from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.core.runtime.handover import Handover, Handovers
from ie_serving.core.values.errors import StorageError
from ie_serving.engines.drivers import Drivers
from ie_serving.models.configuration import ModelConfig
from ie_serving.server.process.deadly_loads import LoadNotes
from ie_serving.server.process.ports import BOTH, GRPC, REST
from ie_serving.storage.backends.local import LocalStorage
from ie_serving.storage.base import NEVER, Entry
from ie_serving.storage.options import StorageOptions
from tests.stand_in_engine import FILE, StandInEngine

PATIENCE_S = 10.0


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> StandInEngine:
    engine = StandInEngine()
    monkeypatch.setattr(engine_stack, "every", lambda drivers: Drivers([engine]))
    return engine


@pytest.fixture
def version(tmp_path: Path) -> Path:
    """Version 1 of a model, at rest since long ago."""
    directory = tmp_path / "m" / "1"
    directory.mkdir(parents=True)
    path = directory / FILE
    path.write_text(json.dumps({"value": 2}))
    os.utime(path, (1, 1))
    return directory


@pytest.fixture
async def built(version: Path, engine: StandInEngine, tmp_path: Path) -> ServingApplication:
    return build(version, tmp_path)


def build(version: Path, tmp_path: Path) -> ServingApplication:
    model = ModelConfig(name="m", base_path=str(version.parent))
    settings = Settings(server=ServerSettings(poll_wait_s=0), models=(model,))
    storage = StorageOptions(cache_dir=tmp_path / "cache")
    return ServingApplication(
        settings,
        storage,
        Handovers(*(Handover() for _ in Handovers._fields)),
        LoadNotes({}, Handover().write),
        Workers(),
    )


async def test_it_loads_at_the_start_and_leaves_memory_to_the_end_of_the_process(
    built: ServingApplication, engine: StandInEngine
) -> None:
    await built.start()
    assert built.model_names() == ["m"]
    assert [model.closed for model in engine.models] == [False]
    await built.reload()
    await built.close(PATIENCE_S)
    assert [model.closed for model in engine.models] == [False]


class GatedStorage(LocalStorage):
    """Gives a copy when the test says so.

    Attributes:
        asked: set when a copy is asked for.
        gate: the test sets it.
    """

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.asked, self.gate = Flag(), Flag()

    @contextmanager
    def copy(
        self, directory: str, entries: tuple[Entry, ...], given_up: Flag = NEVER
    ) -> Iterator[Path]:
        self.asked.set()
        assert self.gate.wait(PATIENCE_S)
        with super().copy(directory, entries) as path:
            yield path


async def test_a_copy_that_is_ready_when_the_server_stops_is_no_defect(
    built: ServingApplication,
    version: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The threads that would compile it are gone by then."""
    storage = GatedStorage(version.parent)
    monkeypatch.setattr(repositories, "open_storage", lambda *of_url: storage)
    starting = asyncio.create_task(built.start())
    assert await asyncio.to_thread(storage.asked.wait, PATIENCE_S)
    loads = [task for task in asyncio.all_tasks() if "ModelStream._follow" in repr(task.get_coro())]
    starting.cancel()
    await built.close(PATIENCE_S)
    storage.gate.set()
    _, pending = await asyncio.wait(loads, timeout=PATIENCE_S)
    assert not pending
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_part_that_fails_to_close_keeps_no_other_open(
    version: Path, engine: StandInEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("the file is stuck")

    monkeypatch.setattr(FollowedConfig, "close", fail)
    built = build(version, tmp_path)
    await built.start()
    with pytest.raises(RuntimeError, match="the file is stuck"):
        await built.close(PATIENCE_S)
    with pytest.raises(RuntimeError, match="after shutdown"):
        built.loads.submit(int)


async def test_each_port_has_a_listener(built: ServingApplication) -> None:
    await built.start()
    listeners = built.listeners()
    assert set(listeners) == {REST, GRPC, BOTH}
    for make in listeners.values():
        await make()().drain(0)
    await built.set_ready(True)
    await built.set_ready(False)
    await built.close(PATIENCE_S)


async def test_a_start_that_fails_can_be_closed(
    built: ServingApplication, version: Path, engine: StandInEngine
) -> None:
    (version / FILE).unlink()
    version.rmdir()
    version.parent.rmdir()
    version.parent.write_text("")  # a file cannot be listed; what is missing would be waited for
    with pytest.raises(StorageError):
        await built.start()
    await built.close(PATIENCE_S)


def test_it_holds_no_logic() -> None:
    """It names classes and puts them together; each decision has a module of its own."""
    decisions = (ast.If, ast.IfExp, ast.BoolOp, ast.Compare, ast.While, ast.Try, ast.Match)
    tree = ast.parse(Path(application.__file__).read_text())
    found = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, decisions)]
    assert found == []

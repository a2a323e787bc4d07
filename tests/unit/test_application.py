"""The composition root on the stand-in engine: what it builds fits together."""

import ast
import json
import os
from pathlib import Path

import pytest

from ie_serving import application
from ie_serving.application import ServingApplication
from ie_serving.config.settings import ModelConfig, ServerSettings, Settings
from ie_serving.core.errors import StorageError
from ie_serving.engines.testing import FILE, StandInEngine
from ie_serving.server.process.deadly_loads import LoadNotes
from ie_serving.server.process.handover import Handover
from ie_serving.server.process.ports import GRPC, REST
from ie_serving.storage.options import StorageOptions


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> StandInEngine:
    engine = StandInEngine()
    monkeypatch.setattr(application, "Drivers", lambda drivers: engine)
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
    model = ModelConfig(name="m", base_path=str(version.parent))
    settings = Settings(server=ServerSettings(poll_wait_s=0), models=(model,))
    storage = StorageOptions(cache_dir=tmp_path / "cache")
    return ServingApplication(settings, storage, Handover(), LoadNotes({}, Handover().write))


async def test_it_loads_at_the_start_and_leaves_memory_to_the_end_of_the_process(
    built: ServingApplication, engine: StandInEngine
) -> None:
    await built.start()
    assert built.model_names() == ["m"]
    assert [model.closed for model in engine.models] == [False]
    await built.reload()
    await built.close()
    assert [model.closed for model in engine.models] == [False]


async def test_each_port_has_a_listener(built: ServingApplication) -> None:
    await built.start()
    listeners = built.listeners()
    assert set(listeners) == {REST, GRPC}
    for make in listeners.values():
        await make()().drain(0)
    await built.set_ready(True)
    await built.set_ready(False)
    await built.close()


async def test_a_start_that_fails_can_be_closed(
    built: ServingApplication, version: Path, engine: StandInEngine
) -> None:
    (version / FILE).unlink()
    version.rmdir()
    version.parent.rmdir()
    version.parent.write_text("")  # a file cannot be listed; what is missing would be waited for
    with pytest.raises(StorageError):
        await built.start()
    await built.close()


def test_it_holds_no_logic() -> None:
    """It names classes and puts them together; whoever decides anything has a module of its own."""
    decisions = (ast.If, ast.IfExp, ast.BoolOp, ast.Compare, ast.While, ast.Try, ast.Match)
    tree = ast.parse(Path(application.__file__).read_text())
    found = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, decisions)]
    assert found == []

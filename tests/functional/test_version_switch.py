"""New versions appear and old ones go under load from both interfaces: not one failed request."""

import shutil
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.functional.conftest import Serve
from tests.functional.load import AVAILABLE, END, LOADING, Load, failure, states
from tests.functional.servers import SAMPLE, config_flag
from tests.process import until

MEMORY_SLACK = 40 * 2**20
ANSWERS = 25
"""Over each interface, before and after what changes."""


def put(repository: Path, version: int, source: int, *, broken: bool = False) -> None:
    """Copy a version in, as a user does it: files appear one after the other."""
    target = repository / str(version)
    target.mkdir(exist_ok=True)
    for name in ("model.xml", "model.bin"):
        shutil.copy(SAMPLE / str(source) / name, target / name)
    if broken:
        (target / "model.xml").write_text("<net>not a model</net>")


def configure(path: Path, repository: Path, policy: dict[str, Any]) -> None:
    model = {"name": "digits", "base_path": str(repository), "model_version_policy": policy}
    config_flag(path, model)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    base = tmp_path / "digits"
    base.mkdir()
    for version in (1, 2):
        put(base, version, version)
    return base


def test_versions_come_and_go_under_load(serve: Serve, tmp_path: Path, repository: Path) -> None:
    config = tmp_path / "config.json"
    configure(config, repository, {"latest": {"num_versions": 1}})
    server = serve("ie_serving", "config", f"--config_path={config}")
    worker = psutil.Process(server.pids()[-1])
    with Load(server) as load:
        until(lambda: min(load.answers.values()) > ANSWERS)
        before = worker.memory_info().rss
        put(repository, 3, 1)
        until(lambda: states(server) == {2: END, 3: AVAILABLE})
        put(repository, 4, 2, broken=True)
        until(lambda: states(server).get(4) == LOADING and failure(server, 4) != "")
        assert "Error occurred while loading version" in failure(server, 4)
        assert states(server)[3] == AVAILABLE
        put(repository, 4, 2)
        until(lambda: states(server) == {2: END, 3: END, 4: AVAILABLE})
        shutil.rmtree(repository / "3")
        configure(config, repository, {"all": {}})
        until(lambda: states(server) == {1: AVAILABLE, 2: AVAILABLE, 3: END, 4: AVAILABLE})
        configure(config, repository, {"specific": {"versions": [1]}})
        until(lambda: states(server) == {1: AVAILABLE, 2: END, 3: END, 4: END})
        answered = dict(load.answers)
        until(lambda: all(load.answers[name] > answered[name] + ANSWERS for name in answered))
        assert worker.memory_info().rss < before + MEMORY_SLACK
    assert load.failures == []


def test_files_of_a_served_version_may_be_overwritten_and_truncated(
    serve: Serve, repository: Path
) -> None:
    server = serve("ie_serving", "model", "--model_name=digits", f"--model_path={repository}")
    with Load(server) as load:
        until(lambda: min(load.answers.values()) > ANSWERS)
        weights = repository / "2" / "model.bin"
        with weights.open("r+b") as file:
            file.write(b"\xff" * weights.stat().st_size)
        with weights.open("r+b") as file:
            file.truncate(0)
        (repository / "2" / "model.xml").write_text("")
        answered = dict(load.answers)
        until(lambda: all(load.answers[name] > answered[name] + 2 * ANSWERS for name in answered))
    assert load.failures == []
    assert server.popen.poll() is None

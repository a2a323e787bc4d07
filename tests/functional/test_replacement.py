"""A worker that replaces one which died serves at least what that one did. Real processes."""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ie_serving.core.values.errors import WHOLE
from tests.functional.load import AVAILABLE, LOADING, states
from tests.functional.servers import READY, SAMPLE, Server, config_flag
from tests.functional.storage.serving import serves, several
from tests.functional.test_reload import BODY, listed, reload
from tests.functional.test_slow_loads import OFTEN, put
from tests.functional.test_slow_loads import SCRIPT as GATED
from tests.functional.tiny import Gate
from tests.process import until


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "models.config"


@pytest.fixture
def server(config: Path) -> Iterator[Server]:
    config.write_text(listed(digits=SAMPLE))
    with Server(
        "tensorflow_model_server",
        f"--model_config_file={config}",
        "--model_config_file_poll_wait_seconds=1",
    ) as server:
        yield server.ready()


def replaced(server: Server) -> None:
    """Kill the worker, and wait for the one that replaces it."""
    kill(server)
    server.line(READY)


def answers(server: Server, model: str) -> bool:
    return server.rest.post(f"/v1/models/{model}:predict", json=BODY).is_success


def test_models_by_rpc_outlive_their_worker_until_the_file_changes(
    server: Server, config: Path
) -> None:
    reload(server, listed(by_rpc=SAMPLE))
    replaced(server)
    assert answers(server, "by_rpc")
    assert not answers(server, "digits")
    config.write_text(listed(by_file=SAMPLE))
    server.line("configuration applied models=by_file")
    until(lambda: answers(server, "by_file"))


def test_a_broken_edit_and_a_file_that_vanished_stop_no_replacement(
    server: Server, config: Path
) -> None:
    config.write_text(listed(digits=SAMPLE, second=SAMPLE))
    server.line("configuration applied models=digits,second")
    until(lambda: answers(server, "second"))
    config.write_text("model_config_list { config {")
    server.line("configuration not applied")
    replaced(server)
    assert answers(server, "second")
    config.unlink()
    server.line("configuration not applied .*cannot be read")
    replaced(server)
    assert answers(server, "second")


def test_one_models_fault_stays_with_that_model_in_a_replacement(
    server: Server, config: Path, tmp_path: Path
) -> None:
    """A base path that vanished, a label without its version, a store that is not set up."""
    shutil.copytree(SAMPLE, tmp_path / "gone")
    label = 'version_labels { key: "later" value: 9 }'
    config.write_text(
        f"{listed(labels=label, digits=SAMPLE, gone=tmp_path / 'gone')}".replace(
            "model_config_list {",
            'model_config_list { config { name: "cloud" base_path: "minio://bucket/models"'
            ' model_platform: "tensorflow" }',
        )
    )
    until(lambda: answers(server, "gone"))
    shutil.rmtree(tmp_path / "gone")
    replaced(server)
    assert answers(server, "digits")
    assert not answers(server, "gone")
    for model, cause in (("gone", "no such directory"), ("cloud", "MINIO_ENDPOINT")):
        assert cause in server.rest.get(f"/v1/models/{model}").headers[WHOLE]


def test_a_predecessor_serves_in_the_replacement_too(
    server: Server, config: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(SAMPLE / "1", moved / "7")
    (moved / "7" / "model.xml").write_text("<net/>")
    config.write_text(listed(digits=moved))
    server.line("configuration applied models=digits")
    server.line("version failed to load model=digits version=7")
    replaced(server)
    assert answers(server, "digits")
    shutil.copytree(SAMPLE / "1", moved / "8")
    server.line("version state changed model=digits version=8 state=AVAILABLE")
    assert answers(server, "digits")


@pytest.fixture
def begin() -> Iterator[Callable[..., Server]]:
    """Start a server whose loads a gate may hold."""
    with ExitStack() as stack:

        def _begin(*arguments: str) -> Server:
            server = Server(sys.executable, str(GATED), *arguments, OFTEN)
            stack.callback(server.close)
            return server.ready()

        yield _begin


def test_a_replaced_worker_serves_the_old_before_it_loads_the_new(
    begin: Callable[..., Server], gate: Gate, tmp_path: Path
) -> None:
    """A newer version, another place and a new model load when the worker is killed, twice."""
    base, moved = put(tmp_path / "m", 1), put(tmp_path / "moved", 7, gate)
    file, models = tmp_path / "config.json", {"digits": str(base)}
    server = begin(*several(file, models), "--config_poll_wait_seconds=0.2")
    put(base, 2, gate)
    until(lambda: states(server) == {1: AVAILABLE, 2: LOADING})
    several(file, {"digits": str(moved), "new": str(moved)})
    server.line("configuration applied models=digits,new")
    kill(server)
    server.line("model configured")
    replaced(server)  # before the first replacement has come to what the file says
    assert states(server)[1] == AVAILABLE
    gate.open(100)
    until(lambda: serves(server, 7) and serves(server, 7, "new"))


def kill(server: Server) -> None:
    """Kill the worker, and wait until the arbiter knows."""
    _, worker = server.pids()
    os.kill(worker, signal.SIGKILL)
    server.line("worker ended and is replaced")


def test_it_is_not_ready_before_every_model_has_served(tmp_path: Path) -> None:
    """Else a rollout would replace every good pod by an empty one."""
    models = [{"name": "digits", "base_path": str(SAMPLE)}]
    models.append({"name": "empty", "base_path": str(tmp_path / "empty")})
    (tmp_path / "empty").mkdir()
    with Server("ie_serving", "config", config_flag(tmp_path / "c.json", *models)) as server:
        server.ready()
        assert answers(server, "digits")
        probe = server.rest.get("/v2/health/ready")
        assert probe.status_code == 503
        assert "connection" not in probe.headers, "clients of the other models keep theirs"
        shutil.copytree(SAMPLE / "1", tmp_path / "empty" / "1")
        until(lambda: server.rest.get("/v2/health/ready").status_code == 200)
        assert answers(server, "empty")

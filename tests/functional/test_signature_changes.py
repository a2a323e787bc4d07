"""A version that breaks clients of the one that serves is held back, or told in the log."""

import os
import signal
from pathlib import Path

import pytest

from tests.functional.conftest import Serve
from tests.functional.graph_models import times_version
from tests.functional.servers import Server, config_flag
from tests.process import until

FLAGS = ("--file_system_poll_wait_seconds=0.1",)


def write(base: Path, version: int, name: str) -> None:
    """Write a version in one step: y is the input of this name, times the version's number."""
    times_version(base, version, name).rename(base / str(version))


def serving(serve: Serve, base: Path, *flags: str, **keys: str) -> Server:
    return serve("ie_serving", "config", configure(base, **keys), *FLAGS, *flags)


def configure(base: Path, **keys: str) -> str:
    entry = {"name": "m", "base_path": str(base), **keys}
    return config_flag(base.parent / "config.json", entry)


def message(server: Server) -> str:
    """Give the message of the newest version's status."""
    found = server.rest.get("/v1/models/m").json()["model_version_status"][0]
    return str(found["status"]["error_message"])


def answer(server: Server, name: str) -> object:
    reply = server.rest.post("/v1/models/m:predict", json={"inputs": {name: [[1.0, 2.0]]}})
    return reply.json().get("outputs", reply.status_code)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "m").mkdir()
    write(tmp_path / "m", 1, "x")
    return tmp_path / "m"


def test_it_is_held_back_with_the_reason(serve: Serve, base: Path) -> None:
    server = serving(serve, base, signature_changes="refuse")
    write(base, 2, "z")
    said = 'clients of version 1 would fail: signature "serving_default": input "x" is gone'
    until(lambda: said in message(server))
    assert answer(server, "x") == [[1.0, 2.0]]
    write(base, 3, "x")  # what does not break anything goes on
    until(lambda: answer(server, "x") == [[3.0, 6.0]])


def test_it_is_tried_again_when_the_setting_changes_and_not_before(
    serve: Serve, base: Path
) -> None:
    server = serving(serve, base, signature_changes="refuse")
    write(base, 2, "z")
    line = server.line("version failed to load")
    assert "set signature_changes in the configuration file to allow" in line
    assert "next_try_s" not in line
    configure(base)
    server.send(signal.SIGHUP)
    until(lambda: answer(server, "z") == [[2.0, 4.0]])


def test_the_file_of_a_directory_of_models_is_named(serve: Serve, base: Path) -> None:
    (base / "model.json").write_text('{"signature_changes": "refuse"}')
    server = serve("ie_serving", "config", f"--model_repository={base.parent}", *FLAGS)
    write(base, 2, "z")
    until(lambda: f"set signature_changes to allow in {base}/model.json" in message(server))
    (base / "model.json").write_text('{"signature_changes": "allow"}')
    until(lambda: answer(server, "z") == [[2.0, 4.0]])


def test_other_files_under_the_same_number_are_compared_as_well(serve: Serve, base: Path) -> None:
    server = serving(serve, base, "--reload_changed_versions", signature_changes="refuse")
    times_version(base, 2, "z").rename(base.parent / "new")
    (base / "1").rename(base.parent / "old")
    (base.parent / "new").rename(base / "1")
    server.send(signal.SIGHUP)
    line = server.line("version failed to load")
    assert 'clients of version 1 would fail: signature \\"serving_default\\": input' in line
    assert answer(server, "x") == [[1.0, 2.0]]
    assert "clients of version 1 would fail" in message(server)
    assert "reload_changed_versions" not in message(server), "it is set already"
    configure(base)
    server.send(signal.SIGHUP)
    until(lambda: answer(server, "z") == [[2.0, 4.0]])


@pytest.mark.parametrize(("name", "code"), [("x", 201), ("z", 500)], ids=["fits", "breaks"])
def test_a_reload_answers_when_other_files_serve_or_are_held_back(
    serve: Serve, base: Path, name: str, code: int
) -> None:
    flags = ("--reload_changed_versions", "--file_system_poll_wait_seconds=60")
    server = serving(serve, base, *flags, signature_changes="refuse")
    times_version(base, 2, name).rename(base.parent / "new")
    for file in (base.parent / "new").iterdir():
        os.utime(file, (1.0, 1.0))
    (base / "1").rename(base.parent / "old")
    (base.parent / "new").rename(base / "1")
    reply = server.rest.post("/v1/config/reload")
    assert reply.status_code == code
    assert answer(server, "x") == [[2.0, 4.0] if name == "x" else [1.0, 2.0]]
    if code == 500:
        assert "clients of version 1 would fail" in reply.json()["error"]


def test_by_default_it_serves_and_the_log_names_the_change(serve: Serve, base: Path) -> None:
    server = serving(serve, base)
    write(base, 2, "z")
    until(lambda: answer(server, "z") == [[2.0, 4.0]])
    line = server.line("signatures have changed")
    assert "before=1" in line
    assert 'input \\"x\\" is gone' in line or 'input "x" is gone' in line


def test_a_model_that_is_not_in_memory_is_compared_as_well(serve: Serve, base: Path) -> None:
    idle = ("--load=on_demand", "--idle_unload_timeout_seconds=0.5")
    server = serving(serve, base, *idle, signature_changes="refuse")
    assert answer(server, "x") == [[1.0, 2.0]]
    until(lambda: "not loaded" in message(server))
    write(base, 2, "z")
    until(lambda: len(server.rest.get("/v1/models/m").json()["model_version_status"]) == 2)
    until(lambda: answer(server, "x") == [[1.0, 2.0]])
    assert 'would fail: signature "serving_default": input "x" is gone' in message(server)

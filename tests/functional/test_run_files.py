"""Commands find the servers that their user runs on this machine, and no other user's."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ie_serving.core.runtime.run_files import running
from tests.functional.commands import Ran, ie_serving
from tests.functional.servers import SAMPLE_FLAGS, Server
from tests.process import PATIENCE_S

Found = Callable[..., Ran]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def environ(place: Path) -> dict[str, str]:
    place.mkdir()
    return {"XDG_RUNTIME_DIR": str(place)}


@pytest.fixture
def serve(environ: dict[str, str]) -> Iterator[Callable[..., Server]]:
    with ExitStack() as stack:

        def start(*flags: str) -> Server:
            flags = (*SAMPLE_FLAGS, *flags)
            server = Server("ie_serving", "model", *flags, env=environ)
            stack.callback(server.close)
            return server.ready()

        yield start


@pytest.fixture(autouse=True)
def no_other_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Servers of other tests run meanwhile: they note themselves in the shared place."""
    own = running.__globals__["directories"]
    monkeypatch.setitem(running.__globals__, "directories", lambda environ: own(environ)[:1])


@pytest.mark.parametrize("flags", [(), ("--workers=2",), ("--host=127.0.0.1",)])
def test_a_command_finds_the_server_without_an_address(
    serve: Callable[..., Server], environ: dict[str, str], place: Path, flags: tuple[str, ...]
) -> None:
    server = serve(*flags)
    ran = ie_serving("status", env=environ)
    assert ran.code == 0, ran.err
    assert "AVAILABLE" in ran.out
    (note,) = (place / "ie_serving").iterdir()
    assert note.stat().st_mode & 0o777 == 0o600
    assert note.parent.stat().st_mode & 0o777 == 0o700
    assert server.stop() == 0
    assert not [*note.parent.iterdir()], "removed at the end"


def test_several_servers_are_listed(serve: Callable[..., Server], environ: dict[str, str]) -> None:
    servers = [serve(), serve()]
    ran = ie_serving("status", env=environ)
    assert ran.code == 2
    assert "2 servers run here, " in ran.err
    for each in servers:
        assert f"http://localhost:{each.rest_port} (process {each.popen.pid})" in ran.err
        address = f"localhost:{each.rest_port}"
        assert ie_serving("status", "--url", address, env=environ).code == 0


def test_a_server_that_was_killed_is_passed_over_and_its_note_goes(
    serve: Callable[..., Server], environ: dict[str, str], place: Path
) -> None:
    killed = serve()
    (note,) = (place / "ie_serving").iterdir()
    killed.kill()
    assert running(environ) == []
    serve()
    assert note not in (place / "ie_serving").iterdir()
    assert ie_serving("status", env=environ).code == 0


def test_a_note_of_a_number_that_another_process_got_is_passed_over(
    environ: dict[str, str], place: Path
) -> None:
    directory = place / "ie_serving"
    directory.mkdir(mode=0o700)
    note = {"started": "1", "rest": "http://localhost:1", "grpc": ""}
    (directory / f"{os.getpid()}.json").write_text(json.dumps(note))
    assert running(environ) == []


def test_a_directory_of_another_user_or_a_link_is_not_used(
    serve: Callable[..., Server], environ: dict[str, str], place: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (place / "ie_serving").symlink_to(elsewhere)
    serve()
    assert not [*elsewhere.iterdir()]
    (place / "ie_serving").unlink()
    elsewhere.chmod(0o777)
    elsewhere.rename(place / "ie_serving")
    assert running(environ) == []


def test_a_place_that_takes_no_note_costs_no_warning(
    serve: Callable[..., Server], environ: dict[str, str], place: Path
) -> None:
    (place / "ie_serving").touch()
    server = serve()
    assert "WARNING" not in server.log
    assert server.stop() == 0


def test_without_a_server_the_documented_address_is_asked(environ: dict[str, str]) -> None:
    ran = ie_serving("status", "--timeout_seconds", str(PATIENCE_S), env=environ)
    assert "http://localhost:8000" in ran.err or ran.code == 0

"""A version whose load kills the process costs two restarts, and then itself alone."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.functional.load import AVAILABLE, LOADING, failure, states
from tests.functional.servers import SAMPLE, Server
from tests.functional.storage.serving import several
from tests.process import until

SCRIPT = Path(__file__).with_name("deadly_server.py")
WAITS = "its load has ended the server's process 2 times"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A repository with version 1 of the sample."""
    shutil.copytree(SAMPLE / "1", tmp_path / "m" / "1")
    return tmp_path / "m"


@pytest.fixture
def server(base: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    """Two models, of which `m` may get a deadly version."""
    if request.param == "from the start":
        put_deadly(base, 2)
    models = several(tmp_path / "config.json", {"digits": str(SAMPLE), "m": str(base)})
    flags = ("--file_system_poll_wait_seconds=0.2",)
    with Server(sys.executable, str(SCRIPT), *models, *flags) as server:
        server.ready()
        if request.param == "later":
            put_deadly(base, 2)
            server.line("worker died while versions were loading.*m/2@")
        yield server


def put_deadly(base: Path, version: int) -> None:
    beside = base.parent / "beside"
    shutil.copytree(SAMPLE / "1", beside)
    (beside / "deadly").touch()
    beside.rename(base / str(version))


@pytest.mark.parametrize("server", ["from the start", "later"], indirect=True)
def test_after_the_second_death_it_waits_and_the_rest_serves(server: Server) -> None:
    until(lambda: WAITS in _failure(server))
    until(lambda: states(server, "m") == {1: AVAILABLE, 2: LOADING})
    until(lambda: AVAILABLE in states(server, "digits").values())
    assert server.log.count("worker died while versions were loading") == 2
    assert server.log.count("worker ended and is replaced") == 2


def _failure(server: Server) -> str:
    """Why version 2 does not load; empty while the worker is replaced."""
    try:
        return failure(server, 2, "m")
    except (httpx.HTTPError, KeyError):
        return ""

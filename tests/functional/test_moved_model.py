"""What the log tells of a model that moves to another place, and of its versions."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.load import AVAILABLE, Load, states
from tests.functional.servers import SAMPLE, Server
from tests.functional.storage.serving import several
from tests.process import until

OFTEN = ("--file_system_poll_wait_seconds=0.2", "--config_poll_wait_seconds=0.2")

OF_A_VERSION = re.compile(r" - ie_serving\.models\.\S+ - \w+ - .* model=digits .*version=")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return put(tmp_path / "here", 1)


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Where the model is to move: to a version that does not load."""
    base = put(tmp_path / "there", 7)
    (base / "7" / "model.xml").write_text("<net/>")
    return base


@pytest.fixture
def server(here: Path, tmp_path: Path) -> Iterator[Server]:
    file = several(tmp_path / "config.json", {"digits": str(here)})
    with Server("ie_serving", *file, *OFTEN, "--metrics_path=/metrics") as server:
        yield server.ready()


def put(base: Path, version: int) -> Path:
    beside = base.parent / "beside"
    shutil.copytree(SAMPLE / "1", beside)
    base.mkdir(exist_ok=True)
    beside.rename(base / str(version))
    return base


def given_up(version: int, base: Path, cause: str) -> str:
    return f'version given up model=digits version={version} base_path={base} cause="{cause}"'


def test_of_two_places_the_log_says_which_one_speaks_and_why_versions_go(
    server: Server, here: Path, there: Path, tmp_path: Path
) -> None:
    with Load(server) as load:
        several(tmp_path / "config.json", {"digits": str(there)})
        server.line(f"version failed to load model=digits version=7 base_path={there} attempt=1")
        put(here, 2)
        server.line(given_up(1, here, "version 2 replaces it"))
        put(there, 8)
        server.line(given_up(2, here, "its model was removed or replaced"))
        put(there, 9)
        server.line(f"version loaded model=digits version=9 .*base_path={there}$")
        until(lambda: states(server)[9] == AVAILABLE)
        shutil.rmtree(there / "9")
        server.line(given_up(9, there, "it vanished from the repository"))
    assert load.failures == []
    lines = [line for line in server.lines if OF_A_VERSION.search(line)]
    assert [line for line in lines if "base_path=" not in line] == []

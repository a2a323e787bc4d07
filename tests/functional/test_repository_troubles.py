"""Repositories of which a part is broken, or all is gone for a while: what served, serves."""

import shutil
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.functional.load import AVAILABLE, Load, failure, states
from tests.functional.servers import SAMPLE, Server
from tests.process import until


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A repository with version 1."""
    shutil.copytree(SAMPLE / "1", tmp_path / "digits" / "1")
    return tmp_path / "digits"


def arguments(base: Path, *more: str) -> tuple[str, ...]:
    model = ("model", "--model_name=digits", f"--model_path={base}")
    return (*model, "--file_system_poll_wait_seconds=0.3", *more)


def a_link_onto_itself(version: Path) -> None:
    version.symlink_to(version.name)


def a_hundred_directories(version: Path) -> None:
    deepest = version
    for _ in range(100):
        deepest = deepest / "d"
    deepest.mkdir(parents=True)


def a_broken_model(version: Path) -> None:
    shutil.copytree(SAMPLE / "2", version)
    (version / "model.xml").write_text("<net")


@pytest.mark.parametrize(
    ("spoil", "phrase"),
    [
        pytest.param(a_link_onto_itself, "symbolic links", id="a link onto itself"),
        pytest.param(a_hundred_directories, "deep in each other", id="directories in each other"),
        pytest.param(a_broken_model, "model.xml", id="a broken model"),
    ],
)
def test_a_start_beside_a_broken_newest_version_serves_the_one_below(
    base: Path, spoil: Callable[[Path], None], phrase: str
) -> None:
    """As a running server does; and it is ready, so that a rollout goes on."""
    spoil(base / "2")
    server = Server("ie_serving", *arguments(base))
    try:
        server.ready()
        assert states(server)[1] == AVAILABLE
        assert phrase in failure(server, 2)
        assert server.rest.get("/v2/health/ready").status_code == 200
    finally:
        server.close()


def test_a_volume_that_is_unmounted_unloads_nothing_unless_that_is_asked_for(
    base: Path, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    server = Server("ie_serving", *arguments(base, "--metrics_path=/metrics"))
    try:
        server.ready()
        with Load(server) as load:
            (base / "1").rename(away)
            server.line("ERROR - listing failed, served versions stay model=digits")
            assert ":ie_serving:listing_failures" in server.rest.get("/metrics").text
            away.rename(base / "1")
            server.line("listing works again model=digits")
        assert load.failures == []
    finally:
        server.close()


def test_an_emptied_repository_is_believed_when_that_is_asked_for(
    base: Path, tmp_path: Path
) -> None:
    server = Server("ie_serving", *arguments(base, "--unload_when_empty"))
    try:
        server.ready()
        (base / "1").rename(tmp_path / "away")
        ready = f"{server.url}/v2/models/digits/ready"
        until(lambda: httpx.get(ready, trust_env=False).status_code != 200)
    finally:
        server.close()

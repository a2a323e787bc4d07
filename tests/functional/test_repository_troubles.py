"""Repositories of which a part is broken, or all is gone for a while: what served, serves."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from subprocess import run

import httpx
import pytest

from tests.functional.commands import ie_serving
from tests.functional.load import AVAILABLE, LOADING, Load, failure, states
from tests.functional.servers import PLAIN, SAMPLE, Server
from tests.process import COMMANDS, until

HELD_TO_RIGHTS = ("/usr/bin/env", "setpriv", "--bounding-set=-dac_override,-dac_read_search")
"""The beginning of a command that may read what the rights of files say, also as root."""


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
    with Server("ie_serving", *arguments(base)) as server:
        server.ready()
        assert states(server)[1] == AVAILABLE
        assert phrase in failure(server, 2)
        assert server.rest.get("/v2/health/ready").status_code == 200


@pytest.fixture
def held_to_rights() -> tuple[str, ...]:
    if os.geteuid():
        return ()
    if run((*HELD_TO_RIGHTS, "true"), check=False, capture_output=True).returncode:
        pytest.skip("root reads every directory here; test_stream_changes.py refuses a listing")
    return HELD_TO_RIGHTS


def test_directories_that_may_not_be_read_fail_alone_until_they_may(
    base: Path, held_to_rights: tuple[str, ...]
) -> None:
    """One below the version that serves, which no client asks, and one above it."""
    for version in (2, 3):
        shutil.copytree(SAMPLE / "1", base / str(version))
    for version in (1, 3):
        (base / str(version)).chmod(0)
    command = (*held_to_rights, str(COMMANDS / "ie_serving"), *arguments(base))
    with Server(*command) as server:
        server.ready()
        assert states(server) == {2: AVAILABLE, 3: LOADING}
        assert f"{base / '3'}: permission denied" in failure(server, 3)
        assert server.rest.get("/v2/health/ready").status_code == 200
        (base / "3").chmod(0o755)
        until(lambda: states(server)[3] == AVAILABLE)
    (base / "1").chmod(0o755)


def test_a_volume_that_is_unmounted_unloads_nothing_unless_that_is_asked_for(
    base: Path, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    with Server("ie_serving", *arguments(base, "--metrics_path=/metrics")) as server:
        server.ready()
        with Load(server) as load:
            (base / "1").rename(away)
            server.line("ERROR - listing failed, served versions stay model=digits")
            assert "ie_serving_listing_failures_total" in server.rest.get("/metrics").text
            away.rename(base / "1")
            server.line("listing works again model=digits")
        assert load.failures == []


def test_the_status_shows_the_cause_that_keeps_newer_files_from_serving(
    base: Path, tmp_path: Path
) -> None:
    """Else an operator who sees AVAILABLE takes what answers for what lies in storage."""
    file, away = tmp_path / "models.json", tmp_path / "away"
    good = json.dumps(
        {"model_config_list": [{"config": {"name": "digits", "base_path": str(base)}}]}
    )
    file.write_text(good)
    polls = ("--file_system_poll_wait_seconds=0.1", "--config_poll_wait_seconds=0.1")
    with Server("ie_serving", "config", f"--config_path={file}", *polls) as server:
        server.ready()

        def shown(*more: str) -> str:
            ran = ie_serving("status", *more, f"--url={server.url}")
            assert ran.code == 0
            return ran.out

        calm = shown()
        file.write_text("{")
        until(lambda: "configuration not applied" in shown())
        assert f"configuration not applied, the one before stays: {file}:1:2: not JSON" in shown()
        assert "configuration not applied" in shown("digits")
        assert f"{file}:1:2" in json.loads(shown("--json"))["configuration_not_applied"]
        file.write_text(good)
        until(lambda: "configuration not applied" not in shown())
        (base / "1").rename(away)
        until(lambda: "listing failed, served versions stay: " in shown())
        assert str(base) in shown()
        assert json.loads(shown("--json"))["models"]["digits"]["listing_failed"]
        away.rename(base / "1")
        until(lambda: "listing failed" not in shown())
        assert shown() == calm
        shutil.copy(SAMPLE / "2" / "model.bin", base / "1" / "model.bin")
        until(lambda: "files have changed since they were loaded" in shown())
        assert "upload a version of its own" in shown()


def test_each_of_several_workers_tells_that_the_file_is_not_applied(
    base: Path, tmp_path: Path
) -> None:
    """One of them polls the file, and any may be asked."""
    file = tmp_path / "models.json"
    entry = {"config": {"name": "digits", "base_path": str(base)}}
    good = json.dumps({"model_config_list": [entry]})
    file.write_text(good)
    flags = (f"--config_path={file}", "--workers=2", "--config_poll_wait_seconds=0.1")
    with Server("ie_serving", "config", *flags) as server:
        server.ready()

        def told() -> set[bool]:
            """Ask on connections that both workers get."""
            with ExitStack() as clients:
                asked = [
                    clients.enter_context(
                        httpx.Client(base_url=server.url, trust_env=False, verify=PLAIN)
                    )
                    for _ in range(20)
                ]
                pages = [client.get("/v1/config/details").json() for client in asked]
            return {bool(page["digits"]["configuration_not_applied"]) for page in pages}

        assert told() == {False}
        file.write_text("{")
        until(lambda: told() == {True})
        file.write_text(good)
        until(lambda: told() == {False})


def test_an_emptied_repository_is_believed_when_that_is_asked_for(
    base: Path, tmp_path: Path
) -> None:
    with Server("ie_serving", *arguments(base, "--unload_when_empty")) as server:
        server.ready()
        (base / "1").rename(tmp_path / "away")
        ready = f"{server.url}/v2/models/digits/ready"
        until(lambda: httpx.get(ready, trust_env=False, verify=PLAIN).status_code != 200)
        ran = ie_serving("status", f"--url={server.url}")
        assert "no version can be found: " in ran.out
        assert "stay" not in ran.out

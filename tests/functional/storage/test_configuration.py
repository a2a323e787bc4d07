"""Configuration files in a store: read as those on disk, and followed as they are."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.functional.load import AVAILABLE, states
from tests.functional.servers import SAMPLE, Server
from tests.functional.storage.repositories import AzureRepository, GcsRepository, S3Repository
from tests.functional.storage.servers import Azurite, FakeGcs, Proxy, Weed
from tests.functional.storage.serving import FILES, POLL_S, Launcher, Remote, serves
from tests.process import Process, until

OpenProxy = Callable[[int], Proxy]
POLLED = f"--config_poll_wait_seconds={POLL_S}"
STORES = ("s3", "minio", "gs", "az")


def kept(*stores: str) -> pytest.MarkDecorator:
    """Leave to `make soak` all other stores, of which `test_scenarios.py` reads files alike."""
    cases = [s if s in stores else pytest.param(s, marks=pytest.mark.soak) for s in STORES]
    return pytest.mark.parametrize("remote", cases, indirect=True)


@pytest.fixture
def remote(
    request: pytest.FixtureRequest, proxied: OpenProxy, bucket: str, launcher: Launcher
) -> Remote:
    """Models `a` and `b` in the directory of a configuration."""
    made: Remote
    unused = launcher.cache_dir.parent / "unused"
    if request.param == "gs":
        gcs: FakeGcs = request.getfixturevalue("fake_gcs")
        made = GcsRepository(gcs, proxied(gcs.port), bucket, unused)
    elif request.param == "az":
        azurite: Azurite = request.getfixturevalue("azurite")
        made = AzureRepository(azurite, proxied(azurite.port), bucket, unused)
    else:
        weed: Weed = request.getfixturevalue("weed")
        made = S3Repository(request.param, weed, proxied(weed.port), bucket, unused)
    for model in ("a", "b"):
        for name in FILES:
            made.put(f"{model}/1/{name}", (SAMPLE / "1" / name).read_bytes())
    launcher.environ |= made.environ
    return made


def write(remote: Remote, *models: str) -> str:
    """Put a configuration with these models, by relative paths; give its URL."""
    entries = [{"config": {"name": name, "base_path": name}} for name in models]
    remote.put("config.json", json.dumps({"model_config_list": entries}).encode())
    return f"{remote.storage.url}/config.json"


def put_text(remote: Remote, name: str, text: str) -> str:
    remote.put(name, text.encode())
    return f"{remote.storage.url}/{name}"


@kept("s3", "az")
def test_it_is_followed(remote: Remote, launcher: Launcher) -> None:
    """In the command line of OpenVINO Model Server; also through an outage and a broken edit."""
    server = launcher.serve(f"--config_path={write(remote, 'a')}", POLLED)
    assert serves(server, 1, "a")
    write(remote, "a", "b")
    until(lambda: serves(server, 1, "b"))
    remote.put("config.json", b"{")
    until(lambda: "configuration not applied" in server.log)
    with remote.proxy.outage():
        until(lambda: "cannot be read" in server.log)
        assert serves(server, 1, "b")
    write(remote, "b")
    until(lambda: states(server, "b") == {1: AVAILABLE} and not serves(server, 1, "a"))
    assert server.log.count("cannot be read") == 1


@kept("s3")
def test_a_poll_of_a_file_that_stays_is_one_listing(remote: Remote, launcher: Launcher) -> None:
    url = write(remote, "a")
    launcher.serve("config", f"--config_path={url}", POLLED)
    begun = len(remote.proxy.requests)

    def asked() -> list[str]:
        return [line for line in remote.proxy.requests[begun:] if "config.json" in line]

    until(lambda: len(asked()) >= 3)
    assert [line for line in asked() if "prefix=" not in line] == []


@kept("gs")
def test_several_workers_follow_a_file_in_a_store(remote: Remote, launcher: Launcher) -> None:
    """Forked processes, each with its own connections."""
    url = write(remote, "a")
    server = launcher.serve("config", f"--config_path={url}", POLLED, "--workers=2")
    write(remote, "a", "b")
    until(lambda: serves(server, 1, "b"))


@pytest.fixture
def original(launcher: Launcher) -> Iterator[Callable[..., Server]]:
    """Starts `tensorflow_model_server`."""
    started: list[Server] = []

    def start(*flags: str) -> Server:
        server = Server("tensorflow_model_server", *flags, env=launcher.environ)
        started.append(server)
        return server

    yield start
    for server in started:
        server.close()


@kept("minio")
def test_files_of_tensorflow_serving_are_followed_in_a_store(
    remote: Remote, original: Callable[..., Server]
) -> None:
    def models(*names: str) -> str:
        entries = (
            f'config {{ name: "{name}" base_path: "{remote.storage.url}/{name}" '
            'model_platform: "tensorflow" }'
            for name in names
        )
        return f"model_config_list {{ {' '.join(entries)} }}"

    prometheus = 'prometheus_config { enable: true path: "/here" }'
    server = original(
        f"--model_config_file={put_text(remote, 'models.config', models('a'))}",
        f"--monitoring_config_file={put_text(remote, 'monitoring.txt', prometheus)}",
        f"--batching_parameters_file={put_text(remote, 'b.txt', 'max_batch_size { value: 7 }')}",
        "--enable_batching",
        "--model_config_file_poll_wait_seconds=1",
    ).ready()
    assert server.rest.get("/here").status_code == 200
    put_text(remote, "models.config", models("a", "b"))
    until(lambda: serves(server, 1, "b"))


@kept("minio", "gs")
def test_a_file_that_is_not_there_ends_the_start(remote: Remote, launcher: Launcher) -> None:
    url = f"{remote.storage.url}/none.config"
    command = ("tensorflow_model_server", "--port=1", f"--model_config_file={url}")
    with Process(*command, env=launcher.environ) as process:
        assert process.exit_code() == 255
        missing = f"Error: NOT_FOUND: {url}; No such file or directory"
        assert f"Failed to start server. {missing}" in process.lines


@kept("s3", "az")
def test_a_store_that_refuses_ends_the_start_with_its_cause(
    remote: Remote, launcher: Launcher, tmp_path: Path
) -> None:
    """The fault names the file, and what to change."""
    remote.proxy.__exit__()
    command = ("ie_serving", "config", f"--config_path={remote.storage.url}/config.json")
    with Process(*command, f"--cache_dir={tmp_path}", env=launcher.environ) as process:
        assert process.exit_code() != 0
        assert "config.json: cannot be read: cannot list: the connection was refused" in process.log
    remote.proxy.__enter__()

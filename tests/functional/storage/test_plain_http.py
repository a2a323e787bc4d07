"""An address without a scheme: what is sent to a public one is encrypted, by every command."""

import http.client
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.functional.storage.repositories import S3Repository
from tests.functional.storage.servers import ADMIN, Answers, Proxy, Reply, Weed
from tests.functional.storage.serving import Launcher, put, serves
from tests.process import Process, free_ports

PUBLIC = "store.example.com"
KEYS = {"AWS_ACCESS_KEY_ID": ADMIN.key, "AWS_SECRET_ACCESS_KEY": ADMIN.secret}
STORES = {"s3": "S3_ENDPOINT", "gs": "STORAGE_EMULATOR_HOST"}
COMMANDS = {
    "2020": ("ie_serving", "model", "--model_path={}"),
    "OVMS": ("ie_serving", "--model_path={}"),
    "TensorFlow Serving": ("tensorflow_model_server", "--model_base_path={}"),
}


@pytest.fixture
def asked() -> list[str]:
    """What the proxy of the environment has been asked."""
    return []


@pytest.fixture
def proxy(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(method: str, path: str, headers: http.client.HTTPMessage) -> Reply:
        asked.append(f"{method} {path}")
        return 403, {}, b""

    with Answers(refuse) as server:
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, server.url)
        for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        yield


def started(command: str, scheme: str, cache: Path, **environ: str) -> str:
    """Run a command that cannot list its model; give its output."""
    line = [each.format(f"{scheme}://b/m") for each in COMMANDS[command]]
    # TensorFlow Serving's command has no flag for the cache.
    environ |= {"XDG_CACHE_HOME": str(cache)}
    port = f"--port={free_ports(1)[0]}"
    with Process(*line, "--model_name=m", port, env={**KEYS, **environ}) as process:
        process.line("listing failed")
        return process.log


@pytest.mark.thinned
@pytest.mark.usefixtures("proxy")
@pytest.mark.parametrize("scheme", STORES)
@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_sent_in_plain_text_that_was_not_asked_for(
    command: str, scheme: str, asked: list[str], tmp_path: Path
) -> None:
    log = started(command, scheme, tmp_path, **{STORES[scheme]: PUBLIC})
    assert set(asked) == {f"CONNECT {PUBLIC}:443"}
    assert "plain HTTP" not in log


@pytest.mark.thinned
@pytest.mark.usefixtures("proxy")
@pytest.mark.parametrize("scheme", STORES)
@pytest.mark.parametrize("command", COMMANDS)
def test_plain_http_to_a_public_address_is_taken_when_asked_for_and_warned_of(
    command: str, scheme: str, asked: list[str], tmp_path: Path
) -> None:
    log = started(command, scheme, tmp_path, **{STORES[scheme]: f"http://{PUBLIC}"})
    assert asked[0].startswith(f"GET http://{PUBLIC}/")
    assert "WARNING" in next(line for line in log.splitlines() if "plain HTTP to a public" in line)


@pytest.fixture
def repository(
    weed: Weed, proxied: Callable[[int], Proxy], bucket: str, launcher: Launcher, tmp_path: Path
) -> S3Repository:
    """A version in a store without TLS, whose address has no scheme."""
    found = S3Repository("s3", weed, proxied(weed.port), bucket, tmp_path / "unused")
    put(found, 1)
    launcher.environ |= {**found.environ, "S3_ENDPOINT": weed.address}
    return found


def test_users_of_ovms_reach_their_own_store_as_before(
    repository: S3Repository, launcher: Launcher
) -> None:
    server = launcher.serve("--model_name=digits", f"--model_path={repository.storage.url}")
    assert serves(server, 1)
    assert "plain HTTP" not in server.log


def test_others_are_told_how(repository: S3Repository, launcher: Launcher) -> None:
    line = ("model", "--model_name=digits", f"--model_path={repository.storage.url}")
    server = launcher.begin(*line)
    assert server.exit_code() == 1
    assert "the server does not speak TLS" in server.log
    assert "write http:// in S3_ENDPOINT" in server.log
    launcher.environ |= {"S3_USE_HTTPS": "0"}
    assert serves(launcher.serve(*line), 1)

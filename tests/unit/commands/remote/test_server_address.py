"""Where a server is and who asks it, from flags and the environment."""

import argparse
from pathlib import Path

import pytest

from ie_serving.commands.remote import server_address
from ie_serving.commands.remote.failures import CommandMisused
from ie_serving.commands.remote.server_address import ServerAddress
from ie_serving.core.runtime import run_files
from tests.tables import named_by


@pytest.fixture(autouse=True)
def _no_server_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for servers of this machine where there are none, whatever other tests run."""
    monkeypatch.setattr(run_files, "directories", lambda _: [str(tmp_path)])


def of(*flags: str, **environ: str) -> tuple[ServerAddress, list[str]]:
    parser, warned = argparse.ArgumentParser(), list[str]()
    server_address.add_flags(parser)
    return server_address.address_of(parser.parse_args(flags), environ, warned.append), warned


@named_by(
    "url",
    ("url", "scheme", "host", "port"),
    [
        ("http://localhost:8501", "http", "localhost", 8501),
        ("models.test:8501", "http", "models.test", 8501),
        ("[::1]:8501", "http", "::1", 8501),
        ("https://models.test/", "https", "models.test", 443),
        ("grpc://[::1]:8500", "grpc", "::1", 8500),
        ("grpcs://models.test", "grpcs", "models.test", 9000),
        ("unix:///run/rest.sock", "unix", "/run/rest.sock", 0),
        ("unix:/run/rest.sock", "unix", "/run/rest.sock", 0),
    ],
)
def test_an_address_names_scheme_host_and_port(url: str, scheme: str, host: str, port: int) -> None:
    found, warned = of(IE_SERVING_URL=url)
    assert (found.scheme, found.host, found.port, warned) == (scheme, host, port, [])
    assert of("--url", "http://other:1", IE_SERVING_URL=url)[0].host == "other"


@pytest.mark.parametrize(
    "url",
    ["http://", "local host:8501", "http://h:0", "http://h:65536", "http://h/v1", "http://u:p@h"],
)
def test_a_url_that_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(CommandMisused, match="expected one such as http://localhost:8000"):
        of("--url", url)


def test_credentials_come_from_file_environment_or_with_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("# key of alice, shown only now:\n\nSECRET\n")
    assert of("--api_key_file", str(file))[0].headers == {"x-api-key": "SECRET"}
    assert of(IE_SERVING_API_KEY="SECRET")[0].headers == {"x-api-key": "SECRET"}
    found, warned = of("--api_key", "SECRET")
    assert found.headers == {"x-api-key": "SECRET"}
    assert "shows the key to all users" in warned[0]
    basic = of("--user", "alice", IE_SERVING_PASSWORD="pass")[0].headers
    assert basic == {"Authorization": "Basic YWxpY2U6cGFzcw=="}
    assert of(AUTHORIZATION="Bearer token")[0].headers == {"Authorization": "Bearer token"}
    assert "SECRET" not in repr(found)


def test_credentials_over_an_open_way_are_warned_of() -> None:
    assert "go unencrypted" in of("--url=http://models.test", IE_SERVING_API_KEY="K")[1][0]
    assert of("--url=https://models.test", IE_SERVING_API_KEY="K")[1] == []
    assert of("--url=http://models.test")[1] == []


@named_by(
    "flags",
    ("flags", "text"),
    [
        (("--url=https://h", "--cert=a"), "belong together"),
        (("--ca=a",), "certificates are for TLS; expected https://"),
        (("--timeout_seconds=0",), "expected more than 0 seconds"),
        (("--api_key_file=/nowhere",), "cannot be read"),
        (("--api_key=a b",), "characters that no key has"),
        (("--api_key=a\nb",), "characters that no key has"),
        (("--user=a:b",), "a colon"),
    ],
)
def test_flags_that_cannot_be_used_are_refused(flags: tuple[str, ...], text: str) -> None:
    with pytest.raises(CommandMisused, match=text):
        of(*flags, IE_SERVING_PASSWORD="p")

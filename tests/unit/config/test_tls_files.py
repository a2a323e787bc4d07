"""What the settings of TLS come to, and what they must not say together."""

from pathlib import Path
from typing import Any

import pytest

from ie_serving.config import credentials
from ie_serving.config.settings import ServerSettings
from ie_serving.core.values.errors import ConfigError
from tests.tables import named_by

CONTRADICTIONS: list[tuple[dict[str, str], str]] = [
    ({"tls_certificate": "c"}, "server.tls_certificate and server.tls_key belong together"),
    ({"tls_key": "k"}, "server.tls_certificate and server.tls_key belong together"),
    ({"tls_client_ca": "a"}, "server.tls_client_ca needs server.tls_certificate"),
    ({"ssl_config_file": "f", "tls_certificate": "c"}, "not both"),
    (
        {"tls_certificate": "c", "tls_key": "k", "tls_client_crl": "r"},
        "server.tls_client_crl needs server.tls_client_ca",
    ),
]


@named_by("text", ("given", "text"), CONTRADICTIONS)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        credentials.read(ServerSettings(**given))


def test_a_list_that_grpcio_would_not_heed_is_refused() -> None:
    files = dict.fromkeys(("tls_certificate", "tls_key", "tls_client_ca", "tls_client_crl"), "f")
    with pytest.raises(ConfigError, match=r"needs the http2 of server\.grpc_transport"):
        credentials.read(ServerSettings(**files, grpc_transport="grpcio"))  # type: ignore[arg-type]


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.crt")
    with pytest.raises(ConfigError, match=r"missing\.crt: cannot be read: No such file"):
        credentials.read(ServerSettings(tls_certificate=missing, tls_key=missing))


@named_by(
    "expected",
    ("text", "expected"),
    [
        ('server_cert: "c"', "server_key is missing"),
        ('server_key: "k"', "server_cert is missing"),
        ('server_key: "k" server_cert: "c" client_verify: true', "client_verify needs custom_ca"),
        ("nonsense", "Error parsing text-format"),
    ],
)
def test_an_ssl_config_at_fault_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "ssl.config"
    file.write_text(text)
    with pytest.raises(ConfigError, match=expected):
        credentials.read(ServerSettings(ssl_config_file=str(file)))


@pytest.mark.parametrize(("verify", "believed"), [("true", b"a"), ("false", b"")])
def test_an_ssl_config_sets_certificate_key_and_authority(
    tmp_path: Path, verify: str, believed: bytes
) -> None:
    """An authority without `client_verify` asks clients for nothing, as in the original."""
    file = tmp_path / "ssl.config"
    text = f'server_key: "k" server_cert: "c" custom_ca: "a" client_verify: {verify}'
    file.write_text(text)
    found = credentials.read(ServerSettings(ssl_config_file=str(file)))
    assert (found.certificate, found.key, found.client_ca) == (b"c", b"k", believed)

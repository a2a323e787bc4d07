"""What the settings of tokens may say."""

import pytest

from ie_serving.config.schema import server
from ie_serving.core.values.errors import ConfigError


@pytest.mark.parametrize(
    "given",
    [
        "keys.json",
        "/etc/keys.json",
        "https://login.test/keys?x=1",
        "http://localhost:8080/keys",
        "http://[::1]:8080/keys",
    ],
)
def test_a_file_or_https_is_a_place_of_keys(given: str) -> None:
    assert server.keys_source(given, "--jwt_keys") == given


@pytest.mark.parametrize(
    "given",
    [
        "",
        "http://login.test/keys",  # a machine in between could sign tokens
        "http://127.0.0.1.login.test/",
        "http://localhost@login.test/",
        "ftp://login.test/keys",
        "file:///etc/keys.json",
        "https://",
        "https://user:word@login.test/",
        "https://login.test:port/",
        "https://[::1/",
        "https://login.test/a b",
    ],
)
def test_any_other_place_of_keys_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="--jwt_keys"):
        server.keys_source(given, "--jwt_keys")


def test_only_algorithms_of_public_keys_are_taken() -> None:
    assert server.algorithms("ES256, RS256,ES256", "p") == ("ES256", "RS256")
    for wrong in ("HS256", "none", "ES256,", "es256", ""):
        with pytest.raises(ConfigError):
            server.algorithms(wrong, "p")


def test_a_leeway_is_between_nothing_and_five_minutes() -> None:
    assert server.leeway("0", "p") == 0.0
    for wrong in ("-1", "301", "inf", "x"):
        with pytest.raises(ConfigError):
            server.leeway(wrong, "p")

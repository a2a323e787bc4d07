"""Who may do what, as the file and the flags of one user say it."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from ie_serving.config.credentials import AccessMaterial
from ie_serving.config.files import access_file
from ie_serving.config.settings import ServerSettings
from ie_serving.core.values import access
from ie_serving.core.values.access import EVERY_RIGHT, Principal, Right
from ie_serving.core.values.errors import ConfigError

DIGEST = hashlib.sha256(b"secret").hexdigest()
KEY = f"sha256:{DIGEST}"
SCRYPT = f"scrypt:2:1:1:{'00' * 16}:{DIGEST}"


def read(folder: Path, text: str, **settings: Any) -> AccessMaterial:
    file = folder / "keys"
    file.write_text(text)
    return access_file.read(ServerSettings(api_key_file=str(file), **settings))


def test_a_file_of_callers_is_read(tmp_path: Path) -> None:
    text = f"# who\n\nalice predict,read resnet*,bert {KEY}\n  bob administrate * {SCRYPT}\n"
    found = read(tmp_path, text)
    assert found.keys == {
        access.of_key(b"secret"): Principal(
            name="alice", rights=Right.PREDICT | Right.READ, models=("resnet*", "bert")
        )
    }
    assert found.users["bob"].caller == Principal(name="bob", rights=Right.ADMINISTRATE)
    assert DIGEST not in repr(found)  # what is shown may be logged


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "",
            "names no caller, which is taken for a file that is being written",
            id="an empty file",
        ),
        pytest.param("# nobody\n", "names no caller", id="a remark alone"),
        pytest.param(f"a predict {KEY}", "keys:1: 3 words; expected 4", id="three words"),
        pytest.param(
            f"a predict,write * {KEY}",
            "keys:1: right 'write' given; expected some of predict",
            id="another right",
        ),
        pytest.param(f"a  predict, * {KEY}", "keys:1: right '' given", id="an empty right"),
        pytest.param(
            f"a predict * {KEY}\nb read * {KEY}",
            "keys:2: this credential stands in the file twice",
            id="a credential twice",
        ),
        pytest.param(
            f"a predict * {SCRYPT.replace(':2:', ':3:')}",
            "scrypt:3:1:1 given",
            id="another form of scrypt",
        ),
        pytest.param(
            f"a predict * {SCRYPT.replace(':2:1:', ':65536:99:')}",
            "a cost of 67108864 bytes",
            id="too much memory",
        ),
        pytest.param(
            f"a predict * {SCRYPT.replace(':2:1:1', ':2:1:99')}",
            "1 to 16",
            id="too much parallelism",
        ),
        pytest.param(
            "a predict * certificate:x",
            "names certificates, which no client is asked for",
            id="certificates without TLS",
        ),
        pytest.param(
            "a predict * jwt:*",
            "names tokens, and no keys to verify them with",
            id="tokens without keys",
        ),
        pytest.param(
            "a predict * jwt:sub", "keys:1: expected sha256:", id="a claim without a value"
        ),
        pytest.param(
            "a predict * jwt:sub=a\nb read * jwt:sub=a",
            "keys:2: this credential stands",
            id="a claim twice",
        ),
    ],
)
def test_a_file_at_fault_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        read(tmp_path, text)


def test_a_key_in_plain_text_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="keys:1: expected sha256:") as refused:
        read(tmp_path, "alice predict * my-very-secret-key")
    assert "secret" not in str(refused.value)


def test_certificates_need_clients_that_have_them(tmp_path: Path) -> None:
    files = dict.fromkeys(("tls_certificate", "tls_key", "tls_client_ca"), "f")
    found = read(tmp_path, "edge predict * certificate:edge.test", **files)
    assert found.certificates["edge.test"].name == "edge"


def test_tokens_are_told_apart_by_their_claims(tmp_path: Path) -> None:
    """In the order of the lines; blanks and signs are escaped."""
    keys = tmp_path / "keys.json"
    keys.write_text("{}")
    text = "a read * jwt:groups=ML%20team%3D1\nb predict m jwt:realm.roles=x=y\nc read * jwt:*"
    given = {"jwt_keys": str(keys), "jwt_issuer": "i", "jwt_audience": "a, b"}
    tokens = read(tmp_path, text, **given).tokens
    assert tokens
    found = [(each.name, each.value, each.caller.name) for each in tokens.claims]
    assert found == [("groups", "ML team=1", "a"), ("realm.roles", "x=y", "b"), ("", "", "c")]
    assert (tokens.keys, tokens.is_url, tokens.audiences) == ("{}", False, ("a", "b"))
    url = {**given, "jwt_keys": "https://login.test/keys"}
    tokens = read(tmp_path, "# nobody by tokens\nalice read * " + KEY, **url).tokens
    assert tokens
    assert (tokens.keys, tokens.is_url, tokens.claims) == ("", True, ())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            {"enable_auth": True},
            "server.enable_auth needs server.api_key_file, or",
            id="basic auth without callers",
        ),
        pytest.param(
            {"auth_password": "p", "enable_auth": True}, "belong together", id="a password alone"
        ),
        pytest.param(
            {"auth_username": "u", "auth_password": "p"},
            "needs server.enable_auth",
            id="a password without basic auth",
        ),
        pytest.param(
            {"auth_username": "u:v", "auth_password": "p", "enable_auth": True},
            "must have no colon",
            id="a colon in a name",
        ),
        pytest.param(
            {"jwt_keys": "k", "jwt_issuer": "i"},
            "needs server.jwt_issuer and server.jwt_audience",
            id="tokens without an audience",
        ),
        pytest.param(
            {"jwt_audience": "a"},
            "server.jwt_audience need server.jwt_keys",
            id="an audience without keys",
        ),
        pytest.param(
            {"jwt_keys": "k", "jwt_issuer": "i", "jwt_audience": "a"},
            "server.jwt_keys needs server.api_key_file",
            id="tokens without callers",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    given: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        access_file.read(ServerSettings(**given))


def test_the_user_of_the_flags_may_do_everything() -> None:
    settings = ServerSettings(enable_auth=True, auth_username="u", auth_password="word")
    found = access_file.read(settings)
    user = found.users["u"]
    assert user.caller == Principal(name="u", rights=EVERY_RIGHT)
    assert access.of_password(b"word", user.salt, user.n, user.r, user.p) == user.digest
    assert found == access_file.read(settings)  # else each look would find a renewal
    assert "word" not in repr(settings)

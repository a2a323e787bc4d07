"""A key set becomes the keys that tokens may be signed with, and no others."""

import json
from typing import Any

import pytest

from ie_serving.core.values.errors import ConfigError
from ie_serving.server.gate.token_keys import MOST_BYTES, MOST_KEYS, keys_of
from tests.issuer import ec_key, ed_key, jwk, key_set, rsa_key

ALL = ("RS256", "PS256", "ES256", "EdDSA")
SECRET = {"kty": "oct", "k": "c2VjcmV0", "kid": "secret", "alg": "HS256"}


def names(*keys: Any, algorithms: tuple[str, ...] = ALL) -> set[tuple[str, str]]:
    return set(keys_of(key_set(*keys), "keys.json", algorithms).found)


def test_each_key_for_its_own_algorithms() -> None:
    rsa, ec, ed = (
        jwk(rsa_key(), kid="r", use="sig"),
        jwk(ec_key(), kid="e"),
        jwk(ed_key(), kid="d"),
    )
    assert names(rsa, ec, ed) == {("r", "RS256"), ("r", "PS256"), ("e", "ES256"), ("d", "EdDSA")}
    assert names(rsa, ec, algorithms=("ES256",)) == {("e", "ES256")}
    assert names(jwk(rsa_key(), kid="r", alg="PS256"), ec) == {("r", "PS256"), ("e", "ES256")}


def test_a_key_alone_needs_no_name() -> None:
    assert names(jwk(ec_key())) == {("", "ES256")}
    assert names(jwk(ec_key(), kid="e")) == {("e", "ES256"), ("", "ES256")}


@pytest.mark.parametrize(
    "left_out",
    [
        pytest.param(SECRET, id="a secret"),
        pytest.param(jwk(ec_key(1), kid="x", use="enc"), id="a key to encrypt with"),
        pytest.param(jwk(ec_key(1), kid="x", key_ops=["sign"]), id="a key to sign with alone"),
        pytest.param(jwk(ec_key(1), kid="x", alg="ES512"), id="another algorithm"),
        pytest.param(jwk(rsa_key(1024), kid="x"), id="1024 bits of RSA"),
        pytest.param({**jwk(ec_key(1), kid="x"), "y": "AAAA"}, id="a point off the curve"),
        pytest.param({**jwk(rsa_key(), kid="x"), "n": "?"}, id="no base64"),
        pytest.param({**jwk(rsa_key(), kid="x"), "n": 7}, id="a number for a text"),
        pytest.param({"kty": "RSA", "kid": "x"}, id="RSA without numbers"),
        pytest.param({"kid": "x"}, id="no type"),
        pytest.param({"kty": ["RSA"], "kid": "x"}, id="a list as type"),
    ],
)
def test_a_key_that_no_token_may_be_signed_with_is_left_out(left_out: Any) -> None:
    found = keys_of(key_set(jwk(ec_key(), kid="e"), left_out), "keys.json", ALL)
    assert set(found.found) == {("e", "ES256")}
    assert (found.number, found.left_out) == (1, 1)


def test_a_private_part_is_not_taken() -> None:
    """A file of private keys works, but nothing could be signed with what is kept."""
    from jwt.algorithms import ECAlgorithm

    private = json.loads(ECAlgorithm.to_jwk(ec_key()))
    key = keys_of(key_set(private), "keys.json", ALL).found["", "ES256"]
    assert not hasattr(key, "sign")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("[]", id="a list"),
        pytest.param("{}", id="an empty object"),
        pytest.param('{"keys": {}}', id="keys that are no list"),
        pytest.param('{"keys": []}', id="no keys"),
        pytest.param("[" * 100_000, id="very many lists"),
        pytest.param(json.dumps({"keys": [SECRET]}), id="a secret alone"),
        pytest.param(json.dumps({"keys": [None, 1]}), id="keys that are no objects"),
        pytest.param(json.dumps({"keys": [jwk(ec_key())] * (MOST_KEYS + 1)}), id="too many keys"),
        pytest.param(
            json.dumps({"keys": [jwk(ec_key(), x5c=["x" * MOST_BYTES])]}), id="too many bytes"
        ),
    ],
)
def test_a_text_that_is_no_key_set_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^keys.json: "):
        keys_of(text, "keys.json", ALL)

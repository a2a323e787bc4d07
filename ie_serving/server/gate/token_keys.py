"""Parses an issuer's key set (JWKS) into the keys that verify tokens, by name and algorithm.

A key is looked up by both, so a token cannot choose an algorithm that its key is not for: `none`
and those with a shared secret (HS256) have no key here. Sources: RFC 7517, 7518, 8037, 8725.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from ie_serving.core.values.errors import ConfigError

MOST_BYTES: Final = 512 * 1024
"""Largest key set. The largest of public issuers, with certificates beside each key, has 20 KB."""
MOST_KEYS: Final = 100
"""Most keys of a key set; issuers have two to ten."""
RSA_BITS: Final = range(2048, 8193)
"""RFC 7518 demands at least 2048. 8,192 take 0.5 ms to verify with; more would take seconds."""

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_KINDS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("RSA", ""): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""Algorithms by type and curve of a key."""
_PARTS: Final = ("kty", "n", "e", "crv", "x", "y")
"""Members of a public key. Others in a set, such as a private part, are ignored."""


class TokenKeys(NamedTuple):
    """The keys of one set that may sign tokens.

    Attributes:
        found: by the name (`kid`) of a key and an algorithm; a key has an entry for each algorithm.
        number: number of these keys.
        left_out: number of keys for other uses, too short, or of an unknown type.
    """

    found: Mapping[tuple[str, str], Any]
    number: int
    left_out: int


def keys_of(text: str, place: str, algorithms: tuple[str, ...]) -> TokenKeys:
    """Parse a key set.

    Args:
        text: JSON, as an issuer publishes it.
        place: source of the text, for errors.
        algorithms: those that are allowed.

    Raises:
        ConfigError: the text is no key set, or has no key for these algorithms.
    """
    given = list(_entries(text, place))
    found: dict[tuple[str, str], Any] = {}
    count = 0
    for entry in given:
        wanted = [each for each in _algorithms(entry) if each in algorithms]
        key = _key(entry) if wanted else None
        if key is None:
            continue
        count += 1
        names = [str(entry.get("kid", ""))]
        # In a set of one key, neither the key nor its tokens have to be named.
        names += [""] if len(given) == 1 else []
        found.update({(name, each): key for name in names for each in wanted})
    if not found:
        expected = ", ".join(algorithms)
        raise ConfigError(
            [f"{place}: has no key that tokens may be signed with; expected one for {expected}"]
        )
    return TokenKeys(found, count, len(given) - count)


def _entries(text: str, place: str) -> Iterator[Mapping[str, Any]]:
    if len(text) > MOST_BYTES:
        raise ConfigError([f"{place}: {len(text)} bytes; expected at most {MOST_BYTES}"])
    try:
        given = json.loads(text)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        given = None
    if not isinstance(given, list) or len(given) > MOST_KEYS:
        raise ConfigError(
            [f'{place}: is no JSON Web Key Set: expected {{"keys": [...]}}, of {MOST_KEYS} at most']
        )
    return (entry for entry in given if isinstance(entry, dict))


def _algorithms(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the algorithms that a key is for; none if it does not verify signatures."""
    verifies = "verify" in entry.get("key_ops", ("verify",))
    if entry.get("use", "sig") != "sig" or not verifies:
        return ()
    kind = (str(entry.get("kty")), str(entry.get("crv", "")))
    return tuple(each for each in _KINDS.get(kind, ()) if entry.get("alg", each) == each)


def _key(entry: Mapping[str, Any]) -> Any:  # noqa: ANN401 (of `cryptography`, whatever its type)
    """Make a public key; None if it is malformed or its length is not accepted."""
    from jwt import algorithms
    from jwt.exceptions import InvalidKeyError

    public = {name: entry[name] for name in _PARTS if name in entry}
    readers: Mapping[str, Any] = {
        "RSA": algorithms.RSAAlgorithm,
        "EC": algorithms.ECAlgorithm,
        "OKP": algorithms.OKPAlgorithm,
    }
    try:
        if public["kty"] == "RSA" and _bits(public["n"]) not in RSA_BITS:
            return None
        return readers[public["kty"]].from_jwk(public)
    except (InvalidKeyError, ValueError, KeyError, TypeError):
        return None


def _bits(modulus: str) -> int:
    try:
        number = base64.urlsafe_b64decode(modulus + "==")
    except binascii.Error:
        return 0
    return int.from_bytes(number, "big").bit_length()

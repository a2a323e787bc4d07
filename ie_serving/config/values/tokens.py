"""Parses the settings of tokens (`--jwt_keys` and its kin)."""

from typing import Final
from urllib.parse import urlsplit

from ie_serving.core.settings import numbers, words
from ie_serving.core.settings.faults import fault

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Names of RFC 7518 and 8037, without those of a shared secret: here it would be everybody's."""
MOST_LEEWAY_S: Final = 300.0
"""RFC 7519 has "no more than a few minutes"; with more a withdrawn token is good for longer."""
HERE: Final = ("localhost", "127.0.0.1", "::1")


def is_url(place: str) -> bool:
    """Tell whether keys are fetched from a place, or read from a file."""
    return "://" in place


def keys_place(value: object, place: str) -> str:
    """Read a file's path, or a URL whose answer cannot be forged on the network."""
    given = words.text(value, place)
    if not is_url(given):
        return given
    try:
        parts = urlsplit(given)
        host = parts.hostname or ""
        wrong = parts.username is not None or parts.port == 0
    except ValueError:
        raise fault(place, value, "a file, or a URL of https") from None
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and host in HERE)
    if not is_safe or not host or wrong or any(each in given for each in " \t#"):
        raise fault(
            place, value, "a file, or a URL of https, without a password; http on this host alone"
        )
    return given


def algorithms(value: object, place: str) -> tuple[str, ...]:
    """Read names of algorithms, separated by commas."""
    given = tuple(each.strip() for each in words.text(value, place).split(","))
    if not set(given) <= set(ALGORITHMS):
        raise fault(place, value, f"some of {', '.join(ALGORITHMS)}")
    return tuple(dict.fromkeys(given))


def leeway(value: object, place: str) -> float:
    """Read by how many seconds clocks may differ."""
    given = numbers.delay(value, place)
    if given > MOST_LEEWAY_S:
        raise fault(place, value, f"at most {MOST_LEEWAY_S:g} seconds")
    return given

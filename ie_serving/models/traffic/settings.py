"""Parses the settings of a model's split traffic, and of its shadow."""

import re
from collections.abc import Mapping
from typing import Any, Final

from ie_serving.core.settings import words
from ie_serving.core.settings.declaration import SettingKind
from ie_serving.core.settings.faults import Parser, fault, parsed
from ie_serving.core.settings.numbers import integer, milliseconds, share, timeout, version
from ie_serving.core.settings.structures import mapping
from ie_serving.core.values.errors import ConfigError
from ie_serving.models.traffic.policy import MOST_KEPT, WHOLE, Rollback
from ie_serving.models.traffic.shadow import Shadow

MOST_SAMPLES: Final = 100_000
"""Most requests that the files of one shadow may be set to hold."""
_PERCENT: Parser[int] = integer(0, WHOLE)


def _error_rate(value: object, place: str) -> float:
    """Read a share below 1: more than all requests never fail, so 1 would decide nothing."""
    found = share(value, place)
    if found == 1:
        raise fault(place, value, "a number from 0 to below 1, such as 0.05")
    return found


def _latency_ms(value: object, place: str) -> float:
    """Read a time above 0, which every request takes: 0 means no limit elsewhere."""
    found = milliseconds(value, place)
    if found == 0:
        raise fault(place, value, "milliseconds above 0, such as 20; for no limit, leave it out")
    return found


_RULES: Final[Mapping[str, tuple[str, Parser[Any]]]] = {
    "error_rate": ("error_rate", _error_rate),
    "latency_ms": ("latency_ms", _latency_ms),
    "min_requests": ("min_requests", integer(1, MOST_KEPT)),
    "window_seconds": ("window_s", timeout),
}
"""Field and parser of each key of `rollback`."""


def traffic(value: object, place: str) -> Mapping[str, int]:
    """Read percent by label or version."""
    given = mapping(value, place, 'an object such as {"stable": 95, "canary": 5}')
    shares = parsed(given, lambda _: _PERCENT, place)
    if shares and sum(shares.values()) != WHOLE:
        raise ConfigError(
            [f"{place}: the shares sum to {sum(shares.values())}; expected {WHOLE} in all"]
        )
    return shares


def rollback(value: object, place: str) -> Rollback:
    """Read when a version loses its share."""
    expected = f"an object with error_rate or latency_ms, and no keys but {', '.join(_RULES)}"
    given = mapping(value, place, expected)
    if given.keys() - _RULES.keys() or not given.keys() & {"error_rate", "latency_ms"}:
        raise fault(place, dict(given), expected)
    found: dict[str, Any] = parsed(given, lambda key: _RULES[key][1], place)
    return Rollback(**{_RULES[key][0]: item for key, item in found.items()})


def _path(value: object, place: str) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise fault(place, value, "an absolute path: the files' paths begin with it")
    return value


def _sampling_rate(value: object, place: str) -> float:
    """Read a share above 0: a shadow without copies would answer nothing."""
    found = share(value, place)
    if found == 0:
        raise fault(place, value, "a number above 0, such as 0.01; for no shadow, leave it out")
    return found


_OF_SHADOW: Final[Mapping[str, Parser[Any]]] = {
    "model": words.name,
    "label": words.name,
    "version": version,
    "sampling_rate": _sampling_rate,
    "tolerance": share,
    "path": _path,
    "max_samples": integer(1, MOST_SAMPLES),
}


def shadow(value: object, place: str) -> Shadow:
    """Read which version answers copies of requests."""
    expected = (
        "an object with sampling_rate, with label, version or model (label and version exclude each"
        f" other), and no keys but {', '.join(_OF_SHADOW)}"
    )
    given = mapping(value, place, expected)
    keys = given.keys()
    is_named = keys & {"label", "version", "model"} and not keys >= {"label", "version"}
    if keys - _OF_SHADOW.keys() or not is_named or "sampling_rate" not in keys:
        raise fault(place, dict(given), expected)
    if "max_samples" in keys and "path" not in keys:
        raise fault(f"{place}.max_samples", given["max_samples"], "path beside it: give one")
    found: dict[str, Any] = parsed(given, _OF_SHADOW.__getitem__, place)
    return Shadow(**found)


def header(value: object, place: str) -> str:
    """Read the name of a header, in lower case, which gRPC's metadata can have as a key, too."""
    # gRPC's metadata has bytes under keys that end in "-bin", which REST cannot send alike.
    if not isinstance(value, str) or not re.fullmatch("(?i)(?!.*-bin$)[0-9a-z_.-]*", value):
        expected = (
            'the name of a header or key of metadata, such as x-user, without "-bin" at its end'
        )
        raise fault(place, value, expected)
    return value.lower()


TRAFFIC: Final = SettingKind(traffic, "JSON")
STICKY: Final = SettingKind(header, "HEADER")
ROLLBACK: Final = SettingKind(rollback, "JSON")
SHADOW: Final = SettingKind(shadow, "JSON")

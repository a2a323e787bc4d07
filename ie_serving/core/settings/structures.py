"""Parses objects: JSON, device properties, parameters of drivers."""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from ie_serving.core.settings.faults import Faults, fault
from ie_serving.core.values.errors import ConfigError

Json: TypeAlias = Any
"""A decoded JSON value: object, list, text, number, boolean or null."""


def json_text(value: str, place: str) -> Json:
    """Decode JSON strictly: no NaN or infinity, no key twice in one object.

    Raises:
        ConfigError: with line and column where the text is not JSON.
    """
    # Python's reader takes the last of two equal keys and NaN; either hides a mistake.
    twice: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, item in pairs:
            twice.extend([key] if key in seen else [])
            seen[key] = item
        return seen

    try:
        found = json.loads(value, object_pairs_hook=unique, parse_constant=_not_finite)
    except json.JSONDecodeError as error:
        raise ConfigError(
            [f"{place}:{error.lineno}:{error.colno}: not JSON: {error.msg}"]
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"{place}: not JSON: {error}"]) from None
    if twice:
        raise ConfigError([f'{place}: key "{key}" stands twice in one object' for key in twice])
    return found


def _not_finite(word: str) -> None:
    raise ValueError(f"{word} is not a number in JSON")


def mapping(value: object, place: str, expected: str) -> Mapping[str, Any]:
    """Read an object, or the text of one."""
    found = json_text(value, place) if isinstance(value, str) else value
    if not isinstance(found, Mapping):
        raise fault(place, value, expected)
    return found


def plugin_config(value: object, place: str) -> Mapping[str, str]:
    """Read device properties; numbers and booleans become OpenVINO's words for them."""
    faults = Faults()
    given = mapping(value, place, 'an object such as {"NUM_STREAMS": "2"}')
    properties = {
        key: faults.take(_property, item, f"{place}.{key}") for key, item in given.items()
    }
    faults.check()
    return {key: item for key, item in properties.items() if item is not None}


def _property(value: object, place: str) -> str:
    # OpenVINO's words for booleans; Python's own "True" it would refuse.
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, str | int | float):
        return str(value)
    raise fault(place, value, "text, a number, true or false")


def params(value: object, place: str) -> Mapping[str, Json]:
    """Read an object of any JSON; numbers, booleans and texts keep their types."""
    return dict(mapping(value, place, 'an object such as {"threshold": 0.5}'))

"""Parses objects: JSON, device properties, parameters of drivers."""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ie_serving.core.settings.faults import fault, parsed
from ie_serving.core.settings.numbers import whole
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.integers import INT32_MAX

Json: TypeAlias = Any
"""A decoded JSON value: object, list, text, number, boolean or null."""


def json_text(value: str, place: str) -> Json:
    """Decode JSON strictly: no NaN or infinity, no key twice in one object.

    Raises:
        ConfigError: with line and column, if the text is not JSON.
    """
    # Python's reader accepts NaN, and the last of two equal keys; either hides a mistake.
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
            [f"{place}:{error.lineno}:{error.colno}: not JSON: {_cause(value, error)}"]
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"{place}: not JSON: {error}"]) from None
    if twice:
        raise ConfigError(
            [f'{place}: key "{key}" stands twice in one object; remove one' for key in twice]
        )
    return found


def _cause(text: str, error: json.JSONDecodeError) -> str:
    """Say what is wrong, in plain words for the two faults that people make most."""
    if not text.strip():
        return "the text is empty"
    # Before Python 3.13 the fault stands behind the comma, since then at it.
    before, after = text[: error.pos].rstrip(), text[error.pos :].lstrip(", \t\r\n")
    is_comma = before.endswith(",") or text[error.pos : error.pos + 1] == ","
    if is_comma and after[:1] in ("}", "]"):
        return f"a comma stands before the closing {after[0]}: take it out"
    return error.msg


def _not_finite(word: str) -> None:
    raise ValueError(f"{word} is not a number in JSON")


def mapping(value: object, place: str, expected: str) -> Mapping[str, Any]:
    """Read an object, or its text."""
    try:
        found = json_text(value, place) if isinstance(value, str) else value
    except ConfigError as error:
        raise ConfigError([f"{each}; expected {expected}" for each in error.faults]) from None
    if not isinstance(found, Mapping):
        raise fault(place, value, expected)
    return found


def plugin_config(value: object, place: str) -> Mapping[str, str]:
    """Read device properties; numbers and booleans become OpenVINO's words for them."""
    given = mapping(value, place, 'an object such as {"NUM_STREAMS": "2"}')
    return parsed(given, lambda _: _property, place)


def _property(value: object, place: str) -> str:
    # OpenVINO's words for booleans; it refuses Python's "True".
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, str | int | float):
        return str(value)
    raise fault(place, value, "text, a number, true or false")


def params(value: object, place: str) -> Mapping[str, Json]:
    """Read an object with any JSON values; numbers, booleans and texts keep their types."""
    return dict(mapping(value, place, 'an object such as {"threshold": 0.5}'))


IDLE: Final = "grpc_max_connection_idle_s"
AGE_ARGUMENTS: Final = {
    "grpc_max_connection_age_s": "grpc.max_connection_age_ms",
    "grpc_max_connection_age_grace_s": "grpc.max_connection_age_grace_ms",
    IDLE: "grpc.max_connection_idle_ms",
}
"""Fields of the server's settings that arguments mean, and those arguments, in milliseconds."""

SHORTEST_S: Final = 0.001
"""Value for an argument of 0 ms, which means at once, while a setting of 0 means no limit."""


def arguments(value: object, place: str) -> Mapping[str, int | str]:
    """Read channel arguments; whole numbers become integers."""
    found: dict[str, int | str] = {}
    for part in str(value).split(","):
        name, equals, text = part.strip().partition("=")
        if not name or not equals:
            raise fault(place, value, "name=value, more of them after commas")
        number = whole(text)
        found[name] = text if number is None else number
    return found


def settle(given: dict[str, Any], transport: str) -> list[str]:
    """Let arguments and the settings of the same meaning agree; a setting that is given counts.

    Args:
        given: fields of the server's settings; changed.
        transport: server of gRPC; grpcio takes every argument.

    Returns:
        Warnings: the arguments that have no effect.
    """
    found: dict[str, int | str] = dict(given.get("grpc_channel_arguments", {}))
    for field, name in AGE_ARGUMENTS.items():
        milliseconds = found.get(name)
        if given.get(field):
            found[name] = int(given[field] * 1000)
        # gRPC's way to say "no limit" is its largest number.
        elif isinstance(milliseconds, int) and 0 <= milliseconds < INT32_MAX:
            given[field] = max(milliseconds / 1000, SHORTEST_S)
    if found.get(AGE_ARGUMENTS[IDLE]) == INT32_MAX:  # the one that has a limit by default
        given.setdefault(IDLE, 0.0)
    given["grpc_channel_arguments"] = found
    if transport == "grpcio":
        return []
    return [
        f"grpc_channel_arguments: {name} has no effect over this server's own HTTP/2"
        for name in sorted(found.keys() - AGE_ARGUMENTS.values())
    ]

"""Objects: JSON, version policies and labels, device properties."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ie_serving.config.values.faults import Faults, fault
from ie_serving.config.values.numbers import positive, version
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.names import too_long
from ie_serving.models.repository.version_policy import All, Latest, Specific, VersionPolicy

Json: TypeAlias = Any
"""What JSON decodes to: objects, lists, text, numbers, booleans and null."""


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


def version_labels(value: object, place: str) -> Mapping[str, int]:
    """Read label to version."""
    faults = Faults()
    given = mapping(value, place, 'an object such as {"stable": 3}')
    labels = {key: faults.take(version, item, f"{place}.{key}") for key, item in given.items()}
    if "" in labels:
        faults.add(place, "a label is empty; name it")
    for wrong in filter(None, (too_long("label", each) for each in labels)):
        faults.add(place, wrong)
    faults.check()
    return {key: item for key, item in labels.items() if item is not None}


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
    """Read an object of any JSON; numbers, booleans and texts stay what they are."""
    return dict(mapping(value, place, 'an object such as {"threshold": 0.5}'))


def version_policy(value: object, place: str) -> VersionPolicy:
    """Read exactly one of `latest`, `all` and `specific`. Source: ServableVersionPolicy."""
    expected = (
        'exactly one of {"latest": {"num_versions": 1}}, {"all": {}} '
        'and {"specific": {"versions": [1]}}'
    )
    given = mapping(value, place, expected)
    if len(given) != 1:
        raise fault(place, given, expected)
    ((kind, options),) = given.items()
    if kind not in _POLICIES or not isinstance(options, Mapping):
        raise fault(place, given, expected)
    return _POLICIES[kind](options, f"{place}.{kind}")


def _latest(options: Mapping[str, Any], place: str) -> VersionPolicy:
    _only(options, "num_versions", place)
    return Latest(positive(options.get("num_versions", 1), f"{place}.num_versions"))


def _all(options: Mapping[str, Any], place: str) -> VersionPolicy:
    _only(options, "", place)
    return All()


def _specific(options: Mapping[str, Any], place: str) -> VersionPolicy:
    _only(options, "versions", place)
    given = options.get("versions")
    if not isinstance(given, list) or not given:
        raise fault(f"{place}.versions", given, "a list of one version or more, such as [1, 3]")
    faults = Faults()
    found = [
        faults.take(version, item, f"{place}.versions[{index}]") for index, item in enumerate(given)
    ]
    faults.check()
    return Specific(frozenset(item for item in found if item is not None))


def _only(options: Mapping[str, Any], key: str, place: str) -> None:
    others = sorted(set(options) - {key})
    if others:
        expected = f"only {key}" if key else "no key"
        raise ConfigError([f"{place}: unknown {', '.join(others)}; expected {expected}"])


_POLICIES: Mapping[str, Callable[[Mapping[str, Any], str], VersionPolicy]] = {
    "latest": _latest,
    "all": _all,
    "specific": _specific,
}

"""Parses the `shape` setting: `(1,3,224,224)`, lists, objects of those by input, `auto`.

A dimension is a size, -1 for any, or `low:high`. Text of 2020 is taken as it was documented,
`{input1:(1,3,224,224)}` with and without quotes; unreadable text is a fault, never ignored.
"""

import re
from collections.abc import Mapping
from typing import Final

from ie_serving.core.settings.declaration import SettingKind
from ie_serving.core.settings.faults import Faults, fault
from ie_serving.core.settings.numbers import ANY, Dimension, size_range, whole
from ie_serving.core.settings.structures import json_text
from ie_serving.core.values.integers import INT32_MAX

Dimensions = tuple[Dimension, ...]
Shape = Mapping[str, Dimensions | str] | Dimensions | str

AUTO = "auto"
_EXPECTED = (
    '"auto", dimensions such as (1,3,224,224), or an object of those by input; '
    "a dimension is a size, -1 for any, or low:high"
)
_BRACKETS = re.compile(r"\s*(?:\(([^()\[\]]*)\)|\[([^()\[\]]*)\])\s*")
_NAMED = re.compile(
    r"\s*(?:\"([^\"]*)\"|'([^']*)'|([^\"'{}()\[\],\s]+?))\s*:"
    r"\s*(\([^()\[\]]*\)|\[[^()\[\]]*\]|\"?(?i:auto)\"?)\s*(?:,|$)"
)


def shape(value: object, place: str) -> Shape:
    """Read a shape.

    Returns:
        `auto`, the dimensions of the only input, or dimensions by input name.

    Raises:
        ConfigError: with the input and the dimension at fault.
    """
    if isinstance(value, str):
        return _from_text(value, place)
    if isinstance(value, Mapping):
        return _by_input(value, place)
    return _dimensions(value, place)


SHAPE: Final = SettingKind(shape, "(N,..)|auto|{INPUT:(N,..)|auto}")


def _from_text(value: str, place: str) -> Shape:
    given = value.strip()
    if _is_auto(given):
        return AUTO
    if not given.startswith("{"):
        return _dimensions(given, place)
    named = _named(given)
    return _by_input(json_text(given, place) if named is None else named, place)


def _named(given: str) -> dict[str, str] | None:
    """Split `{name:(1,2), "other":[3]}`; None when it is written in another way."""
    inner, at, found = given[1:-1], 0, dict[str, str]()
    while given.endswith("}") and at < len(inner):
        match = _NAMED.match(inner, at)
        if match is None:
            return None
        name = next(part for part in match.groups() if part is not None)
        if name in found:
            return None
        found[name], at = match[4], match.end()
    return found or None


def _by_input(value: object, place: str) -> Mapping[str, Dimensions | str]:
    if not isinstance(value, Mapping) or not value or "" in value:
        raise fault(place, value, _EXPECTED)
    faults = Faults()
    found = {name: faults.take(_of_input, item, f"{place}.{name}") for name, item in value.items()}
    faults.check()
    return {name: item for name, item in found.items() if item is not None}


def _of_input(value: object, place: str) -> Dimensions | str:
    return AUTO if _is_auto(value) else _dimensions(value, place)


def _is_auto(value: object) -> bool:
    return isinstance(value, str) and value.strip().strip('"').lower() == AUTO


def _dimensions(value: object, place: str) -> Dimensions:
    items = _split(value) if isinstance(value, str) else value
    if not isinstance(items, list):
        raise fault(place, value, _EXPECTED)
    faults = Faults()
    found = [faults.take(_dimension, item, f"{place}[{index}]") for index, item in enumerate(items)]
    faults.check()
    return tuple(item for item in found if item is not None)


def _split(value: str) -> list[str] | None:
    """Give the items between brackets; a comma after the last one is allowed."""
    match = _BRACKETS.fullmatch(value)
    if match is None:
        return None
    inner = (match[1] if match[1] is not None else match[2]).strip()
    return inner.removesuffix(",").split(",") if inner else []


def _dimension(value: object, place: str) -> Dimension:
    given = value.strip().strip('"') if isinstance(value, str) else value
    size = whole(given)
    if size is not None and (size == ANY or 1 <= size <= INT32_MAX):
        return size
    sizes = size_range(given)
    if sizes is None:
        raise fault(place, value, "a size, -1 for any, or low:high")
    return sizes

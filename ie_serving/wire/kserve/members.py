"""Members of the objects in a request, whichever parser has read them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import simdjson

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.wire.json.buffers import Lazy

Parameters: TypeAlias = Mapping[str, Any]
"""Values by name: None, bool, int, float or str."""

NESTED: Final = "[...]"
"""Stands for a parameter that is a list or an object, which the protocol does not have."""

_CONTAINERS: Final = (simdjson.Array, simdjson.Object, list, dict)


def entries(owner: Lazy, key: str) -> Sequence[Lazy]:
    """Give a member that is a list of objects. Raises: InvalidRequest."""
    value = owner[key]
    if isinstance(value, (simdjson.Array, list)):
        found = list(value)
        if all(isinstance(each, (simdjson.Object, dict)) for each in found):
            return found
    raise InvalidRequest(f'"{key}" has to be a list of objects')


def text_of(owner: Lazy, key: str, whose: str) -> str:
    """Give a member that is a string. Raises: InvalidRequest."""
    value = owner[key] if key in list(owner) else None
    if not isinstance(value, str):
        raise InvalidRequest(f'{whose} needs "{key}", a string')
    return value


def parameters_of(owner: Lazy, keys: Sequence[str], whose: str) -> Parameters:
    """Give the parameters of an object whose keys are known; none where it has none.

    Raises:
        InvalidRequest: they are no object.
    """
    if "parameters" not in keys:
        return {}
    value = owner["parameters"]
    if not isinstance(value, (simdjson.Object, dict)):
        raise InvalidRequest(f'"parameters" of {whose} has to be an object')
    found: dict[str, Any] = {}
    for name, each in value.items():
        # Of equal names the first one counts, as everywhere.
        found.setdefault(name, NESTED if isinstance(each, _CONTAINERS) else each)
    return found


def flag(parameters: Parameters, name: str, default: bool, whose: str) -> bool:
    """Give a parameter that is true or false. Raises: InvalidRequest."""
    value = parameters.get(name, default)
    if not isinstance(value, bool):
        raise InvalidRequest(f'parameter "{name}" of {whose} has to be true or false')
    return value

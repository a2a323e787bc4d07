"""Collects and formats faults of settings: each has its place and the expected form.

Every parser of this package takes `(value, place)`: text of a command line or variable, or JSON of
a file; and its flag, variable or JSON path. It returns the typed value or raises `ConfigError`.
Text and JSON mean the same: `"4"` is 4, and `{"latest": {}}` may be an object or its text.
"""

import reprlib
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from ie_serving.core.values.errors import ConfigError

T = TypeVar("T")
V = TypeVar("V")
Parser = Callable[[object, str], T]

LONGEST_SHOWN = 80
"""Most characters of a wrong text in its fault; a longer text is cut in the middle. A fault is one
line of a terminal or log, and the value may be a whole file."""

_SHORT = reprlib.Repr()
_SHORT.maxstring = LONGEST_SHOWN


class Faults:
    """Collects faults, so that all are reported at once."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, place: str, text: str) -> None:
        """Note one fault."""
        self.found.append(f"{place}: {text}")

    def take(self, parse: Callable[[V, str], T], value: V, place: str) -> T | None:
        """Parse a value; on an error note the faults and return None."""
        try:
            return parse(value, place)
        except ConfigError as error:
            self.found.extend(error.faults)
            return None

    def check(self) -> None:
        """Raise ConfigError with every fault, if there is one."""
        if self.found:
            raise ConfigError(self.found)


def parsed(
    given: Mapping[str, V], parse: Callable[[str], Callable[[V, str], T]], place: str
) -> dict[str, T]:
    """Parse each value by the parser of its key. Raises: ConfigError, of all faults."""
    faults = Faults()
    found = {key: faults.take(parse(key), item, f"{place}.{key}") for key, item in given.items()}
    faults.check()
    return cast("dict[str, T]", found)


def shown(value: object) -> str:
    """Give `value` as text for a fault, short for any size and depth."""
    return _SHORT.repr(value)


def fault(place: str, value: object, expected: str) -> ConfigError:
    """Make a fault with the value and the expected form."""
    return ConfigError([f"{place}: {shown(value)} given; expected {expected}"])

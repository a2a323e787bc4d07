"""Parses whole numbers, times in seconds, batch sizes."""

import math
import re

from ie_serving.core.settings.faults import Parser, fault
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.integers import INT32_MAX, INT64_MAX

LONGEST_S = INT32_MAX
"""Longest time in seconds, 68 years, which every timer of the platform can hold; a longer one is
refused."""
LARGEST_PORT = 65535
"""A TCP port has 16 bits; a larger number is refused."""
Dimension = int | tuple[int, int]
"""A fixed size, -1 for any, or an inclusive range."""
ANY = -1
"""A batch size or dimension that may be any."""

# int() and float() also accept underscores, digits of other scripts, "nan" and "infinity".
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_RANGE = re.compile(r"\s*([0-9]{1,10})\s*:\s*([0-9]{1,10})\s*", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


def integer(low: int, high: int) -> Parser[int]:
    """Make a parser of whole numbers from `low` to `high`."""

    def parse(value: object, place: str) -> int:
        """Read a number, or its digits as text."""
        number = whole(value)
        if number is None or not low <= number <= high:
            raise fault(place, value, f"a whole number from {low} to {high}")
        return number

    return parse


def whole(value: object) -> int | None:
    """Give the whole number in `value`, a number or text; None if it is not one."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value.strip())  # int() leaves some blanks on
    return None


port: Parser[int] = integer(0, LARGEST_PORT)
positive: Parser[int] = integer(1, 100_000)
"""A count from 1 to 100,000; a larger one is refused as a typing error."""
version: Parser[int] = integer(0, INT64_MAX)


def number(value: object, place: str) -> float:
    """Read a finite number, of any sign."""
    given = value.strip() if isinstance(value, str) else value
    if isinstance(given, str) and _NUMBER.fullmatch(given):
        given = float(given)
    # Python takes True for a number, but it is not a time.
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise fault(place, value, "a number of seconds, such as 1 or 0.5")
    if abs(given) > LONGEST_S or math.isnan(given):
        raise fault(place, value, f"at most {LONGEST_S} seconds")
    return float(given)


def poll_wait(value: object, place: str) -> float:
    """Read seconds between two polls; zero and less switch polling off, as 0.0."""
    return max(number(value, place), 0.0)


def timeout(value: object, place: str) -> float:
    """Read a time in seconds that must be more than zero."""
    seconds = number(value, place)
    if seconds <= 0:
        raise fault(place, value, "more than 0 seconds")
    return seconds


def delay(value: object, place: str) -> float:
    """Read a time in seconds; zero means no wait."""
    seconds = number(value, place)
    if seconds < 0:
        raise fault(place, value, "0 seconds or more")
    return seconds


def size_range(value: object) -> Dimension | None:
    """Give the sizes of `low:high`; None if the value does not have this form."""
    match = _RANGE.fullmatch(value) if isinstance(value, str) else None
    low, high = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= low <= high <= INT32_MAX:
        return None
    return low if low == high else (low, high)


def batch_size(value: object, place: str) -> Dimension | None:
    """Read a batch size or range: -1 for `auto`, None for 0, which keeps the model's."""
    if isinstance(value, str) and value.strip().lower() == "auto":
        return ANY
    sizes = size_range(value)
    if sizes is not None:
        return sizes
    number = whole(value)
    if number is None or not ANY <= number <= INT32_MAX:
        raise fault(
            place, value, 'a whole number, low:high, "auto" for any, or 0 to keep the model\'s'
        )
    # 0 and None both keep the model's batch; readers of the options need to know only None.
    return number or None


def share(value: object, place: str) -> float:
    """Read a number from 0 to 1."""
    try:
        found = number(value, place)
    except ConfigError:
        found = -1.0
    if not 0 <= found <= 1:
        raise fault(place, value, "a number from 0 to 1, such as 0.01")
    return found


def milliseconds(value: object, place: str) -> float:
    """Read a time in milliseconds; 0 means no limit."""
    try:
        found = number(value, place)
    except ConfigError:
        found = -1.0
    if found < 0:
        raise fault(place, value, "a number of milliseconds, such as 20 or 0.5")
    return found

"""`layout`, `mean`, `scale`, `color_format`, `precision`, in OpenVINO Model Server's words.

Where something has two sides, it is written `CLIENT:MODEL`, as in `NHWC:NCHW`.
"""

import math
import re
from collections.abc import Mapping

from ie_serving.config.values.faults import Faults, fault
from ie_serving.config.values.structures import json_text
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.integers import INT32_MAX
from ie_serving.engines.preprocessing import Pair

_LAYOUT = re.compile(r"(?=[^.]|\.\.\.)[A-Z?]*(?:\.\.\.)?[A-Z?]*")
_LAYOUT_EXPECTED = (
    "a layout such as NCHW, CLIENT:MODEL of the same dimensions such as NHWC:NCHW, or an object of"
    " those by input or output"
)
_NUMBERS_EXPECTED = "one number, or one for each channel such as [123.675,116.28,103.53]"

COLOURS = ("BGR", "RGB")
LEAST_SCALE = 1e-30
"""What is less counts as 0: near 1e-38 float32 ends, and every quotient would be infinite."""
TYPES: Mapping[str, str] = {
    "bool": "boolean",
    "fp16": "f16",
    "fp32": "f32",
    "fp64": "f64",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    "bf16": "bf16",
}
"""OpenVINO's name of each element type that is known to OpenVINO Model Server."""


def layout(value: object, place: str) -> Pair | Mapping[str, Pair]:
    """Read the layout of the only input, or of inputs and outputs by name."""
    given = value.strip() if isinstance(value, str) else value
    if isinstance(given, str) and given.startswith("{"):
        given = json_text(given, place)
    if not isinstance(given, Mapping):
        return _layout(given, place)
    if not given or "" in given:
        raise fault(place, value, _LAYOUT_EXPECTED)
    faults = Faults()
    found = {name: faults.take(_layout, item, f"{place}.{name}") for name, item in given.items()}
    faults.check()
    return {name: pair for name, pair in found.items() if pair}


def _layout(value: object, place: str) -> Pair:
    sides = [side.strip().upper() for side in value.split(":")] if isinstance(value, str) else []
    if len(sides) not in (1, 2) or not all(map(_is_layout, sides)):
        raise fault(place, value, _LAYOUT_EXPECTED)
    # A transposition needs to know every dimension, and where it goes.
    if len(sides) == 2 and sorted(sides[0]) != sorted(sides[1]):
        raise fault(place, value, _LAYOUT_EXPECTED)
    return Pair(*sides)


def _is_layout(text: str) -> bool:
    names = re.sub(r"[^A-Z]", "", text)
    return bool(text and _LAYOUT.fullmatch(text)) and len(set(names)) == len(names)


def mean(value: object, place: str) -> tuple[float, ...]:
    """Read what is subtracted: `127.5`, `[1,2,3]` or `(1,2,3)`."""
    given = value.strip() if isinstance(value, str) else value
    if isinstance(given, str):
        if given[:1] + given[-1:] == "()":
            given = f"[{given[1:-1]}]"
        try:
            given = json_text(given, place)
        except ConfigError:  # where it is not JSON: people write numbers here, not JSON
            raise fault(place, value, _NUMBERS_EXPECTED) from None
    numbers = given if isinstance(given, list) else [given]
    if not numbers or not all(map(_is_number, numbers)):
        raise fault(place, value, _NUMBERS_EXPECTED)
    return tuple(map(float, numbers))


def scale(value: object, place: str) -> tuple[float, ...]:
    """Read what is divided by, as `mean`; none of it is zero."""
    numbers = mean(value, place)
    if min(map(abs, numbers)) < LEAST_SCALE:
        raise fault(place, value, f"{_NUMBERS_EXPECTED}, none of them 0: it is divided by")
    return numbers


# In Python True is a number as well. The bound is far above means and scales of any image, and far
# below where float32 ends, in which they are mostly computed: more is a mistake.
def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= INT32_MAX and math.isfinite(value)


def color_format(value: object, place: str) -> Pair:
    """Read `CLIENT:MODEL`, or one word for both."""
    sides = _sides(value)
    if not all(side.upper() in COLOURS for side in sides):
        raise fault(place, value, "CLIENT:MODEL of RGB and BGR, such as BGR:RGB")
    return Pair(sides[0].upper(), sides[-1].upper())


def precision(value: object, place: str) -> Pair:
    """Read `CLIENT:MODEL`; one word is the client's, and the model's stays."""
    sides = [_type(side) for side in _sides(value)]
    if not all(sides):
        known = ", ".join(sorted(TYPES))
        raise fault(place, value, f"CLIENT:MODEL such as uint8:fp32, of {known}")
    return Pair(*sides)


def _sides(value: object) -> list[str]:
    sides = [side.strip() for side in value.split(":")] if isinstance(value, str) else []
    return sides if len(sides) in (1, 2) else [""]


def _type(word: str) -> str:
    """Give OpenVINO's name of a type by either name; empty for an unknown one."""
    low = word.lower()
    return TYPES.get(low, low if low in TYPES.values() else "")

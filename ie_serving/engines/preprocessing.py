"""Options of preprocessing: the computations on a client's numbers before the model gets them.

The words are OpenVINO Model Server's. A driver either does all of it or refuses the model: numbers
without the configured preprocessing would give wrong answers silently.

A value for both sides is written `CLIENT:MODEL`, as in `NHWC:NCHW`.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ie_serving.core.settings.declaration import SettingKind, choice
from ie_serving.core.settings.faults import Faults, fault
from ie_serving.core.settings.structures import json_text
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.integers import INT32_MAX

RESIZES = ("linear", "cubic", "nearest", "bilinear_pillow", "bicubic_pillow")
"""Ways to resize, by OpenVINO's names; the last two give what Pillow gives."""


@dataclass(frozen=True)
class PropertyPair:
    """A property, such as the layout, on the client's side and on the model's side.

    Attributes:
        client: value for clients, for example layout `NHWC`, colours `BGR`, element type `u8`.
        model: empty where the model file decides.
    """

    client: str
    model: str = ""

    def __str__(self) -> str:
        return ":".join(filter(None, (self.client, self.model)))


_LAYOUT = re.compile(r"(?=[^.]|\.\.\.)[A-Z?]*(?:\.\.\.)?[A-Z?]*")
_LAYOUT_EXPECTED = (
    "a layout such as NCHW, CLIENT:MODEL of the same dimensions such as NHWC:NCHW, or an object of"
    " those by input or output"
)
_NUMBERS_EXPECTED = "one number, or one for each channel such as [123.675,116.28,103.53]"

COLOURS = ("BGR", "RGB")
LEAST_SCALE = 1e-30
"""A smaller scale counts as 0: float32 ends near 1e-38, and every quotient would be infinite."""
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


def layout(value: object, place: str) -> PropertyPair | Mapping[str, PropertyPair]:
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


def _layout(value: object, place: str) -> PropertyPair:
    sides = [side.strip().upper() for side in value.split(":")] if isinstance(value, str) else []
    if len(sides) not in (1, 2) or not all(map(_is_layout, sides)):
        raise fault(place, value, _LAYOUT_EXPECTED)
    # A transposition needs to know every dimension, and where it goes.
    if len(sides) == 2 and sorted(sides[0]) != sorted(sides[1]):
        raise fault(place, value, _LAYOUT_EXPECTED)
    return PropertyPair(*sides)


def _is_layout(text: str) -> bool:
    names = re.sub(r"[^A-Z]", "", text)
    return bool(text and _LAYOUT.fullmatch(text)) and len(set(names)) == len(names)


def mean(value: object, place: str) -> tuple[float, ...]:
    """Read the numbers to subtract: `127.5`, `[1,2,3]` or `(1,2,3)`."""
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
    """Read the divisors, written as `mean`; none is zero."""
    numbers = mean(value, place)
    if min(map(abs, numbers)) < LEAST_SCALE:
        raise fault(place, value, f"{_NUMBERS_EXPECTED}, none of them 0: it is divided by")
    return numbers


# Python takes True for a number. The bound is far above means and scales of any image, and far
# below the end of float32, in which they are mostly computed: more is a mistake.
def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= INT32_MAX and math.isfinite(value)


def color_format(value: object, place: str) -> PropertyPair:
    """Read `CLIENT:MODEL`, or one word for both."""
    sides = _sides(value)
    if not all(side.upper() in COLOURS for side in sides):
        raise fault(place, value, "CLIENT:MODEL of RGB and BGR, such as BGR:RGB")
    return PropertyPair(sides[0].upper(), sides[-1].upper())


def precision(value: object, place: str) -> PropertyPair:
    """Read `CLIENT:MODEL`; one word is the client's, and the model's stays."""
    sides = [_type(side) for side in _sides(value)]
    if not all(sides):
        known = ", ".join(sorted(TYPES))
        raise fault(place, value, f"CLIENT:MODEL such as uint8:fp32, of {known}")
    return PropertyPair(*sides)


def _sides(value: object) -> list[str]:
    sides = [side.strip() for side in value.split(":")] if isinstance(value, str) else []
    return sides if len(sides) in (1, 2) else [""]


def _type(word: str) -> str:
    """Give OpenVINO's name of a type by either name; empty for an unknown one."""
    low = word.lower()
    return TYPES.get(low, low if low in TYPES.values() else "")


LAYOUT: Final = SettingKind(layout, "CLIENT:MODEL|{NAME:CLIENT:MODEL}")
MEAN: Final = SettingKind(mean, "X|[X,..]")
SCALE: Final = SettingKind(scale, "X|[X,..]")
COLOR_FORMAT: Final = SettingKind(color_format, "CLIENT:MODEL")
PRECISION: Final = SettingKind(precision, "CLIENT:MODEL")


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """One model's part; see `EngineOptions.own`."""

    layout: PropertyPair | Mapping[str, PropertyPair] | None = LAYOUT.setting(
        None,
        "order of dimensions that clients send and get, and the model's; one alone says which"
        " dimension is the batch (N) and which the channels (C)",
        "NHWC:NCHW",
        shown="the model's",
        ovms="layout",
    )
    """Layout of the only input, or layouts by name of an input or output."""

    mean: tuple[float, ...] = MEAN.setting(
        (),
        "subtracted from the input: one number, or one for each channel of the model",
        "[123.675,116.28,103.53]",
        shown="none",
        ovms="mean",
    )
    """Numbers in the model's order of colours."""

    scale: tuple[float, ...] = SCALE.setting(
        (),
        "divisor of the input, after the mean",
        "[58.395,57.12,57.375]",
        shown="none",
        ovms="scale",
    )
    """One number, or one for each channel."""

    color_format: PropertyPair | None = COLOR_FORMAT.setting(
        None,
        "order of colours that clients send, and the model's: RGB or BGR",
        "BGR:RGB",
        shown="the model's",
        ovms="color_format",
    )
    precision: PropertyPair | None = PRECISION.setting(
        None,
        "element type that clients send, and the one that mean and scale are computed in",
        "uint8:fp32",
        shown="the model's",
        ovms="precision",
    )
    """Element type, by OpenVINO's names, such as `u8` and `f32`."""

    resize: str = choice(*RESIZES).setting(
        "",
        "take images of any height and width, and resize them to those of the model; layout says"
        " which dimensions they are",
        "linear",
        shown="the model's size only",
    )

    @property
    def layouts(self) -> Mapping[str, PropertyPair]:
        """The layouts by name; empty where there is one for the only input, or none."""
        return self.layout if isinstance(self.layout, Mapping) else {}

    @property
    def of_only_input(self) -> bool:
        """Whether an option is set that requires the model to have a single input."""
        single = self.layout if isinstance(self.layout, PropertyPair) else None
        own = (self.mean, self.scale, self.color_format, self.precision, self.resize)
        return any((single, *own))

    @property
    def asked(self) -> str:
        """Names of the settings that are set; empty where none is."""
        return ", ".join(name for name, value in vars(self).items() if value)

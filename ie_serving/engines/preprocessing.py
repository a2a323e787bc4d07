"""Options of preprocessing: the computations on a client's numbers before the model gets them.

The words are OpenVINO Model Server's. A driver either does all of it or refuses the model: numbers
without the configured preprocessing would give wrong answers silently.
"""

from collections.abc import Mapping
from dataclasses import dataclass

RESIZES = ("linear", "cubic", "nearest", "bilinear_pillow", "bicubic_pillow")
"""Ways to resize, by OpenVINO's names; the last two give what Pillow gives."""


@dataclass(frozen=True)
class Pair:
    """A property, such as the layout, on the client's side and on the model's side.

    Attributes:
        client: for example layout `NHWC`, colours `BGR`, element type `u8`.
        model: empty where the model file decides.
    """

    client: str
    model: str = ""

    def __str__(self) -> str:
        return ":".join(filter(None, (self.client, self.model)))


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """One model's part; see `EngineOptions.own`."""

    layout: Pair | Mapping[str, Pair] | None = None
    """Order of dimensions, of the only input or by name of an input or output."""

    mean: tuple[float, ...] = ()
    """Subtracted: one number, or one for each channel in the model's order of colours."""

    scale: tuple[float, ...] = ()
    """Divided by, after the mean: one number, or one for each channel."""

    color_format: Pair | None = None
    """Order of colours: `RGB` or `BGR`."""

    precision: Pair | None = None
    """Element type, by OpenVINO's names, such as `u8` and `f32`."""

    resize: str = ""
    """How images of any size become those of the model: `linear`, `cubic`, `nearest`, or as Pillow
    does, `bilinear_pillow` and `bicubic_pillow`; empty takes the model's size only."""

    @property
    def layouts(self) -> Mapping[str, Pair]:
        """The layouts by name; empty where there is one for the only input, or none."""
        return self.layout if isinstance(self.layout, Mapping) else {}

    @property
    def of_only_input(self) -> bool:
        """Whether an option is set that requires the model to have a single input."""
        single = self.layout if isinstance(self.layout, Pair) else None
        own = (self.mean, self.scale, self.color_format, self.precision, self.resize)
        return any((single, *own))

    @property
    def asked(self) -> str:
        """Names of the settings that are set; empty where none is."""
        return ", ".join(name for name, value in vars(self).items() if value)

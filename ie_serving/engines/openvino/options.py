"""The options of a model that only OpenVINO has, and the parser of shapes; without the library.

The setting `shape` is `(1,3,224,224)`, a list, an object of those by input, or `auto`. A dimension
is a size, -1 for any, or `low:high`. Text of 2020 is taken as it was documented,
`{input1:(1,3,224,224)}` with and without quotes; unreadable text is a fault, never ignored.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ie_serving.core.settings import numbers, structures, words
from ie_serving.core.settings.declaration import BOOLEAN, SettingKind, choice
from ie_serving.core.settings.faults import Faults, fault
from ie_serving.core.settings.numbers import ANY, Dimension, size_range, whole
from ie_serving.core.settings.structures import json_text
from ie_serving.core.values.integers import INT32_MAX

AUTO = "auto"

Dimensions = tuple[Dimension, ...]
ShapeOption = Mapping[str, Dimensions | str] | Dimensions | str

_EXPECTED = (
    '"auto", dimensions such as (1,3,224,224), or an object of those by input; '
    "a dimension is a size, -1 for any, or low:high"
)
_BRACKETS = re.compile(r"\s*(?:\(([^()\[\]]*)\)|\[([^()\[\]]*)\])\s*")
_NAMED = re.compile(
    r"\s*(?:\"([^\"]*)\"|'([^']*)'|([^\"'{}()\[\],\s]+?))\s*:"
    r"\s*(\([^()\[\]]*\)|\[[^()\[\]]*\]|\"?(?i:auto)\"?)\s*(?:,|$)"
)

PRECISION_NAMES = frozenset({"INFERENCE_PRECISION_HINT", "ENFORCE_BF16"})
"""Properties that say the precision: today's, and that of 2020."""
MODE = "EXECUTION_MODE_HINT"
ACCURACY = "ACCURACY"
"""Execution mode that says the precision, too: operations compute in none below the model's."""


def shape(value: object, place: str) -> ShapeOption:
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


def _from_text(value: str, place: str) -> ShapeOption:
    given = value.strip()
    if _is_auto(given):
        return AUTO
    if not given.startswith("{"):
        return _dimensions(given, place)
    named = _shapes_by_name(given)
    return _by_input(json_text(given, place) if named is None else named, place)


def _shapes_by_name(given: str) -> dict[str, str] | None:
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


@dataclass(frozen=True, kw_only=True)
class OpenVinoOptions:
    """How OpenVINO compiles one model."""

    batch_size: Dimension | None = SettingKind(numbers.batch_size, "N|N:M|auto").setting(
        None,
        "first dimension of every input, or what layout calls N; a range; auto takes any;"
        " ignored beside shape",
        "auto",
        shown="the model's",
        ovms="batch_size",
    )
    """Batch dimension of every input: a number, -1 for any (`auto`), a range; None keeps the
    model's. It is the first dimension, or N in `layout`."""

    shape: ShapeOption | None = SHAPE.setting(
        None,
        "input shapes: sizes, -1 for any, low:high for a range; auto takes any",
        "(1,3,224,224)",
        shown="the model's",
        ovms="shape",
        is_common=True,
    )
    """New input shapes: by input name, one for the only input, `auto` for any, None to keep."""

    # The device's plugin alone knows which names it takes; it refuses others at load.
    target_device: str = SettingKind(words.text, "DEVICE").setting(
        "CPU",
        "OpenVINO device, such as CPU, GPU, AUTO or HETERO:GPU,CPU",
        "HETERO:GPU,CPU",
        ovms="target_device",
    )
    plugin_config: Mapping[str, str] = SettingKind(structures.plugin_config, "JSON").setting(
        {},
        'device properties, such as {"NUM_STREAMS": "2"}',
        '{"NUM_STREAMS": "2"}',
        shown="{}",
        ovms="plugin_config",
    )
    """Device properties, passed on as they are; names of 2020 are translated."""

    inference_precision: str = choice("f32", "bf16", "f16", "auto").setting(
        "",
        "precision that the device computes in; auto: a lower one than f32 where requests show"
        " at load that it is faster, and within precision_tolerance",
        "f32",
        shown="auto on CPUs, else the device's choice",
        tfs="mixed_precision",
        for_all=True,
        is_common=True,
    )
    """`f32`, `bf16` or `f16`. `auto`, and empty for a CPU, are for the layer above the engine,
    which tries the lower ones on requests; empty for other devices keeps their own choice."""

    is_precision_tried: bool = False
    """Whether `layers/precision.py` has chosen the precision, so that no setting asks for it."""

    precision_tolerance: float = SettingKind(numbers.share, "SHARE").setting(
        0.01,
        "largest difference from f32 with which inference_precision auto takes a lower"
        " precision, as a share of the largest number of each output",
        "0.002",
        tfs="precision_tolerance",
        for_all=True,
    )
    # Exact: a wrong number looks like any other, and models that compute with large ones are few.
    integers: str = choice("exact", "fast", "refuse").setting(
        "exact",
        "operations on integers that OpenVINO computes wrongly (above 2^24, beyond 32 bits; 8"
        " bits without VNNI): exact mends them, or refuses the request; fast leaves them; refuse"
        " does not serve the model",
        "fast",
        for_all=True,
    )
    live_tuning: str = choice("auto", "off").setting(
        AUTO,
        "try faster ways to compute a model on the requests that clients send: compiled for their"
        " shapes alone, or by onnxruntime or LiteRT; off saves the memory of a second model",
        "off",
        for_all=True,
    )
    # The setting belongs to a model; its library is there for other models, too.
    cpu_extension: str = SettingKind(words.library, "FILE").setting(
        "",
        "library with operations that OpenVINO lacks; it is loaded into the server and stays",
        "libmine.so",
        shown="none",
        ovms="cpu_extension",
        variables="CPU_EXTENSION",
        for_all=True,
    )
    prefer_tflite_model: bool = BOOLEAN.setting(
        False,
        "of a version that holds a *.tflite and another model too, serve the *.tflite",
        tfs="prefer_tflite_model",
    )

    @property
    def leaves_precision(self) -> bool:
        """Whether a CPU computes, and no setting gives the precision."""
        is_cpu = self.target_device.partition(".")[0].upper() == "CPU"
        return is_cpu and not self.inference_precision and not self.says_precision

    @property
    def says_precision(self) -> bool:
        """Whether `plugin_config` says the precision."""
        names = (name.removeprefix("KEY_") for name in self.plugin_config)
        return self.plugin_config.get(MODE) == ACCURACY or not PRECISION_NAMES.isdisjoint(names)

"""OpenVINO's own part of a model's options. Settings hold it, so the library is not imported."""

from collections.abc import Mapping
from dataclasses import dataclass

from ie_serving.core.settings import numbers, structures, words
from ie_serving.core.settings.declaration import BOOLEAN, SettingKind, choice
from ie_serving.core.settings.numbers import Dimension
from ie_serving.engines.openvino.shapes import SHAPE, Shape

AUTO = "auto"
"""The precision is chosen at load, by a trial with recorded requests."""
PRECISION_NAMES = frozenset({"INFERENCE_PRECISION_HINT", "ENFORCE_BF16"})
"""Properties that say the precision: today's, and that of 2020."""
MODE = "EXECUTION_MODE_HINT"
ACCURACY = "ACCURACY"
"""Execution mode that says the precision, too: operations compute in none below the model's."""


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

    shape: Shape | None = SHAPE.setting(
        None,
        "input shapes: sizes, -1 for any, low:high for a range; auto takes any",
        "(1,3,224,224)",
        shown="the model's",
        ovms="shape",
        is_common=True,
    )
    """New input shapes: by input name, one for the only input, `auto` for any, None to keep."""

    # Only the device's plugin knows which names it takes; it refuses others at load.
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
    # Of a model, since a model may need it; once loaded, it is there for other models too.
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

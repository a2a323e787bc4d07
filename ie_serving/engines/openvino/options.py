"""OpenVINO's own part of a model's options. Settings hold it, so the library is not imported."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ie_serving.engines.base import Dimension

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

    target_device: str = "CPU"
    """OpenVINO device string, passed on as it is: `CPU`, `GPU`, `AUTO`, `HETERO:GPU,CPU`."""

    plugin_config: Mapping[str, str] = field(default_factory=dict)
    """Device properties, passed on as they are; names of 2020 are translated."""

    batch_size: Dimension | None = None
    """Batch dimension of every input: a number, -1 for any (`auto`), a range; None keeps the
    model's. It is the first dimension, or N in `layout`."""

    shape: Mapping[str, tuple[Dimension, ...] | str] | tuple[Dimension, ...] | str | None = None
    """New input shapes: by input name, one for the only input, `auto` for any, None to keep."""

    inference_precision: str = ""
    """`f32`, `bf16` or `f16`. `auto`, and empty for a CPU, are for the layer above the engine,
    which tries the lower ones on requests; empty for other devices keeps their own choice."""

    precision_tolerance: float = 0.01
    """Largest difference from f32 with which `auto` takes a lower precision, as a share of the
    largest number of each output."""

    cpu_extension: str = ""
    """Path of a library with operations that OpenVINO lacks; empty loads none. It is
    loaded into the process's one core, so that other models may use it too."""

    integers: str = "exact"
    """`exact`, `fast` or `refuse`: treatment of operations on integers that the CPU plugin would
    compute wrongly. They are made exact; or left unchanged; or the model is refused."""

    prefer_tflite_model: bool = False
    """Of a version that holds a `*.tflite` and another model too, serve the `*.tflite`."""

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

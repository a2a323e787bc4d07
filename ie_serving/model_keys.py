"""The keys of one model: the only table of their names, meanings and parsers.

The configuration file (`config_file.py`), the command line (`cli.py`) and the test of
`docs/configuration.md` all read it. A default is that of the field in `settings.py`.
"""

import dataclasses
import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ie_serving import values
from ie_serving.engines.base import EngineOptions
from ie_serving.settings import ModelConfig
from ie_serving.shapes import shape


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key of a model.

    Attributes:
        name: in the configuration file.
        flag: on the command line, without dashes; empty when it has none.
        field: of `ModelConfig`, or of `EngineOptions` when `engine`.
        form: how a value is written.
        default: as help shows it.
    """

    name: str
    flag: str
    field: str
    parse: values.Parser[Any]
    form: str
    default: str
    meaning: str
    engine: bool = False
    required: bool = False


KEYS: tuple[Key, ...] = (
    Key(
        name="name",
        flag="model_name",
        field="name",
        parse=values.text,
        form="TEXT",
        default="required",
        meaning="name in requests",
        required=True,
    ),
    Key(
        name="base_path",
        flag="model_path",
        field="base_path",
        parse=values.text,
        form="PATH|URL",
        default="required",
        meaning="directory or URL whose numeric sub-directories are the versions",
        required=True,
    ),
    Key(
        name="batch_size",
        flag="batch_size",
        field="batch_size",
        parse=values.batch_size,
        form="N|auto",
        default="the model's",
        meaning="first dimension of every input; auto takes any; ignored beside shape",
        engine=True,
    ),
    Key(
        name="shape",
        flag="shape",
        field="shape",
        parse=shape,
        form="(N,..)|{INPUT:(N,..)}|auto",
        default="the model's",
        meaning="input shapes: sizes, -1 for any, low:high for a range; auto takes any",
        engine=True,
    ),
    Key(
        name="model_version_policy",
        flag="model_version_policy",
        field="version_policy",
        parse=values.version_policy,
        form="JSON",
        default='{"latest": {"num_versions": 1}}',
        meaning="versions that are served: latest (N newest), all, or specific",
    ),
    Key(
        name="version_labels",
        flag="version_labels",
        field="version_labels",
        parse=values.version_labels,
        form="JSON",
        default="{}",
        meaning='labels, each with its version, such as {"stable": 3}',
    ),
    Key(
        name="nireq",
        flag="nireq",
        field="nireq",
        parse=values.count,
        form="N",
        default="0",
        meaning="infer requests run at once; 0 lets the engine choose",
        engine=True,
    ),
    Key(
        name="target_device",
        flag="target_device",
        field="target_device",
        parse=values.text,
        form="DEVICE",
        default="CPU",
        meaning="OpenVINO device, such as CPU, GPU, AUTO or HETERO:GPU,CPU",
        engine=True,
    ),
    Key(
        name="plugin_config",
        flag="plugin_config",
        field="plugin_config",
        parse=values.plugin_config,
        form="JSON",
        default="{}",
        meaning='device properties, such as {"NUM_STREAMS": "2"}',
        engine=True,
    ),
    Key(
        name="inference_precision",
        flag="inference_precision",
        field="inference_precision",
        parse=values.precision,
        form="f32|bf16|f16",
        default="the device's choice",
        meaning="precision that the device computes in",
        engine=True,
    ),
    Key(
        name="execution",
        flag="execution",
        field="execution",
        parse=values.execution,
        form="auto|inline|async",
        default="auto",
        meaning="infer on the event loop or beside it; auto: short inferences on it",
        engine=True,
    ),
    Key(
        name="poll_wait_seconds",
        flag="",
        field="poll_wait_s",
        parse=values.poll_wait,
        form="SECONDS",
        default="the server's",
        meaning="seconds between two listings of this model's repository; 0 lists once",
    ),
    Key(
        name="ready_marker",
        flag="ready_marker",
        field="ready_marker",
        parse=values.file_name,
        form="FILE",
        default="none",
        meaning="file that must lie in a version directory before it is loaded",
    ),
)

OVMS_KEYS = frozenset(
    {
        "layout",
        "mean",
        "scale",
        "color_format",
        "precision",
        "allow_cache",
        "stateful",
        "idle_sequence_cleanup",
        "low_latency_transformation",
        "max_sequence_number",
        "custom_loader_options",
        "graph_path",
        "subconfig",
    }
)
"""Keys of a model that only OpenVINO Model Server has. Source: its `schema.cpp`."""

BOTH_SHAPES = (
    "Both shape and batch_size parameters are set for model: {name}. "
    "Assuming that model is reshapable - batch_size will be ignored"
)
"""Source: the warning of 2020."""


def model_config(found: Mapping[str, Any], engine: EngineOptions) -> tuple[ModelConfig, list[str]]:
    """Build a model from parsed values by key name.

    Args:
        found: every required key at least.
        engine: options that hold where `found` says nothing.

    Returns:
        The model, and warnings.
    """
    both = found.get("shape") is not None and found.get("batch_size") is not None
    warnings = [BOTH_SHAPES.format(name=found["name"])] if both else []
    given = [key for key in KEYS if key.name in found and not (both and key.name == "batch_size")]
    options = {key.field: found[key.name] for key in given if key.engine}
    fields = {key.field: found[key.name] for key in given if not key.engine}
    return ModelConfig(**fields, engine=dataclasses.replace(engine, **options)), warnings


def nearest(name: str, known: Collection[str]) -> str:
    """Give the tail of a text about an unknown name: `; did you mean "..."?`, or nothing."""
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f'; did you mean "{close[0]}"?' if close else ""

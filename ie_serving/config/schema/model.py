"""The settings of one model: keys of an entry in the JSON file, flags of `ie_serving model`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ie_serving.config.schema.batching import BATCHING, ROWS
from ie_serving.config.schema.kernels import KERNELS, driver_of
from ie_serving.config.schema.preprocess import PREPROCESS
from ie_serving.config.schema.sequences import SEQUENCES
from ie_serving.config.schema.setting import BOOLEAN, Setting, fields_of
from ie_serving.config.values import drivers, numbers, structures, words
from ie_serving.config.values.shapes import shape
from ie_serving.core.values.integers import INT64_MAX
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.batching import Batching
from ie_serving.engines.drivers import names
from ie_serving.engines.hooks import HookOptions
from ie_serving.engines.kernels import KernelOptions
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.preprocessing import Preprocessing
from ie_serving.engines.sequences import Sequences
from ie_serving.engines.tensorflow.options import TensorFlowOptions
from ie_serving.models.configuration import ModelConfig

INFERENCE_PRECISION = Setting(
    place="openvino.inference_precision",
    parse=words.one_of("f32", "bf16", "f16", "auto"),
    form="f32|bf16|f16|auto",
    default="auto on CPUs, else the device's choice",
    meaning="precision that the device computes in; auto: a lower one than f32 where requests show"
    " at load that it is faster, and within precision_tolerance",
    example="f32",
    flag="inference_precision",
    key="inference_precision",
    tfs="mixed_precision",
)

PRECISION_TOLERANCE = Setting(
    place="openvino.precision_tolerance",
    parse=numbers.share,
    form="SHARE",
    meaning="largest difference from f32 with which inference_precision auto takes a lower"
    " precision, as a share of the largest number of each output",
    example="0.002",
    flag="precision_tolerance",
    key="precision_tolerance",
    tfs="precision_tolerance",
)

# Exact: a wrong number looks like any other, and models that compute with large ones are few.
INTEGERS = Setting(
    place="openvino.integers",
    parse=words.one_of("exact", "fast", "refuse"),
    form="exact|fast|refuse",
    meaning="operations on integers that OpenVINO computes wrongly (above 2^24, beyond 32 bits; 8"
    " bits without VNNI): exact mends them, or refuses the request; fast leaves them; refuse does"
    " not serve the model",
    example="fast",
    flag="integers",
    key="integers",
)

# Of a model, since a model may need it; once loaded, it is there for other models too.
CPU_EXTENSION = Setting(
    place="openvino.cpu_extension",
    parse=words.library,
    form="FILE",
    default="none",
    meaning="library with operations that OpenVINO lacks; it is loaded into the server and stays",
    example="libmine.so",
    flag="cpu_extension",
    key="cpu_extension",
    variables=("CPU_EXTENSION",),
    ovms=("cpu_extension",),
)

TENSORFLOW: tuple[Setting, ...] = (
    # Off: it takes half a gigabyte and seconds, and a refusal by OpenVINO should be noticed.
    Setting(
        place="tensorflow.fallback",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="let TensorFlow run the signatures of a SavedModel that nothing else here can, in a"
        " process of its own; needs ie_serving[tensorflow]",
        example="true",
        flag="tensorflow_fallback",
        key="tensorflow_fallback",
        tfs="tensorflow_fallback",
    ),
    Setting(
        place="tensorflow.custom_op_paths",
        parse=words.files,
        form="FILE,..",
        default="none",
        meaning="libraries of custom operations that TensorFlow's process loads",
        example="zero_out.so",
        flag="custom_op_paths",
        key="custom_op_paths",
        tfs="custom_op_paths",
    ),
    Setting(
        place="tensorflow.memory_bytes",
        parse=numbers.integer(0, INT64_MAX),
        form="BYTES",
        meaning="private memory in bytes that TensorFlow's process of one version may take; 0 sets"
        " no limit",
        example="4294967296",
        flag="tensorflow_memory_bytes",
        key="tensorflow_memory_bytes",
        tfs="tensorflow_memory_bytes",
    ),
)

FOR_ALL: tuple[Setting, ...] = (
    INFERENCE_PRECISION,
    PRECISION_TOLERANCE,
    INTEGERS,
    CPU_EXTENSION,
    *TENSORFLOW,
)
"""Also flags of `ie_serving config`, for models whose entries name none."""

MODEL: tuple[Setting, ...] = (
    Setting(
        place="model.name",
        parse=words.name,
        form="TEXT",
        required=True,
        meaning="name in requests",
        example="resnet",
        flag="model_name",
        key="name",
        tfs="model_name",
        ovms=("model_name", "name"),
    ),
    Setting(
        place="model.base_path",
        parse=words.text,
        form="PATH|URL",
        required=True,
        meaning="directory or URL whose numeric sub-directories are the versions",
        example="s3://models/resnet",
        flag="model_path",
        key="base_path",
        tfs="model_base_path",
        ovms=("model_path", "base_path"),
    ),
    Setting(
        place="openvino.batch_size",
        parse=numbers.batch_size,
        form="N|N:M|auto",
        default="the model's",
        meaning="first dimension of every input, or what layout calls N; a range; auto takes any;"
        " ignored beside shape",
        example="auto",
        flag="batch_size",
        key="batch_size",
        ovms=("batch_size",),
    ),
    Setting(
        place="openvino.shape",
        parse=shape,
        form="(N,..)|auto|{INPUT:(N,..)|auto}",
        default="the model's",
        meaning="input shapes: sizes, -1 for any, low:high for a range; auto takes any",
        example="(1,3,224,224)",
        flag="shape",
        key="shape",
        ovms=("shape",),
    ),
    *PREPROCESS,
    Setting(
        place="model.version_policy",
        parse=structures.version_policy,
        form="JSON",
        default='{"latest": {"num_versions": 1}}',
        meaning="versions that are served: latest (N newest), all, or specific",
        example='{"specific": {"versions": [1, 3]}}',
        flag="model_version_policy",
        key="model_version_policy",
        ovms=("model_version_policy",),
    ),
    Setting(
        place="model.version_labels",
        parse=structures.version_labels,
        form="JSON",
        default="{}",
        meaning='labels, each with its version, such as {"stable": 3}',
        example='{"stable": 3}',
        flag="version_labels",
        key="version_labels",
    ),
    Setting(
        place="engine.driver",
        parse=drivers.name,
        form="|".join(names()),
        meaning="library that runs the model, or a driver of another package; auto: by the files,"
        " and onnxruntime for ONNX with operators of ai.onnx.ml",
        example="openvino",
        flag="driver",
        key="driver",
    ),
    Setting(
        place="engine.params",
        parse=structures.params,
        form="JSON",
        default="{}",
        meaning="what the driver is told beyond the files; docs/guide/libraries.md has the words"
        " of each",
        example='{"inputs": {"text": {"dtype": "string", "shape": [-1]}}}',
        flag="params",
        key="params",
    ),
    Setting(
        place="engine.nireq",
        # Each infer request has tensors of its own: far fewer than 100,000 exhaust any memory.
        parse=numbers.integer(0, 100_000),
        form="N",
        meaning="infer requests run at once; 0 lets the engine choose",
        example="4",
        flag="nireq",
        key="nireq",
        ovms=("nireq",),
    ),
    Setting(
        place="engine.image_inputs",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="take JPEG, PNG or WebP as strings for inputs of four dimensions with 1 or 3"
        " channels",
        example="false",
        flag="image_inputs",
        key="image_inputs",
    ),
    Setting(
        place="engine.verify",
        parse=words.one_of("auto", "off", "require"),
        form="auto|off|require",
        meaning="compare ONNX models with onnxruntime and TFLite with LiteRT before they serve:"
        " where these are installed; never; always, so that OpenVINO serves nothing that was not"
        " compared",
        example="require",
        flag="verify",
        key="verify",
    ),
    Setting(
        place="openvino.target_device",
        # Only the device's plugin knows which names it takes; it refuses others at load.
        parse=words.text,
        form="DEVICE",
        meaning="OpenVINO device, such as CPU, GPU, AUTO or HETERO:GPU,CPU",
        example="HETERO:GPU,CPU",
        flag="target_device",
        key="target_device",
        ovms=("target_device",),
    ),
    Setting(
        place="openvino.plugin_config",
        parse=structures.plugin_config,
        form="JSON",
        default="{}",
        meaning='device properties, such as {"NUM_STREAMS": "2"}',
        example='{"NUM_STREAMS": "2"}',
        flag="plugin_config",
        key="plugin_config",
        ovms=("plugin_config",),
    ),
    INFERENCE_PRECISION,
    PRECISION_TOLERANCE,
    INTEGERS,
    CPU_EXTENSION,
    Setting(
        place="openvino.prefer_tflite_model",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="of a version that holds a *.tflite and another model too, serve the *.tflite",
        example="true",
        flag="prefer_tflite_model",
        key="prefer_tflite_model",
        tfs="prefer_tflite_model",
    ),
    # For measuring, and for where `auto` chooses wrongly.
    Setting(
        place="engine.execution",
        parse=words.one_of("auto", "inline", "async"),
        form="auto|inline|async",
        meaning="infer on the event loop or beside it; auto: short inferences on it",
        example="async",
        flag="execution",
        key="execution",
    ),
    *KERNELS,
    *BATCHING,
    *SEQUENCES,
    *TENSORFLOW,
    # No flag: where one model is served, the server's interval is its own.
    Setting(
        place="model.poll_wait_s",
        parse=numbers.poll_wait,
        form="SECONDS",
        default="the server's",
        meaning="seconds between two listings of this model's repository; 0 lists once",
        example="60",
        key="poll_wait_seconds",
    ),
    Setting(
        place="model.ready_marker",
        parse=words.file_name,
        form="FILE",
        meaning="file that must lie in a version directory before it is loaded",
        example="READY",
        flag="ready_marker",
        key="ready_marker",
    ),
)

BOTH_SHAPES = (
    "Both shape and batch_size parameters are set for model: {name}. "
    "Assuming that model is reshapable - batch_size will be ignored"
)
"""Source: the warning of 2020."""


def model_config(found: Mapping[str, Any], engine: EngineOptions) -> tuple[ModelConfig, list[str]]:
    """Build a model from parsed values.

    Args:
        found: value of each setting by its place; every required one at least.
        engine: options that hold where `found` says nothing.

    Returns:
        The model, and warnings.
    """
    both = found.get("openvino.shape") is not None and found.get("openvino.batch_size") is not None
    warnings = [BOTH_SHAPES.format(name=found["model.name"])] if both else []
    # The shape says the batch as well. Two values for one dimension would need a winner anyway, and
    # 2020 documented this one.
    ignored = "openvino.batch_size" if both else ""
    given = {setting: found[setting.place] for setting in MODEL if setting.place in found}
    # Values of drivers stay under their places: which driver they are for is part of those.
    options, fields = (fields_of(owner, found) for owner in ("engine", "model"))
    of_drivers = {setting.place: v for setting, v in given.items() if setting.place != ignored}
    options |= driver_of(found)
    compiled = with_own(dataclasses.replace(engine, **options), of_drivers)
    warnings += _without_batches(found, compiled.of(Batching))
    return ModelConfig(**fields, engine=compiled), warnings


def _without_batches(found: Mapping[str, Any], batching: Batching) -> list[str]:
    """Warn of settings of batches without effect, unless `max_batch_size` 0 says so itself."""
    named = {each.place: each.key for each in BATCHING if each.place in found}
    if not named or ROWS in named or batching.rows or batching.in_version:
        return []
    listed = ", ".join(named.values())
    return [f"{listed} of model {found['model.name']}: no effect without max_batch_size"]


def with_own(engine: EngineOptions, found: Mapping[str, Any]) -> EngineOptions:
    """Give options whose driver-specific parts have the values of `found`, by place."""
    own = fields_of("openvino", found)
    openvino = dataclasses.replace(engine.of(OpenVinoOptions), **own)
    if "inference_precision" not in own and OpenVinoOptions(**own).says_precision:
        # A model's setting in OpenVINO's words takes precedence over the one for every model.
        openvino = dataclasses.replace(openvino, inference_precision="")
    tensorflow = dataclasses.replace(engine.of(TensorFlowOptions), **fields_of("tensorflow", found))
    steps = dataclasses.replace(engine.of(Preprocessing), **fields_of("preprocess", found))
    batching = dataclasses.replace(engine.of(Batching), **fields_of("batching", found))
    sequences = dataclasses.replace(engine.of(Sequences), **fields_of("sequences", found))
    kernel = dataclasses.replace(engine.of(KernelOptions), **fields_of("kernel", found))
    hooks = dataclasses.replace(engine.of(HookOptions), **fields_of("hooks", found))
    for options in (openvino, tensorflow, steps, batching, sequences, kernel, hooks):
        engine = engine.having(options)
    return engine


def with_keys(engine: EngineOptions, keys: Mapping[str, Any]) -> EngineOptions:
    """Give options with keys of a model's entry added, which are read as those of the file are.

    Raises:
        ConfigError: a value is none.
    """
    found = {each.place: each.parse(keys[each.key], each.key) for each in MODEL if each.key in keys}
    return with_own(dataclasses.replace(engine, **fields_of("engine", found)), found)

"""The flags of `tensorflow_model_server`. Source: main.cc of TensorFlow Serving.

A flag is `--name=value`; a boolean one may be bare. Names, types and defaults are the original's.
The setting names its flag, on its field, and `READ` turns the flag's value into the setting's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ie_serving.config.schema.catalogue import BY_TFS
from ie_serving.config.settings import ServerSettings
from ie_serving.core.settings import numbers, structures, words
from ie_serving.core.settings.faults import Parser
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.integers import INT32_MAX, INT64_MAX
from ie_serving.engines.openvino.options import OpenVinoOptions

FlagValue = bool | int | float | str

READ: Mapping[str, Callable[[Any], Any]] = {
    "grpc_channel_arguments": lambda text: (
        structures.arguments(text, "--grpc_channel_arguments") if text else {}
    ),
    "rest_api_timeout_in_ms": lambda milliseconds: float(milliseconds) / 1000,
    "file_system_poll_wait_seconds": lambda seconds: max(float(seconds), 0.0),
    "model_config_file_poll_wait_seconds": lambda seconds: max(float(seconds), 0.0),
    # 0 is the original's default, and takes ours.
    "num_load_threads": lambda threads: max(threads, 0) or ServerSettings.load_threads,
    "num_request_iterations_for_warmup": lambda number: max(number, 1),
}
"""Conversions of a flag's value to its setting's, where the two differ."""
_PARSERS: Mapping[str, Parser[FlagValue]] = {
    "bool": words.boolean,
    "int32": numbers.integer(-(2**31), INT32_MAX),
    "int64": numbers.integer(-(2**63), INT64_MAX),
    "float": numbers.number,
}


@dataclass(frozen=True)
class TfsFlag:
    """One flag of the original.

    Attributes:
        default: the original's; its type is that of the flag's values.
        own_meaning: meaning of a flag without a setting of ours, or with other units or words.
        is_long: whether a whole number has 64 bits instead of 32.
    """

    name: str
    default: FlagValue
    own_meaning: str = ""
    is_long: bool = False

    @property
    def kind(self) -> str:
        """The original's name of the type of its values."""
        kind = {bool: "bool", int: "int32", float: "float", str: "string"}[type(self.default)]
        return "int64" if self.is_long else kind

    @property
    def meaning(self) -> str:
        """The meaning of the flag; empty if it has no effect here."""
        setting = BY_TFS.get(self.name)
        return self.own_meaning or (setting.meaning if setting else "")


FLAGS: tuple[TfsFlag, ...] = (
    TfsFlag("port", 8500, "gRPC port"),
    TfsFlag("grpc_socket_path", ""),
    TfsFlag("rest_api_port", 0),
    TfsFlag("rest_api_num_threads", 0),
    TfsFlag("rest_api_timeout_in_ms", 30000, "longest time in milliseconds of one REST inference"),
    TfsFlag("rest_api_enable_cors_support", False),
    TfsFlag("enable_batching", False, "gather requests into batches, for each model and signature"),
    TfsFlag(
        "batching_parameters_file", "", "BatchingParameters in text form; needs enable_batching"
    ),
    TfsFlag(
        "enable_per_model_batching_parameters",
        False,
        "take batching_params.pbtxt of each version directory instead, except num_batch_threads;"
        " a version without one is not batched",
    ),
    TfsFlag("allow_version_labels_for_unavailable_models", False),
    TfsFlag(
        "model_config_file",
        "",
        "ModelServerConfig in text form; beats model_name and model_base_path",
    ),
    TfsFlag(
        "model_config_file_poll_wait_seconds",
        0,
        "seconds between two looks at the model_config_file; 0 reads it once",
    ),
    TfsFlag("model_name", "default"),
    TfsFlag(
        "model_base_path", "", "absolute path or URL whose numeric sub-directories are the versions"
    ),
    TfsFlag(
        "num_load_threads", 0, "versions that are loaded at a time; 0 takes the server's default, 2"
    ),
    TfsFlag("num_unload_threads", 0),
    TfsFlag("max_num_load_retries", 5),
    TfsFlag("load_retry_interval_micros", 60_000_000, is_long=True),
    TfsFlag(
        "file_system_poll_wait_seconds",
        1,
        "seconds between two listings of a base path; 0 or less lists once, at start",
    ),
    TfsFlag("flush_filesystem_caches", True),
    TfsFlag(
        "tensorflow_session_parallelism",
        0,
        "threads of one inference; 0 is automatic",
        is_long=True,
    ),
    TfsFlag(
        "tensorflow_intra_op_parallelism",
        0,
        "threads of one inference; 0 is automatic",
        is_long=True,
    ),
    TfsFlag("tensorflow_inter_op_parallelism", 0, is_long=True),
    TfsFlag("tensorflow_session_config_file", ""),
    TfsFlag("use_alts_credentials", False, "refused: there is no ALTS"),
    TfsFlag("ssl_config_file", ""),
    TfsFlag("platform_config_file", ""),
    TfsFlag("per_process_gpu_memory_fraction", 0.0),
    TfsFlag(
        "saved_model_tags",
        "serve",
        "tags of the graph of a SavedModel that is served, separated by commas",
    ),
    TfsFlag("grpc_channel_arguments", ""),
    TfsFlag("grpc_max_threads", 0),
    TfsFlag("enable_model_warmup", True),
    TfsFlag(
        "num_request_iterations_for_warmup",
        0,
        "how often each warm-up record is replayed; 0 or less is once",
    ),
    TfsFlag("dry_run", False, "say what would be served, and by what, and stop"),
    TfsFlag("version", False, "print the versions and stop"),
    TfsFlag(
        "monitoring_config_file", "", "MonitoringConfig in text form: metrics on the REST port"
    ),
    TfsFlag("remove_unused_fields_from_bundle_metagraph", True),
    TfsFlag("prefer_tflite_model", False, "serve a *.tflite that lies beside a SavedModel"),
    TfsFlag("num_tflite_pools", 0),
    TfsFlag("num_tflite_interpreters_per_pool", 1),
    TfsFlag("enable_signature_method_name_check", False),
    TfsFlag("xla_cpu_compilation_enabled", False),
    TfsFlag("xla_gpu_compilation_enabled", False),
    TfsFlag("enable_profiler", True),
    TfsFlag("thread_pool_factory_config_file", ""),
    TfsFlag(
        "mixed_precision",
        "",
        "bfloat16 computes in bf16; empty computes in f32; auto in the lower one where that costs"
        " little",
    ),
    TfsFlag("skip_initialize_tpu", False),
    TfsFlag("enable_grpc_healthcheck_service", False, "grpc.health.v1 is always served"),
    TfsFlag(
        "enable_serialization_as_tensor_content",
        False,
        "encode gRPC outputs as tensor_content instead of the typed lists",
    ),
    # Not the original's, which is TensorFlow itself.
    TfsFlag("tensorflow_fallback", False),
    TfsFlag("custom_op_paths", ""),
    TfsFlag("tensorflow_memory_bytes", 0, is_long=True),
    TfsFlag("precision_tolerance", OpenVinoOptions.precision_tolerance),
    TfsFlag("allow_pickle", False),
    TfsFlag("allow_python", False),
)
BY_NAME: Mapping[str, TfsFlag] = {flag.name: flag for flag in FLAGS}


@dataclass
class SplitCommandLine:
    """A split command line.

    Attributes:
        given: value of each flag that was given; the last one counts.
        unknown: arguments that are not flags of this command.
        unreadable: flags whose value is of another type.
    """

    given: dict[str, FlagValue] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def value(self, name: str) -> FlagValue:
        """Give a flag's value or default."""
        return self.given.get(name, BY_NAME[name].default)

    def text(self, name: str) -> str:
        """Give the value of a flag of text."""
        return str(self.value(name))

    def integer(self, name: str) -> int:
        """Give the value of a flag of a whole number."""
        return int(self.value(name))

    def on(self, name: str) -> bool:
        """Give the value of a boolean flag."""
        return bool(self.value(name))


# The original skips unknown arguments, so that one manifest fits several of its versions; a value
# after a blank is such an argument too.
def split(argv: Sequence[str]) -> SplitCommandLine:
    """Split a command line; refuse nothing."""
    found = SplitCommandLine()
    for argument in argv:
        name, equals, text = argument.removeprefix("--").partition("=")
        flag = BY_NAME.get(name) if argument.startswith("--") else None
        if flag is None or (not equals and flag.kind != "bool"):
            found.unknown.append(argument)
            continue
        try:
            found.given[name] = _read(flag, text if equals else "true")
        except ConfigError:
            found.unreadable.append(f"Couldn't interpret value {text} for flag {name}.")
    return found


def _read(flag: TfsFlag, text: str) -> FlagValue:
    return text if flag.kind == "string" else _PARSERS[flag.kind](text, flag.name)


def usage() -> str:
    """Give the list of flags."""
    lines = ["usage: tensorflow_model_server", "Flags:"]
    for flag in FLAGS:
        default = str(flag.default).lower() if flag.kind == "bool" else repr(flag.default)
        meaning = flag.meaning or "accepted without effect"
        lines.append(f"\t--{flag.name}={default}\t{flag.kind}\t{meaning}")
    return "\n".join(lines)

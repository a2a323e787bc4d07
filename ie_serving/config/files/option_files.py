"""Reads the option files of `tensorflow_model_server` in protocol buffer text form.

Those by which it configures TensorFlow are without effect here: their faults are told, and so is
what would change answers.

Source: monitoring_config.proto, session_bundle_config.proto, server.cc, platform_config.proto and
thread_pool_factory_config.proto of TensorFlow Serving, config.proto and rewriter_config.proto of
TensorFlow.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from ie_serving.config.files import pbtxt
from ie_serving.config.files.text_proto import parse_text
from ie_serving.core.settings import words
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.layer_options import Batching
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto

METRICS_PATH = "/monitoring/prometheus/metrics"
"""Default route of the metrics."""

_DEFAULT_BATCH = 1000
_DEFAULT_ENQUEUED = 10
"""Default of `max_batch_size` and `max_enqueued_batches`. Source:
`SharedBatchScheduler::QueueOptions` of TensorFlow Serving."""
_POSITIVE = (
    "max_batch_size",
    "max_enqueued_batches",
    "num_batch_threads",
    "max_execution_batch_size",
)

_OF_SESSION: Final = """device_count intra_op_parallelism_threads inter_op_parallelism_threads
use_per_session_threads session_inter_op_thread_pool placement_period device_filters gpu_options
pluggable_device_options allow_soft_placement log_device_placement graph_options rpc_options
operation_timeout_in_ms cluster_def isolate_session_state share_cluster_devices_in_session
experimental"""
FIELDS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "tensorflow_session_config_file": ("tensorflow.ConfigProto", frozenset(_OF_SESSION.split())),
    "platform_config_file": (
        "tensorflow.serving.PlatformConfigMap",
        frozenset(("platform_configs",)),
    ),
    "thread_pool_factory_config_file": (
        "tensorflow.serving.ThreadPoolFactoryConfig",
        frozenset(("thread_pool_factory_config",)),
    ),
}
"""Message of each flag's file, and the names of its fields."""
_PRECISION: Final = "auto_mixed_precision"


def metrics_path(text: str, place: str) -> str:
    """Give the REST path of the metrics in a MonitoringConfig; empty for none.

    Raises:
        ConfigError: the text cannot be parsed, or the path is invalid.
    """
    prometheus = parse_text(text, messages.MonitoringConfig, place).prometheus_config
    path = str(prometheus.path) or METRICS_PATH
    if not prometheus.enable:
        return ""
    return words.metrics_path(path, f"{place}: prometheus_config.path")


def batching_of(text: str, place: str) -> Batching:
    """Read a BatchingParameters file; the empty text means the defaults of the original.

    Raises:
        ConfigError: every value at fault.
    """
    parameters = parse_text(text, messages.BatchingParameters, place)
    faults = [
        f"{name} is {getattr(parameters, name).value}; expected 1 or more"
        for name in _POSITIVE
        if parameters.HasField(name) and getattr(parameters, name).value < 1
    ]
    if parameters.batch_timeout_micros.value < 0:
        faults.append("batch_timeout_micros is negative; expected 0 or more")
    faults += [*_allowed_sizes(parameters), *_execution_size(parameters)]
    if faults:
        raise ConfigError([f"{place}: {fault}" for fault in faults])
    largest = parameters.max_batch_size.value or _DEFAULT_BATCH
    splits = parameters.enable_large_batch_splitting.value
    executed = (splits and parameters.max_execution_batch_size.value) or largest
    return Batching(
        max_batch_size=executed,
        batch_timeout_micros=parameters.batch_timeout_micros.value,
        max_enqueued_batches=parameters.max_enqueued_batches.value or _DEFAULT_ENQUEUED,
        num_batch_threads=parameters.num_batch_threads.value,
        allowed_batch_sizes=tuple(parameters.allowed_batch_sizes),
        most_request_rows=largest,
    )


def unmet_batching(text: str, place: str) -> list[str]:
    """Name the fields of a BatchingParameters file that have no effect.

    Raises:
        ConfigError: the text cannot be parsed.
    """
    parameters = parse_text(text, messages.BatchingParameters, place)
    unmet = []
    if parameters.pad_variable_length_inputs:
        unmet.append(
            f"{place}: pad_variable_length_inputs has no effect: requests of other shapes are"
            " inferred in batches of their own, with the answers that they have alone"
        )
    if parameters.HasField("thread_pool_name"):
        unmet.append(f"{place}: thread_pool_name has no effect: metrics name the model")
    return unmet


def _allowed_sizes(parameters: Proto) -> list[str]:
    sizes = list(parameters.allowed_batch_sizes)
    largest = parameters.max_batch_size.value or _DEFAULT_BATCH
    faults = []
    if any(low >= high for low, high in pairwise(sizes)):
        faults.append("allowed_batch_sizes entries must be monotonically increasing")
    if sizes and sizes[-1] != largest:
        faults.append(
            "Last entry in allowed_batch_sizes must match max_batch_size; "
            f"last entry was {sizes[-1]}; expected {largest}"
        )
    return faults


def _execution_size(parameters: Proto) -> list[str]:
    largest = parameters.max_batch_size.value or _DEFAULT_BATCH
    executed = parameters.max_execution_batch_size.value
    if not parameters.enable_large_batch_splitting.value or executed <= largest:
        return []
    return [f"max_execution_batch_size is {executed}; expected at most max_batch_size, {largest}"]


_AS_WITHOUT: Final[Mapping[str, tuple[object, ...]]] = {
    **dict.fromkeys(
        (_PRECISION, *(f"{_PRECISION}_{kind}" for kind in ("mkl", "onednn_bfloat16", "cpu"))),
        ("DEFAULT", "OFF", 0, 2),
    ),
    "mixed_precision": ("",),
    "saved_model_tags": ("serve",),
    "experimental_fixed_input_tensors": (),
}
"""Fields, at any depth, that change answers, with the values that do not."""


def check_session(flag: str, text: str, place: str) -> None:
    """Check a file that configures TensorFlow.

    Args:
        flag: flag that names the file.
        text: its content.
        place: its name, for the faults.

    Raises:
        ConfigError: it cannot be parsed, or would change what is computed.
    """
    message, fields = FIELDS[flag]
    try:
        found = pbtxt.read(text)
        if unknown := next((name for name in found if name not in fields), None):
            raise ValueError(f'Message type "{message}" has no field named "{unknown}".')
    except ValueError as error:
        cause = f"Error parsing text-format {message}: {error}"
        raise ConfigError([f"Invalid protobuf file: '{place}': {cause}"]) from None
    if changed := sorted(set(_changed(found))):
        wrong = "changes answers, and is not supported: remove it"
        raise ConfigError([f"{place}: {name} {wrong}" for name in changed])


def _changed(message: pbtxt.TextMessage) -> Iterator[str]:
    """Yield the names of fields that change answers."""
    each: Any
    for name, values in message.items():
        for each in values:
            if name in _AS_WITHOUT and each not in _AS_WITHOUT[name]:
                yield name
            elif isinstance(each, pbtxt.TextMessage):
                yield from _changed(each)

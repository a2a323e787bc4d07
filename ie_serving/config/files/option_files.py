"""The option files of `tensorflow_model_server` in protocol buffer text form.

Source: monitoring_config.proto and session_bundle_config.proto of TensorFlow Serving.
"""

from itertools import pairwise

from ie_serving.config.files.text_proto import parse_text
from ie_serving.core.errors import ConfigError
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto

METRICS_PATH = "/monitoring/prometheus/metrics"
"""Route of the metrics when the file names none."""

_DEFAULT_BATCH = 1000
"""`max_batch_size` where the file names none. Source: `SharedBatchScheduler::QueueOptions` of
TensorFlow Serving."""
_POSITIVE = ("max_batch_size", "max_enqueued_batches", "num_batch_threads")


def metrics_path(text: str, place: str) -> str:
    """Give the REST path of the metrics that a MonitoringConfig asks for; empty for none.

    Raises:
        ConfigError: the text cannot be parsed, or the path is none.
    """
    prometheus = parse_text(text, messages.MonitoringConfig, place).prometheus_config
    path = str(prometheus.path) or METRICS_PATH
    if not path.startswith("/"):
        raise ConfigError([f'{place}: prometheus_config.path "{path}" must begin with /'])
    return path if prometheus.enable else ""


def check_batching(text: str, place: str) -> None:
    """Check a BatchingParameters file.

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
    faults += _allowed_sizes(parameters)
    if faults:
        raise ConfigError([f"{place}: {fault}" for fault in faults])


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

"""The flags and environment variables of the server itself: the only table of their names.

Flags of one model stand in `model_keys.py`. `cli.py` builds its parser from both, and a test holds
`docs/configuration.md` against them.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ie_serving import values
from ie_serving.settings import ServerSettings

_DEFAULTS: Mapping[str, object] = {
    field.name: field.default for field in dataclasses.fields(ServerSettings)
}


@dataclass(frozen=True, kw_only=True)
class Flag:
    """One flag of the server.

    Attributes:
        name: without dashes.
        field: of `ServerSettings`.
        form: how a value is written; `true|false` may be left out for true.
        default_text: as help shows it; empty takes the field's default.
    """

    name: str
    field: str
    parse: values.Parser[Any]
    form: str
    meaning: str
    default_text: str = ""

    @property
    def default(self) -> str:
        """The default as help shows it."""
        return self.default_text or _written(_DEFAULTS[self.field])


def _written(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


BOOLEAN = "true|false"

FLAGS: tuple[Flag, ...] = (
    Flag(
        name="port",
        field="port",
        parse=values.port,
        form="N",
        meaning="gRPC port; 0 is off",
    ),
    Flag(
        name="rest_port",
        field="rest_port",
        parse=values.port,
        form="N",
        meaning="REST port; 0 is off",
    ),
    Flag(
        name="host",
        field="host",
        parse=values.address,
        form="ADDRESS",
        meaning="address that both ports listen on",
        default_text="every IPv6 and IPv4 address",
    ),
    Flag(
        name="max_message_bytes",
        field="max_message_bytes",
        parse=values.message_size,
        form="BYTES",
        meaning="largest gRPC message and REST body in bytes; gzip over REST inflates to 100 MiB",
    ),
    Flag(
        name="grpc_transport",
        field="grpc_transport",
        parse=values.grpc_transport,
        form="|".join(values.GRPC_TRANSPORTS),
        meaning="what carries gRPC: the server's own HTTP/2 or grpcio's, several times as costly",
    ),
    Flag(
        name="rest_timeout_seconds",
        field="rest_timeout_s",
        parse=values.timeout,
        form="SECONDS",
        meaning="longest time in seconds that one REST inference may take, waiting included",
    ),
    Flag(
        name="busy_poll_microseconds",
        field="busy_poll_us",
        parse=values.busy_poll,
        form="N",
        meaning="microseconds that the server looks for the next request before it sleeps",
    ),
    Flag(
        name="enable_cors",
        field="enable_cors",
        parse=values.boolean,
        form=BOOLEAN,
        meaning="add CORS headers to REST replies",
    ),
    Flag(
        name="file_system_poll_wait_seconds",
        field="poll_wait_s",
        parse=values.poll_wait,
        form="SECONDS",
        meaning="seconds between two listings of a repository; 0 or less lists once, at start",
    ),
    Flag(
        name="config_poll_wait_seconds",
        field="config_poll_wait_s",
        parse=values.poll_wait,
        form="SECONDS",
        meaning="seconds between two looks at the configuration file; 0 or less reads it once",
        default_text="as --file_system_poll_wait_seconds",
    ),
    Flag(
        name="drain_delay_seconds",
        field="drain_delay_s",
        parse=values.delay,
        form="SECONDS",
        meaning="seconds that a stopping server still takes connections, no longer ready",
    ),
    Flag(
        name="drain_timeout_seconds",
        field="drain_timeout_s",
        parse=values.delay,
        form="SECONDS",
        meaning="seconds that requests in flight may still take when a version or the server stops",
    ),
    Flag(
        name="load_threads",
        field="load_threads",
        parse=values.positive,
        form="N",
        meaning="versions that are fetched and compiled at a time",
    ),
    Flag(
        name="tensor_content",
        field="tensor_content",
        parse=values.boolean,
        form=BOOLEAN,
        meaning="encode gRPC outputs as tensor_content; false uses the typed lists",
    ),
    Flag(
        name="metrics_path",
        field="metrics_path",
        parse=values.url_path,
        form="PATH",
        meaning="REST path of the Prometheus metrics",
        default_text="none",
    ),
    Flag(
        name="allow_version_labels_for_unavailable_models",
        field="labels_for_unavailable",
        parse=values.boolean,
        form=BOOLEAN,
        meaning="let a new version label name a version that is not AVAILABLE yet",
    ),
    Flag(
        name="enable_signature_method_name_check",
        field="method_name_check",
        parse=values.boolean,
        form=BOOLEAN,
        meaning="refuse a signature whose method does not fit the RPC",
    ),
    Flag(
        name="allow_unavailable_models",
        field="allow_unavailable_models",
        parse=values.boolean,
        form=BOOLEAN,
        meaning="start although a repository cannot be listed, and wait for it",
    ),
    Flag(
        name="enable_model_warmup",
        field="warmup",
        parse=values.boolean,
        form=BOOLEAN,
        meaning="replay assets.extra/tf_serving_warmup_requests of a version before it serves",
    ),
    Flag(
        name="num_request_iterations_for_warmup",
        field="warmup_iterations",
        parse=values.positive,
        form="N",
        meaning="how often each warm-up record is replayed",
    ),
    Flag(
        name="cache_dir",
        field="cache_dir",
        parse=values.directory,
        form="PATH",
        meaning="directory for copies of remote repositories; when given, for compiled models too",
        default_text="ie_serving in the user's cache, copies only",
    ),
    Flag(
        name="cache_size_bytes",
        field="cache_size_bytes",
        parse=values.size,
        form="BYTES",
        meaning="bytes at which the least recently used copies are evicted; 0 sets no limit",
    ),
    Flag(
        name="log_level",
        field="log_level",
        parse=values.log_level,
        form="|".join(values.LOG_LEVELS),
        meaning="least severe lines that are logged",
    ),
    Flag(
        name="log_path",
        field="log_path",
        parse=values.text,
        form="FILE",
        meaning="file that log lines are appended to as well",
        default_text="none",
    ),
)

ALIASES: Mapping[str, str] = {
    "metrics_enable": "true serves Prometheus metrics at /metrics (see --metrics_path)",
    "grpc_bind_address": "as --host; one address serves both ports",
    "rest_bind_address": "as --host; one address serves both ports",
}
"""Flags of OpenVINO Model Server that say in other words what a flag of ours says."""

IGNORED: Mapping[str, str] = {
    "grpc_workers": "one event loop serves every gRPC call; --nireq sets how many infer at once",
    "rest_workers": "one event loop serves every REST call; --nireq sets how many infer at once",
    "grpc_max_threads": "one event loop serves every call; --nireq sets how many infer at once",
    "grpc_memory_quota": "use --max_message_bytes",
    "grpc_channel_arguments": "there is nothing in its place",
    "sequence_cleaner_poll_wait_minutes": "stateful models are not supported",
    "custom_node_resources_cleaner_interval_seconds": "custom nodes are not supported",
    "trace_path": "there is nothing in its place",
    "cpu_extension": "kernel extensions are not supported",
    "metrics_list": "every metric is served",
    "allow_credentials": "use --enable_cors",
    "allowed_origins": "use --enable_cors",
    "allowed_methods": "use --enable_cors",
    "allowed_headers": "use --enable_cors",
    "layout": "data is taken in the model's own layout",
    "mean": "convert the model with preprocessing in it",
    "scale": "convert the model with preprocessing in it",
    "color_format": "convert the model with preprocessing in it",
    "precision": "inputs are cast to the model's; for computing, use --inference_precision",
    "stateful": "stateful models are not supported",
    "idle_sequence_cleanup": "stateful models are not supported",
    "low_latency_transformation": "stateful models are not supported",
    "max_sequence_number": "stateful models are not supported",
}
"""Flags of 2020 and of OpenVINO Model Server without effect, each with what to do instead."""


@dataclass(frozen=True, kw_only=True)
class Variable:
    """An environment variable that says what `flag` says, for whoever does not give the flag."""

    name: str
    flag: str
    parse: values.Parser[Any]


def _serialization(value: object, place: str) -> bool:
    """Read the output encoding by its name of 2020; true is `tensor_content`."""
    names = {
        "_prepare_output_with_make_tensor_proto": True,
        "_prepare_output_as_AppendArrayToTensorProto": False,
    }
    if not isinstance(value, str) or value not in names:
        raise values.fault(place, value, f"one of {', '.join(names)}")
    return names[value]


VARIABLES: tuple[Variable, ...] = (
    Variable(name="LOG_LEVEL", flag="log_level", parse=values.log_level),
    Variable(name="LOG_PATH", flag="log_path", parse=values.text),
    Variable(
        name="FILE_SYSTEM_POLL_WAIT_SECONDS",
        flag="file_system_poll_wait_seconds",
        parse=values.poll_wait,
    ),
    Variable(name="SERIALIZATION_FUNCTION", flag="tensor_content", parse=_serialization),
)

IGNORED_VARIABLES: Mapping[str, str] = {
    "CPU_EXTENSION": "kernel extensions are not supported",
    "PLUGIN_DIR": "OpenVINO finds its plugins itself",
    "REST_REQUESTS_QUEUE_SIZE": "there is nothing in its place",
    "ENGINE_REQUESTS_QUEUE_SIZE": "use --nireq",
    "ENGINE_REQUESTS_QUEUE_TIMEOUT": "there is nothing in its place",
    "DEVICE": "use --target_device",
    "OVMS_MODEL_DEVICES": "use --target_device",
    "GRPC_SERVERS": "one event loop serves every gRPC call",
}
"""Variables of 2020 and of OpenVINO Model Server without effect, with what to do instead."""

"""The settings of limits, log and traces.

OpenTelemetry's library reads its other variables itself: `docs/guide/monitoring.md` names them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ie_serving.core.settings import structures, words
from ie_serving.core.settings.declaration import (
    BOOLEAN,
    BYTES,
    DELAY,
    FILE,
    HTTP_URL,
    TIMEOUT,
    SettingKind,
    choice,
    whole,
)
from ie_serving.core.values.integers import INT32_MAX


# Without methods: `ServerSettings` makes its own, and making them takes time at the start.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Telling:
    """The settings of the log, traces and `Server-Timing`."""

    # The words of both other servers are taken, so that their manifests start this one.
    # A container's environment may carry a word that was meant for another program.
    log_level: str = SettingKind(words.log_level, "|".join(words.LOG_LEVELS)).setting(
        "INFO",
        "least severe lines that are logged",
        "debug",
        ovms="log_level",
        variables="LOG_LEVEL",
        reads=words.log_level_or_info,
        is_common=True,
    )
    log_path: str = FILE.setting(
        "",
        "file that log lines are appended to as well",
        "/var/log/ie_serving.log",
        ovms="log_path",
        variables="LOG_PATH",
    )
    log_format: str = choice("text", "json").setting(
        "text",
        "form of the log lines: text as in 2020, or one JSON object a line",
        "json",
        variables="LOG_FORMAT",
    )
    # As TensorFlow Serving and OpenVINO Model Server, which have none.
    access_log: str = FILE.setting(
        "",
        "file that a line is appended to for each request; - is standard output",
        "-",
        variables="ACCESS_LOG",
    )
    otlp_endpoint: str = HTTP_URL.setting(
        "",
        "OpenTelemetry collector that spans of requests are sent to, by OTLP over HTTP, at"
        " /v1/traces below it; needs the extra otel",
        "http://collector:4318",
        variables="OTEL_EXPORTER_OTLP_ENDPOINT",
    )
    otlp_traces_endpoint: str = HTTP_URL.setting(
        "",
        "the same, with its path as it is",
        "http://collector:4318/v1/traces",
        variables="OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    )
    # Checked only for values other than the default, and only with an endpoint.
    otlp_protocol: str = SettingKind(words.text, "http/protobuf").setting(
        "http/protobuf",
        "protocol of OTLP; no other one is spoken, so a start with another one is refused",
        "http/protobuf",
        variables="OTEL_EXPORTER_OTLP_TRACES_PROTOCOL OTEL_EXPORTER_OTLP_PROTOCOL",
    )
    otel_disabled: bool = BOOLEAN.setting(
        False,
        "trace nothing although there is an endpoint",
        word="otel_sdk_disabled",
        variables="OTEL_SDK_DISABLED",
    )
    # Off: it tells every client how long other clients' requests delay its own.
    server_timing: bool = BOOLEAN.setting(
        False,
        "tell in the header Server-Timing of each REST reply how long decoding, waiting,"
        " inference and encoding took",
    )

    # As the server of 2020 and OpenVINO Model Server, which have none; TensorFlow Serving has it.
    enable_profiler: bool = BOOLEAN.setting(
        False,
        "serve tensorflow.ProfilerService, by which TensorBoard takes traces of requests; costs"
        " nothing while it takes none",
        tfs="enable_profiler",
    )

    @property
    def traces_url(self) -> str:
        """URL that spans are posted to; empty: tracing is off."""
        base = self.otlp_endpoint.rstrip("/")
        found = self.otlp_traces_endpoint or (f"{base}/v1/traces" if base else "")
        return "" if self.otel_disabled else found


# Without methods: `ServerSettings` makes its own, and making them takes time at the start.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Limits:
    """Limits of what clients send, hold open and wait for."""

    # gRPC counts the bytes of a message in 32 bits.
    # gRPC's own default of 4 MiB refuses a batch of images; the messages of a process are bounded
    # by its memory in any case.
    max_message_bytes: int = whole(1, INT32_MAX, "BYTES").setting(
        1 << 30,
        "largest gRPC message and REST body in bytes; gzip over REST may grow to 8 MiB or a"
        " hundredfold, whichever is more, and to 100 MiB at most",
        "67108864",
    )
    memory_budget_bytes: int = BYTES.setting(
        0,
        "bytes that requests and unread replies of both ports may hold together; further ones"
        " are refused. 0 takes half of the memory of the cgroup, or of the machine",
        "1073741824",
        shown="half of the memory",
    )
    """`core/runtime/machine_share.py` derives the budget for 0."""

    # grpcio is the fallback for a client that our own HTTP/2 does not understand.
    grpc_transport: str = choice("http2", "grpcio").setting(
        "http2",
        "what carries gRPC: the server's own HTTP/2 or grpcio's, several times as costly",
        "grpcio",
    )
    # A Kubernetes Service balances connections, and gRPC's clients keep theirs: without an age new
    # servers get no calls.
    # As gRPC's own default: a connection stays as long as its client wants.
    grpc_max_connection_age_s: float = DELAY.setting(
        0.0,
        "seconds after which a gRPC connection takes no new calls, more or less a tenth; 0 lets"
        " it live for ever",
        "300",
    )
    grpc_max_connection_age_grace_s: float = DELAY.setting(
        0.0, "seconds that its calls may still take then; 0 waits until they have ended", "30"
    )
    # Clients reconnect at their next call; the connection of a vanished client does not hold a
    # descriptor for ever. gRPC's own default is to keep idle connections.
    grpc_max_connection_idle_s: float = DELAY.setting(
        3600.0,
        "seconds without a call, pings do not count, after which a gRPC connection ends; 0 lets"
        " it live for ever",
        "300",
    )
    # As in the original, whose deployments change models by this call, without credentials.
    reload_by_rpc: bool = BOOLEAN.setting(
        True,
        "let clients change the models by HandleReloadConfigRequest, reload by POST"
        " /v1/config/reload, poll by POST .../NAME:poll, and set labels and the log level; false"
        " answers PERMISSION_DENIED",
    )
    # Off: the budget of bytes already bounds running requests, and requests that wait for a model.
    max_in_flight_requests: int = whole(0, 1_000_000).setting(
        0,
        "requests that run a model, of both ports and all models, that are taken at a time; one"
        " more gets 429 or RESOURCE_EXHAUSTED. Streams do not count",
        "500",
        shown="no limit",
    )
    max_connections: int = whole(0, 1_000_000).setting(
        0,
        "connections of both ports that may be open; for one more those idle longest are closed."
        " grpcio counts its port alone, and closes the new one. 0 takes 10000, or what the limit"
        " of open files allows",
        "2000",
        shown="10000",
    )
    """0 takes 10,000, or fewer where the limit of files is lower (`server/process/tuning.py`)."""

    # Off: behind a proxy or a load balancer all clients have one address.
    max_connections_per_address: int = whole(0, 1_000_000).setting(
        0,
        "connections of both ports that one address (of IPv6 a network of 64 bits) may have"
        " open, where no proxy is in front; for one more its own that is idle longest is closed."
        " Not over grpcio",
        "100",
        shown="no limit",
    )
    grpc_channel_arguments: Mapping[str, int | str] = SettingKind(
        structures.arguments, "NAME=VALUE,.."
    ).setting(
        {},
        "gRPC's channel arguments; the server's own HTTP/2 takes grpc.max_connection_age_ms,"
        " grpc.max_connection_age_grace_ms and grpc.max_connection_idle_ms, grpcio all",
        "grpc.max_connection_age_ms=300000",
        shown="none",
        tfs="grpc_channel_arguments",
        ovms="grpc_channel_arguments",
    )
    """For grpcio; our own HTTP/2 has separate settings for those that it supports."""

    # Without any limit, a client that sets no deadline could hold an infer request for ever.
    # As in the original, whose clients expect an answer or an error by then.
    rest_timeout_s: float = TIMEOUT.setting(
        30.0,
        "longest time in seconds that one REST inference may take, waiting included; also a poll",
        "5",
        tfs="rest_api_timeout_in_ms",
    )
    # 0 leaves it to the client, as the original does: its deadline comes with each call.
    grpc_timeout_s: float = DELAY.setting(
        0.0,
        "longest time in seconds that one gRPC inference may take, beside the deadline that the"
        " client sets; 0 sets no limit",
        "5",
    )

    @property
    def grpc_limit_s(self) -> float | None:
        """Longest time that an inference may take over gRPC; None sets no limit."""
        return self.grpc_timeout_s or None

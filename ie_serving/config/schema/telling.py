"""The settings of the log, traces and `Server-Timing`.

OpenTelemetry's library reads its other variables itself: `docs/guide/monitoring.md` names them.
"""

from dataclasses import dataclass

from ie_serving.core.settings import words
from ie_serving.core.settings.declaration import BOOLEAN, FILE, HTTP_URL, SettingKind, choice


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

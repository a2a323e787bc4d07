"""Settings of observability: the log, metrics, traces and `Server-Timing`."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Telling:
    """Settings of log, access log, traces and `Server-Timing`; see `settings.ServerSettings`."""

    log_level: str = "INFO"

    log_path: str = ""
    """Empty for none."""

    log_format: str = "text"
    """Or `json`."""

    # As TensorFlow Serving and OpenVINO Model Server, which have none.
    access_log: str = ""
    """File; `-` is standard output, and empty writes none."""

    otlp_endpoint: str = ""
    """URL of a collector, without the path; empty, and no other: nothing is traced."""

    otlp_traces_endpoint: str = ""
    otlp_protocol: str = "http/protobuf"
    otel_disabled: bool = False

    # Off: it tells every client how long other clients' requests delay its own.
    server_timing: bool = False

    @property
    def traces_url(self) -> str:
        """URL that spans are posted to; empty: tracing is off."""
        base = self.otlp_endpoint.rstrip("/")
        found = self.otlp_traces_endpoint or (f"{base}/v1/traces" if base else "")
        return "" if self.otel_disabled else found

    @property
    def tells_of_requests(self) -> bool:
        """Whether an access log, traces or `Server-Timing` report each request."""
        return bool(self.access_log or self.traces_url or self.server_timing)

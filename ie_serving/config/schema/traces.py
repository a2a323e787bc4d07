"""The settings of traces and of `Server-Timing`.

What else OpenTelemetry's variables say, its library reads itself: `docs/guide/monitoring.md` names
them.
"""

from ie_serving.config.schema.setting import BOOLEAN, Setting
from ie_serving.config.values import words

TRACES: tuple[Setting, ...] = (
    Setting(
        place="server.otlp_endpoint",
        parse=words.http_url,
        form="URL",
        meaning="OpenTelemetry collector that spans of requests are sent to, by OTLP over HTTP, at"
        " /v1/traces below it; needs the extra otel",
        example="http://collector:4318",
        flag="otlp_endpoint",
        variables=("OTEL_EXPORTER_OTLP_ENDPOINT",),
    ),
    Setting(
        place="server.otlp_traces_endpoint",
        parse=words.http_url,
        form="URL",
        meaning="the same, with its path as it is",
        example="http://collector:4318/v1/traces",
        flag="otlp_traces_endpoint",
        variables=("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",),
    ),
    # Checked only for values other than the default, and only with an endpoint.
    Setting(
        place="server.otlp_protocol",
        parse=words.text,
        form="http/protobuf",
        meaning="protocol of OTLP; no other one is spoken, so a start with another one is refused",
        example="http/protobuf",
        flag="otlp_protocol",
        variables=("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"),
    ),
    Setting(
        place="server.otel_disabled",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="trace nothing although there is an endpoint",
        example="true",
        flag="otel_sdk_disabled",
        variables=("OTEL_SDK_DISABLED",),
    ),
    Setting(
        place="server.server_timing",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="tell in the header Server-Timing of each REST reply how long decoding, waiting,"
        " inference and encoding took",
        example="true",
        flag="server_timing",
    ),
)

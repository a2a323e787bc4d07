"""The settings of a server by subject: callers and TLS, limits, log and traces.

OpenTelemetry's library reads its other variables itself: `docs/guide/monitoring.md` names them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ie_serving.core.settings import numbers, structures, words
from ie_serving.core.settings.declaration import (
    BOOLEAN,
    BYTES,
    DELAY,
    FILE,
    HTTP_URL,
    TEXT,
    TIMEOUT,
    SettingKind,
    choice,
    whole,
)
from ie_serving.core.settings.faults import fault
from ie_serving.core.values.integers import INT32_MAX


# Methods are left out: `ServerSettings` makes its own, and making them takes time at the start.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Telemetry:
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
    # Off by default: neither original server has an access log.
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

    # Off by default: of the original servers only TensorFlow Serving has a profiler.
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


# Methods are left out: `ServerSettings` makes its own, and making them takes time at the start.
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
        "transport of gRPC: the server's own HTTP/2 or grpcio's, several times as costly",
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
    # Deployments of TensorFlow Serving change models by this call, without credentials.
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
    """Arguments of grpcio's channels; our own HTTP/2 has separate settings for those that it
    supports."""

    # A client without a deadline could otherwise hold an infer request for ever. Clients of the
    # original expect an answer or an error by then.
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


ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Names of RFC 7518 and 8037, without shared secrets, which the server would have to hold."""
MOST_LEEWAY_S: Final = 300.0
"""RFC 7519 has "no more than a few minutes"; with more a withdrawn token is good for longer."""
HERE: Final = ("localhost", "127.0.0.1", "::1")


def is_url(source: str) -> bool:
    """Tell whether keys are fetched from a URL, or read from a file."""
    return "://" in source


def keys_source(value: object, place: str) -> str:
    """Read a file's path, or a URL whose reply cannot be forged on the network."""
    given = words.text(value, place)
    if not is_url(given):
        return given
    try:
        parts = urlsplit(given)
        host = parts.hostname or ""
        wrong = parts.username is not None or parts.port == 0
    except ValueError:
        raise fault(place, value, "a file, or a URL of https") from None
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and host in HERE)
    if not is_safe or not host or wrong or any(each in given for each in " \t#"):
        raise fault(
            place, value, "a file, or a URL of https, without a password; http on this host alone"
        )
    return given


def algorithms(value: object, place: str) -> tuple[str, ...]:
    """Read names of algorithms, separated by commas."""
    given = tuple(each.strip() for each in words.text(value, place).split(","))
    if not set(given) <= set(ALGORITHMS):
        raise fault(place, value, f"some of {', '.join(ALGORITHMS)}")
    return tuple(dict.fromkeys(given))


def leeway(value: object, place: str) -> float:
    """Read the seconds by which clocks may differ."""
    given = numbers.delay(value, place)
    if given > MOST_LEEWAY_S:
        raise fault(place, value, f"at most {MOST_LEEWAY_S:g} seconds")
    return given


# Methods are left out: `ServerSettings` makes its own, and making them takes time at the start.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class AccessSettings:
    """The certificates of the ports, and the callers' credentials."""

    tls_certificate: str = FILE.setting(
        "",
        "PEM file with the server's certificate, then those between it and the root; both ports"
        " are then encrypted. The files are read again when they change",
        "/etc/ie_serving/tls/tls.crt",
        variables="TLS_CERTIFICATE",
        is_common=True,
    )
    """File; empty: the ports are plain, unless `ssl_config_file` is given."""

    tls_key: str = FILE.setting(
        "",
        "PEM file with the certificate's key, without a password",
        "/etc/ie_serving/tls/tls.key",
        variables="TLS_KEY",
        is_common=True,
    )
    tls_client_ca: str = FILE.setting(
        "",
        "PEM file with the authorities of clients: a client without a certificate of theirs is"
        " refused",
        "/etc/ie_serving/tls/clients.crt",
        variables="TLS_CLIENT_CA",
    )
    """File; empty: clients need no certificate."""

    tls_client_crl: str = FILE.setting(
        "",
        "PEM file with the revoked certificates of each of these authorities",
        "/etc/ie_serving/tls/clients.crl",
        variables="TLS_CLIENT_CRL",
    )
    ssl_config_file: str = FILE.setting(
        "",
        "TensorFlow Serving's SSLConfig in text form, instead of the files before",
        "/etc/ie_serving/ssl.config",
        tfs="ssl_config_file",
    )
    # Kubernetes' probes have no certificate of their own.
    tls_ports: str = choice("both", "grpc", "rest").setting(
        "both", "which port is encrypted; the other one is plain", "grpc", variables="TLS_PORTS"
    )
    api_key_file: str = FILE.setting(
        "",
        "rights of callers: a line for each key, user or client certificate, as `ie_serving key"
        " new` prints; read again when it changes. Both ports then answer no other caller",
        "/etc/ie_serving/keys",
        variables="API_KEY_FILE",
        is_common=True,
    )
    """Empty, and no `enable_auth`: callers need no credentials."""

    jwt_keys: str = SettingKind(keys_source, "FILE|URL").setting(
        "",
        "keys (a JSON Web Key Set) that an issuer signs tokens with; lines jwt:CLAIM=VALUE of"
        " the file of keys say what their bearers may do. A URL is asked every 5 minutes",
        "https://login.example.com/keys",
    )
    """Empty: no token is accepted."""

    jwt_issuer: str = TEXT.setting(
        "", "issuer of these tokens: their claim iss", "https://login.example.com/"
    )
    jwt_audience: str = TEXT.setting(
        "",
        "audience of these tokens: their claim aud names it, or one of several with commas",
        "ie_serving",
    )
    # Issuers' usual algorithms. Shared secrets are not supported: the server would hold them.
    jwt_algorithms: tuple[str, ...] = SettingKind(algorithms, "NAMES").setting(
        ("RS256", "ES256"),
        "algorithms that they may be signed by: some of RS256, RS384, RS512, PS256, PS384,"
        " PS512, ES256, ES384, ES512, EdDSA",
        "ES256",
        shown="RS256,ES256",
    )
    # Clocks that are set over the network differ by less than a second; those that are not, by more
    # than any leeway. RFC 7519 has "no more than a few minutes".
    jwt_leeway_s: float = SettingKind(leeway, "SECONDS").setting(
        30.0, "seconds by which the clocks of issuer and server may differ, 300 at most", "60"
    )
    # Kubernetes' probes have no credentials of their own.
    open_health: bool = BOOLEAN.setting(
        True, "answer probes of health without credentials; false asks for the right read"
    )
    # It shows only data that its caller has access to, and sends no request before it is opened.
    page: bool = BOOLEAN.setting(
        True,
        "show people the models, their states, rates and errors at / of the REST port, and let"
        " them try requests; false answers 404 there",
    )
    # Words of simple_tensorflow_serving, whose user may do everything.
    enable_auth: bool = BOOLEAN.setting(
        False,
        "answer only callers with credentials: the one user of the next two flags, who has every"
        " right, and those of the file",
    )
    auth_username: str = TEXT.setting("", "name of that user", "admin")
    auth_password: str = SettingKind(words.unchecked, "TEXT").setting(
        "",
        "password of that user, which everyone on this machine can see among its processes:"
        " better a line of the file",
        "a-long-one",
        is_secret=True,
    )

    @property
    def has_tls(self) -> bool:
        """Whether a port is encrypted."""
        return bool(self.tls_certificate or self.ssl_config_file)

    @property
    def has_access(self) -> bool:
        """Whether callers need credentials."""
        return bool(self.api_key_file or self.enable_auth)

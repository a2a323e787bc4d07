"""The settings of a server: their types, their defaults, and the reasons for the defaults.

`schema/` declares the meaning of each setting, its parser and its name in each dialect. Dialects
and files produce these values, checked, and `app/command_line.py` hands them on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ie_serving.config.telling import Telling
from ie_serving.engines.base import EngineOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.storage.options import StorageOptions


@dataclass(frozen=True, kw_only=True)
class ServerSettings(Telling):
    """How the process listens, polls, stops and logs."""

    host: str = ""
    """Empty for every IPv6 and IPv4 address."""

    grpc_host: str = ""
    """Addresses of the gRPC port, separated by commas; empty takes `host`."""

    rest_host: str = ""
    """Addresses of the REST port, separated by commas; empty takes `host`."""

    # The port of 2020; the original's is 8500.
    port: int = 9000
    rest_port: int = 0

    grpc_socket_path: str = ""
    """UNIX socket for gRPC, beside the port; empty for none."""

    rest_socket_path: str = ""
    """UNIX socket for REST, beside the port; empty for none."""

    tls_certificate: str = ""
    """File; empty: the ports are plain, unless `ssl_config_file` is given."""

    tls_key: str = ""
    tls_client_ca: str = ""
    """File; empty: clients need no certificate."""

    tls_client_crl: str = ""
    ssl_config_file: str = ""
    """TensorFlow Serving's file, instead of the files before."""

    tls_ports: str = "both"
    """Or `grpc` or `rest`: the other port is plain."""

    api_key_file: str = ""
    """Empty, and no `enable_auth`: callers need no credentials."""

    enable_auth: bool = False
    """The one user below has every right."""

    auth_username: str = ""
    auth_password: str = field(default="", repr=False)

    jwt_keys: str = ""
    """File or URL of the keys that an issuer signs tokens with; empty: no token is believed."""

    jwt_issuer: str = ""
    jwt_audience: str = ""
    """One or several, separated by commas."""

    # Issuers' usual algorithms. Shared secrets are not supported: the server would hold them.
    jwt_algorithms: tuple[str, ...] = ("RS256", "ES256")

    # Clocks that are set over the network differ by less than a second; those that are not, by more
    # than any leeway. RFC 7519 has "no more than a few minutes".
    jwt_leeway_s: float = 30.0

    # Kubernetes' probes have no credentials of their own.
    open_health: bool = True

    # gRPC's own default of 4 MiB refuses a batch of images; the messages of a process are bounded
    # by its memory in any case.
    max_message_bytes: int = 1 << 30
    memory_budget_bytes: int = 0
    """0 takes half of the memory that the cgroup or the machine has (`memory_limit.py`)."""

    grpc_transport: str = "http2"

    # A second one has every model once more in memory, which only small models on many processors
    # are worth.
    workers: int = 1

    # As in the original, whose deployments change models by this call, without credentials.
    reload_by_rpc: bool = True

    # As gRPC's own default: a connection stays as long as its client wants.
    grpc_max_connection_age_s: float = 0.0
    """0 sets no limit."""

    grpc_max_connection_age_grace_s: float = 0.0
    """0 sets no limit."""

    # Clients reconnect at their next call; the connection of a vanished client does not hold a
    # descriptor for ever. gRPC's own default is to keep idle connections.
    grpc_max_connection_idle_s: float = 3600.0
    """0 sets no limit."""

    max_connections: int = 0
    """0 takes 10,000, or fewer where the limit of files is lower (`commands/tune.py`)."""

    # Off: the budget of bytes already bounds running requests, and requests that wait for a model.
    max_in_flight_requests: int = 0
    """0 sets no limit."""

    # Off: behind a proxy or a load balancer all clients have one address.
    max_connections_per_address: int = 0
    """0 sets no limit."""

    grpc_channel_arguments: Mapping[str, int | str] = field(default_factory=dict)
    """For grpcio; those of them that the own HTTP/2 knows are settings of their own as well."""

    # As in the original, whose clients expect an answer or an error by then.
    rest_timeout_s: float = 30.0

    # 0 leaves it to the client, as the original does: its deadline comes with each call.
    grpc_timeout_s: float = 0.0

    # Longer than a client on the same machine needs to ask again, so that the loop does not sleep
    # in between; docs/guide/performance.md has what that wins.
    busy_poll_us: int = 200
    enable_cors: bool = False

    poll_wait_s: float = 1.0
    """0 lists once, at start."""

    config_poll_wait_s: float = 1.0
    """0 reads the file once."""

    # As OpenVINO Model Server.
    sequence_cleaner_poll_wait_minutes: int = 5
    """0 drops no idle sequences."""

    drain_delay_s: float = 0.0

    # Kubernetes' grace period, after which it kills; deploy/ allows more than both drain times.
    drain_timeout_s: float = 30.0

    # One version compiles with all processors while the second is fetched or read.
    load_threads: int = 2

    # A large model on a busy machine may well take minutes: only its owner knows what is too long.
    load_timeout_s: float = 0.0
    """0 sets no limit."""

    tensor_content: bool = True

    # As the server of 2020 and OpenVINO Model Server; `tensorflow_model_server` sets the other.
    rest_metadata: str = "camel"

    # Prometheus' default path, on by default so that metrics exist when they are needed.
    metrics_path: str = "/metrics"
    """Empty serves none."""

    monitoring_path: str = ""
    """A second path of the metrics: the one in a monitoring file of TensorFlow Serving."""

    answering_model: str = ""
    """Model that answers gRPC under any name, and `POST /predict`, as kibernetika-serving's does;
    empty: each under its own name."""

    # It shows only data that its caller has access to, and sends no request before it is opened.
    page: bool = True
    """Whether the REST port has a page for people at `/`."""

    invocations_model: str = ""
    """Model that answers `POST /invocations`; empty serves none."""

    old_front: str = ""
    """Folder of `compat/` whose API the REST port has as well; empty for none."""

    labels_for_unavailable: bool = False
    method_name_check: bool = False
    allow_unavailable_models: bool = False

    # Readiness probes of the original's users take an open port for a server that has loaded.
    open_ports_early: bool = False
    """Open the ports before the models are loaded; those that are ready answer."""

    ready_after_s: float | None = None
    """Be ready then although some model has never served; None waits for every model."""

    unload_when_empty: bool = False
    """Believe a repository that is empty after it was not; else that is an unmounted volume."""

    # A version is immutable to most users, and two of it in memory may be more than there is room.
    reload_changed_versions: bool = False
    """Reload a version whose files change while it serves; otherwise the change is a warning."""

    require_available: bool = False
    """Open the ports only when every model serves, and end if one fails, as TF Serving does."""

    announce_as_tfs: bool = False
    """Log that the ports are open in TensorFlow Serving's words as well."""

    warmup: bool = True
    warmup_iterations: int = 1

    @property
    def shares_port(self) -> bool:
        """Whether both interfaces are answered on one port."""
        hosts = (self.grpc_host or self.host, self.rest_host or self.host)
        return bool(self.port) and self.port == self.rest_port and len(set(hosts)) == 1

    @property
    def has_tls(self) -> bool:
        """Whether a port is encrypted."""
        return bool(self.tls_certificate or self.ssl_config_file)

    @property
    def has_access(self) -> bool:
        """Whether callers need credentials."""
        return bool(self.api_key_file or self.enable_auth)

    @property
    def grpc_limit_s(self) -> float | None:
        """Longest time that an inference may take over gRPC; None sets no limit."""
        return self.grpc_timeout_s or None

    @property
    def metrics_paths(self) -> tuple[str, ...]:
        """Where the metrics are; nowhere without a REST port."""
        has_rest = self.rest_port or self.rest_socket_path
        paths = {self.metrics_path, self.monitoring_path} - {""}
        return tuple(sorted(paths)) if has_rest else ()

    @property
    def warmup_times(self) -> int:
        """How often each warm-up record is replayed; 0 replays none."""
        return self.warmup_iterations if self.warmup else 0

    def poll_wait_of(self, model: ModelConfig) -> float:
        """Seconds between two listings of a model's repository; 0 lists it once."""
        return self.poll_wait_s if model.poll_wait_s is None else model.poll_wait_s


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings from which the composition root (`app/application.py`) builds a server."""

    server: ServerSettings
    models: tuple[ModelConfig, ...]

    config_path: Path | None = None
    """The watched configuration file; None when the model came by the command line."""

    engine: EngineOptions = field(default_factory=EngineOptions)
    """How a model of the file, or of a reload, is compiled where its entry says nothing."""


@dataclass(frozen=True, kw_only=True)
class TuneSettings:
    """The settings of `ie_serving tune`."""

    requests: Path | None = None
    """File of requests; None takes the version's recorded requests, or generates them."""

    latency_ms: float = 0.0
    """p99 in milliseconds that is wanted; 0 wants none."""

    seconds: float = 60.0
    """How long it may take."""

    concurrency: int = 8
    """Callers that send requests at a time."""

    output: Path | None = None
    """File that keys and measurements are written to as JSON; None writes none."""


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """The result of parsing a command line."""

    settings: Settings

    storage: StorageOptions
    """How stores are reached and where copies are kept."""

    warnings: tuple[str, ...] = ()
    """Accepted settings without effect; for the log, once it is set up."""

    names: Mapping[str, str] = field(default_factory=dict)
    """The command's name for each setting, for `core.values.hints`."""

    only_check: bool = False
    """Report the models that would be served, instead of serving them."""

    as_json: bool = False
    """Say it as JSON."""

    tune: TuneSettings | None = None
    """Measure settings of the one model, instead of serving it."""

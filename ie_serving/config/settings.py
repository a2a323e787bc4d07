"""The settings of the server: each is declared on its field, with the reason for its default.

`schema/` declares those of callers, limits and the log; models, engines and stores have theirs in
their options. Dialects and files produce these values, checked, and `app/command_line.py` passes
them on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ie_serving.config.schema.server import AccessSettings, Limits, Telemetry
from ie_serving.core.settings import numbers, words
from ie_serving.core.settings.declaration import (
    BOOLEAN,
    BYTES,
    COUNT,
    DELAY,
    FILE,
    NAMES,
    PLACES,
    POLL_WAIT,
    PORT,
    TEXT,
    TIMEOUT,
    SettingKind,
    choice,
    whole,
)
from ie_serving.engines.base import EngineOptions
from ie_serving.models.configuration import ALWAYS, ON_DEMAND, ModelConfig
from ie_serving.models.fleet.repository import ModelRepository
from ie_serving.storage.options import StorageOptions
from ie_serving.storage.remote_file import RemoteFile

MOST_WORKERS: Final = 256
"""Most workers: far more than are useful, since each has every model in memory."""
TFS_FAMILIES: Final = (":tensorflow:",)
"""Beginning of the names of TensorFlow Serving's metrics."""
ALL_METRICS: Final = "/metrics/all"
"""Path of all metrics where each other path has those of one server."""
ALL_MODELS: Final = "*"
"""Stands for every model of the configuration among those to load, as in Triton."""
PROCESS: Final = "process"
"""Each load is tried in a process of its own first."""
EXPLICIT: Final = "explicit"
"""Clients load and unload models; the other mode follows configuration and repositories."""


@dataclass(frozen=True, kw_only=True)
class ServerSettings(AccessSettings, Limits, Telemetry):
    """How the process listens, polls, loads and stops; with who may call it, and what it tells."""

    # 0 is off instead of "any free port": clients could not know which one it was.
    # The port of 2020; the original's is 8500.
    port: int = PORT.setting(
        9000, "gRPC port; 0 is off", "9000", tfs="port", ovms="port", is_common=True
    )
    rest_port: int = PORT.setting(
        0, "REST port; 0 is off", "8000", tfs="rest_api_port", ovms="rest_port", is_common=True
    )
    host: str = SettingKind(words.address, "ADDRESS").setting(
        "", "address that both ports listen on", "127.0.0.1", shown="every IPv6 and IPv4 address"
    )
    grpc_host: str = SettingKind(words.addresses, "ADDRESS,..").setting(
        "",
        "addresses that the gRPC port listens on",
        "127.0.0.1",
        shown="those of both ports",
        word="grpc_bind_address",
        ovms="grpc_bind_address",
    )
    """Addresses of the gRPC port, separated by commas; empty takes `host`."""

    rest_host: str = SettingKind(words.addresses, "ADDRESS,..").setting(
        "",
        "addresses that the REST port listens on",
        "127.0.0.1",
        shown="those of both ports",
        word="rest_bind_address",
        ovms="rest_bind_address",
    )
    """Addresses of the REST port, separated by commas; empty takes `host`."""

    grpc_socket_path: str = FILE.setting(
        "",
        "UNIX socket on which gRPC is served, beside the port or instead of it",
        "/run/ie_serving/grpc.sock",
        tfs="grpc_socket_path",
    )
    rest_socket_path: str = FILE.setting(
        "",
        "UNIX socket on which REST is served, beside the port or instead of it",
        "/run/ie_serving/rest.sock",
    )
    # A second one has every model once more in memory, which only small models on many processors
    # are worth.
    workers: int = whole(1, MOST_WORKERS).setting(
        1,
        "processes that serve as one server, each with every model; they divide processors,"
        " memory budget and connections among them",
        "4",
        ovms="grpc_workers rest_workers max_workers",
        variables="IE_SERVING_WORKERS",
    )
    # The limit is a millisecond: beyond it the loop would hold a processor and win nothing. Useful
    # values are longer than a client on the same machine needs to ask again, so that the loop does
    # not sleep in between; docs/guide/performance.md has the gain.
    busy_poll_us: int = whole(0, 1000, "MICROSECONDS").setting(
        200, "microseconds that the server looks for the next request before it sleeps", "0"
    )
    enable_cors: bool = BOOLEAN.setting(
        False, "add CORS headers to REST replies", tfs="rest_api_enable_cors_support"
    )
    poll_wait_s: float = POLL_WAIT.setting(
        1.0,
        "seconds between two listings of a repository; 0 or less lists once, at start",
        "0.5",
        word="file_system_poll_wait_seconds",
        tfs="file_system_poll_wait_seconds",
        ovms="file_system_poll_wait_seconds",
        variables="FILE_SYSTEM_POLL_WAIT_SECONDS",
    )
    model_control_mode: str = choice("poll", EXPLICIT).setting(
        "poll",
        "choice of the loaded models of the configuration: all of them, or those that clients"
        " load by RepositoryModelLoad and POST /v2/repository/models/NAME/load",
        EXPLICIT,
    )
    load_model: tuple[str, ...] = NAMES.setting(
        (), "models to load at the start in explicit mode; * loads all", "resnet,bert", shown="none"
    )
    load: str = choice(ALWAYS, ON_DEMAND).setting(
        ALWAYS,
        "when models are loaded: as soon as their repositories are listed, or by the first request",
        ON_DEMAND,
    )
    # The default is the time that clients of TensorFlow Serving wait for a REST reply.
    load_wait_s: float = DELAY.setting(
        30.0,
        "seconds that a request waits until its model is loaded on demand; 0 answers UNAVAILABLE or"
        " 503 at once, and begins the load",
        "5",
    )
    model_memory_budget_bytes: int = BYTES.setting(
        0,
        "bytes that the process may hold when a model is loaded on demand: those whose last request"
        " is longest ago are unloaded first. 0 sets no limit",
        "8589934592",
    )
    idle_unload_timeout_s: float = DELAY.setting(
        0.0,
        "seconds without a request after which a model that was loaded on demand is unloaded;"
        " 0 keeps it",
        "600",
        ovms="idle_unload_timeout_seconds",
    )
    # Off: clients name files that the server then reads and writes.
    shared_memory: bool = BOOLEAN.setting(
        False,
        "let clients register regions of this machine's shared memory (/dev/shm), and pass tensors"
        " of the Open Inference Protocol by them",
        "true",
    )
    # OpenVINO Model Server has one interval for both; the original reads the file once by default.
    config_poll_wait_s: float = POLL_WAIT.setting(
        1.0,
        "seconds between two looks at the configuration file; 0 or less reads it once",
        "10",
        shown="as for repositories",
        tfs="model_config_file_poll_wait_seconds",
        ovms="file_system_poll_wait_seconds",
    )
    # The default is that of OpenVINO Model Server.
    sequence_cleaner_poll_wait_minutes: int = whole(0, numbers.LONGEST_S // 60, "MINUTES").setting(
        5,
        "minutes between two scans of stateful models for sequences without a request since the"
        " scan before, which are dropped; 0 never looks",
        "10",
        ovms="sequence_cleaner_poll_wait_minutes",
    )
    # A load balancer goes on sending for a while after readiness has gone false.
    drain_delay_s: float = DELAY.setting(
        0.0, "seconds that a stopping server still takes connections, no longer ready", "5"
    )
    # Kubernetes' grace period, after which it kills; deploy/ allows more than both drain times.
    drain_timeout_s: float = DELAY.setting(
        30.0,
        "seconds that requests in flight may still take when a version or the server stops",
        "20",
    )
    # The event loop's work takes milliseconds; a thread may hold the interpreter's lock for longer.
    worker_timeout_s: float = DELAY.setting(
        15.0,
        "seconds without a sign of life after which a worker process that hangs is ended and"
        " replaced, and its requests are lost; 120 at least while it loads a version; 0 never",
        "60",
        variables="WORKER_TIMEOUT_SECONDS",
    )
    # One version compiles with all processors while the second is fetched or read.
    load_threads: int = COUNT.setting(
        2, "versions that are compiled at a time", "4", tfs="num_load_threads"
    )
    # The trial takes a second and the model's memory twice for a while.
    load_isolation: str = choice("off", PROCESS).setting(
        "off",
        "load a version in a process of its own before a worker loads it, so that a load that runs"
        " out of memory or crashes costs no request; off loads it in the worker at once",
        PROCESS,
    )
    # A load cannot be interrupted; its waiters can give up.
    # A large model on a busy machine may take minutes: only its owner knows a useful limit.
    load_timeout_s: float = DELAY.setting(
        0.0,
        "seconds after which a load counts as failed, waiting for its turn included; it goes on,"
        " and the version serves if it ends well; 0 sets no limit",
        "600",
    )
    # Typed lists cost both sides more than bytes that are copied. 2020 let its users choose, and so
    # does the original, which answers in lists by default.
    tensor_content: bool = BOOLEAN.setting(
        True,
        "encode gRPC outputs as tensor_content; false uses the typed lists",
        tfs="enable_serialization_as_tensor_content",
        variables="SERIALIZATION_FUNCTION",
        # In 2020 the variable named the function that encodes.
        reads=words.meant_by(
            {
                "_prepare_output_with_make_tensor_proto": True,
                "_prepare_output_as_AppendArrayToTensorProto": False,
            }
        ),
    )
    # OpenVINO Model Server has this default; `tensorflow_model_server` sets the other.
    rest_metadata: str = choice("camel", "snake").setting(
        "camel",
        "names in REST metadata: modelSpec and signatureDef, as the server of 2020 and OpenVINO"
        " Model Server have them, or model_spec and signature_def, as TensorFlow Serving",
        "snake",
    )
    # Prometheus' default path, on by default so that metrics exist when they are needed.
    metrics_path: str = SettingKind(words.metrics_path, "PATH").setting(
        "/metrics",
        "REST path of the Prometheus metrics",
        "/monitoring/prometheus/metrics",
        tfs="monitoring_config_file",
        ovms="metrics_enable metrics_list",  # there a switch, with the path fixed
    )
    """Empty serves none."""

    invocations_model: str = TEXT.setting(
        "",
        "model that answers POST /invocations, as Amazon SageMaker asks for them beside GET /ping",
        "resnet",
    )
    # A label of a version that does not serve makes requests fail; rollouts that set labels before
    # versions need it.
    labels_for_unavailable: bool = BOOLEAN.setting(
        False,
        "let a new version label name a version that is not AVAILABLE yet",
        word="allow_version_labels_for_unavailable_models",
        tfs="allow_version_labels_for_unavailable_models",
    )
    # Off as in the original: SavedModels of TensorFlow 2 call every method predict.
    method_name_check: bool = BOOLEAN.setting(
        False,
        "refuse a signature whose method does not fit the RPC",
        word="enable_signature_method_name_check",
        tfs="enable_signature_method_name_check",
    )
    # A path that cannot be listed ends the start by default: it is taken for a misspelt one.
    allow_unavailable_models: bool = BOOLEAN.setting(
        False, "start although a repository cannot be listed, and wait for it"
    )
    # Thousands of models take a while, and most answer long before the last one does.
    # Readiness probes of the original's users take an open port for a server that has loaded.
    open_ports_early: bool = BOOLEAN.setting(
        False, "open the ports before the models are loaded; those that are ready answer"
    )
    # A rollout waits for readiness: this lets it go on without a broken model.
    ready_after_s: float | None = DELAY.setting(
        None,
        "seconds after which the server is ready although some model has never served; 0 waits"
        " for none",
        "300",
        shown="wait for every model",
    )
    # An unmounted volume looks like this, and is more frequent than an owner who removes all
    # versions of a model but keeps it configured.
    unload_when_empty: bool = BOOLEAN.setting(
        False, "unload a model when its repository becomes empty; false keeps what serves"
    )
    """Believe a repository that is empty after it was not; else that is an unmounted volume."""

    # A version is immutable to most users, and two of it in memory may be more than there is room.
    reload_changed_versions: bool = BOOLEAN.setting(
        False,
        "load a version anew, beside itself, when its files change while it serves; false warns",
    )
    # The original replays the records of a model, and loads one without as ever.
    warmup: bool = BOOLEAN.setting(
        True,
        "replay assets.extra/tf_serving_warmup_requests of a version before it serves",
        word="enable_model_warmup",
        tfs="enable_model_warmup",
    )
    warmup_iterations: int = COUNT.setting(
        1,
        "how often each warm-up record is replayed",
        "3",
        word="num_request_iterations_for_warmup",
        tfs="num_request_iterations_for_warmup",
    )
    monitoring_path: str = ""
    """A second path of the metrics: the one in a monitoring file of TensorFlow Serving."""

    metrics_families: tuple[str, ...] = ()
    """Beginnings of the names of the metrics at `metrics_path`: those of OpenVINO Model Server,
    where its flag or key enables them; empty for all."""

    answering_model: str = ""
    """Model that answers gRPC under any name, and `POST /predict`, as kibernetika-serving's does;
    empty: each under its own name."""

    old_front: str = ""
    """Folder of `compat/` whose API the REST port has as well; empty for none."""

    require_available: bool = False
    """Open the ports only when every model serves, and end if one fails, as TF Serving does."""

    is_ovms: bool = False
    """Command line or file are OpenVINO Model Server's: the message of a good version is "OK"."""

    announce_as_tfs: bool = False
    """Log that the ports are open in TensorFlow Serving's words as well."""

    takes_grpc_socket: bool = False
    """Replace the gRPC socket of a server that still listens there, as TensorFlow Serving does."""

    @property
    def shares_port(self) -> bool:
        """Whether both interfaces are answered on one port."""
        hosts = (self.grpc_host or self.host, self.rest_host or self.host)
        return bool(self.port) and self.port == self.rest_port and len(set(hosts)) == 1

    @property
    def metrics_pages(self) -> Mapping[str, tuple[str, ...]]:
        """Where which metrics are: beginnings of their names by path, none for all.

        Parsers of pages of other servers may know no other names, so each of their paths has their
        families alone; one page always has all.
        """
        if not (self.rest_port or self.rest_socket_path):
            return {}
        pages = {self.monitoring_path: TFS_FAMILIES, self.metrics_path: self.metrics_families}
        pages.pop("", None)
        return {**pages, ALL_METRICS: ()} if pages and all(pages.values()) else pages

    @property
    def metrics_paths(self) -> tuple[str, ...]:
        """Where the metrics are; nowhere without a REST port."""
        return tuple(sorted(self.metrics_pages))

    @property
    def warmup_times(self) -> int:
        """How often each warm-up record is replayed; 0 replays none."""
        return self.warmup_iterations if self.warmup else 0

    @property
    def is_explicit(self) -> bool:
        """Whether clients load and unload the models of the configuration."""
        return self.model_control_mode == EXPLICIT

    def poll_wait_of(self, model: ModelConfig) -> float:
        """Seconds between two listings of a model's repository; 0 lists it once."""
        return self.poll_wait_s if model.poll_wait_s is None else model.poll_wait_s

    def is_on_demand(self, model: ModelConfig) -> bool:
        """Whether a model is loaded by its first request."""
        return (model.load or self.load) == ON_DEMAND

    @property
    def tries_loads(self) -> bool:
        """Whether each version is loaded in a process of its own first."""
        return self.load_isolation == PROCESS


def repositories(value: object, place: str) -> tuple[ModelRepository, ...]:
    """Read paths and URLs of directories of models, separated by commas."""
    given = words.listed(value, place)
    return tuple(ModelRepository(base_path=words.resolved(each, Path.cwd())) for each in given)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings from which the composition root (`app/application.py`) builds a server."""

    server: ServerSettings
    models: tuple[ModelConfig, ...]

    config_path: Path | RemoteFile | None = FILE.setting(
        None,
        "configuration file, JSON or TensorFlow Serving's text form; it is watched",
        "config/every_key.json",
        shown="required",
        tfs="model_config_file",
        ovms="config_path",
        is_common=True,
    )
    """The watched configuration file, on disk or in a store; None when the model came by the
    command line."""

    repositories: tuple[ModelRepository, ...] = SettingKind(repositories, PLACES).setting(
        (),
        "directory whose sub-directories are models, each named by its directory",
        "s3://models",
        shown="none",
        word="model_repository",
    )
    """Directories of models that the command line names."""

    in_file: tuple[ModelRepository, ...] = ()
    """Directories of models that the configuration file names at the start."""

    engine: EngineOptions = field(default_factory=EngineOptions)
    """Default options for models of the file, or of a reload."""


@dataclass(frozen=True, kw_only=True)
class TuneSettings:
    """The settings of `ie_serving tune`: flags of the command, beside those of `check`."""

    requests: Path | None = SettingKind(words.existing_file, "FILE").setting(
        None,
        "requests that are asked: a golden.json, or a TFRecord file of PredictionLog",
        "recorded.tfrecord",
        shown="those of the version, else random numbers",
        is_common=True,
    )
    latency_ms: float = SettingKind(numbers.milliseconds, "MILLISECONDS").setting(
        0.0,
        "time within which 99 of 100 requests are to be answered",
        "20",
        shown="any",
        is_common=True,
    )
    seconds: float = TIMEOUT.setting(
        60.0,
        "how long it may take, compiling included; what has begun is ended",
        "300",
        is_common=True,
    )
    concurrency: int = whole(1, 1024).setting(
        8, "callers that ask at a time, each one request after the other", "32"
    )
    output: Path | None = SettingKind(words.file_to_write, "FILE").setting(
        None, "file to write the keys and what was measured to, as JSON", "tuned.json"
    )


@dataclass(frozen=True, kw_only=True)
class ParsedCommandLine:
    """The result of parsing a command line."""

    settings: Settings

    storage: StorageOptions
    """Access to stores, and the directory of copies."""

    warnings: tuple[str, ...] = ()
    """Accepted settings without effect; for the log, once it is set up."""

    names: Mapping[str, str] = field(default_factory=dict)
    """The command's name for each setting, for `core.values.hints`."""

    only_check: bool = False
    """Report the models that would be served, instead of serving them."""

    lenient: bool = True
    """Log the warnings; otherwise a check reports them as faults."""

    as_json: bool = False
    """Say it as JSON."""

    tune: TuneSettings | None = None
    """Measure settings of the one model, instead of serving it."""

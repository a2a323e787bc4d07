"""Every setting, with its meaning, unit and default.

The command lines (`cli.py`, `tfs_cli.py`) and the configuration files (`config_source.py`) produce
these values, checked; `main.py` hands them on. Nothing else knows a flag's or a key's name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ie_serving.engines.base import EngineOptions
from ie_serving.models.version_policy import Latest, VersionPolicy


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """One model: where its versions lie, which are served, and how they are compiled."""

    name: str
    """Name in requests."""

    base_path: str
    """Directory or URL whose numeric sub-directories are the versions."""

    version_policy: VersionPolicy = field(default_factory=Latest)
    """Which versions are served."""

    version_labels: Mapping[str, int] = field(default_factory=dict)
    """Label to version; a label moves in one step."""

    engine: EngineOptions = field(default_factory=EngineOptions)
    """How versions are compiled."""

    poll_wait_s: float | None = None
    """Seconds between two listings; 0 never lists again; None takes the server's."""

    ready_marker: str = ""
    """File that must lie in a version directory before it is loaded; empty asks for none."""

    platform: str = ""
    """TensorFlow Serving's `model_platform`; empty where the configuration has no such word."""


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """How the process listens, polls, stops and logs."""

    host: str = ""
    """Address to listen on, both ports; empty for every IPv6 and IPv4 address."""

    port: int = 9000
    """gRPC port; 0 is off."""

    rest_port: int = 0
    """REST port; 0 is off."""

    max_message_bytes: int = 1 << 30
    """Largest gRPC message, REST body; a gzip body over REST inflates to 100 MiB at most."""

    grpc_transport: str = "http2"
    """What carries gRPC: `http2`, the server's own, or `grpcio`, the library's."""

    rest_timeout_s: float = 30.0
    """Longest time that one REST inference may take, waiting included."""

    busy_poll_us: int = 200
    """Microseconds that the loop looks for the next request before it sleeps; 0 sleeps at once."""

    enable_cors: bool = False
    """Add CORS headers to REST replies."""

    poll_wait_s: float = 1.0
    """Seconds between two listings of a repository; 0 lists once, at start."""

    config_poll_wait_s: float = 1.0
    """Seconds between two looks at the configuration file; 0 reads it once."""

    drain_delay_s: float = 0.0
    """How long a stopping server still takes connections after readiness has gone false."""

    drain_timeout_s: float = 30.0
    """How long requests in flight, or held by an unloading version, may still take."""

    load_threads: int = 2
    """Versions that are fetched and compiled at a time."""

    tensor_content: bool = True
    """Encode gRPC outputs as `tensor_content`; False uses the typed lists, as TF Serving does."""

    metrics_path: str = ""
    """REST path of the Prometheus metrics; empty serves none."""

    labels_for_unavailable: bool = False
    """Let a new version label name a version that is not AVAILABLE yet."""

    method_name_check: bool = False
    """Refuse a signature whose method does not fit the RPC."""

    allow_unavailable_models: bool = False
    """Start although a repository cannot be listed, and wait for it."""

    require_available: bool = False
    """Open the ports only when every model serves, and end if one fails, as TF Serving does."""

    warmup: bool = True
    """Replay a version's `assets.extra/tf_serving_warmup_requests` before it serves."""

    warmup_iterations: int = 1
    """How often each warm-up record is replayed."""

    cache_dir: Path | None = None
    """Local copies of remote repositories and compiled models; None takes the user's cache."""

    cache_size_bytes: int = 0
    """Size at which the least recently used copies are evicted; 0 sets no limit."""

    log_level: str = "INFO"
    """`DEBUG`, `INFO`, `WARNING` or `ERROR`."""

    log_path: str = ""
    """File that log lines are appended to as well; empty for none."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All of it: what the composition root (`main.py`) builds from."""

    server: ServerSettings
    models: tuple[ModelConfig, ...]

    config_path: Path | None = None
    """The watched configuration file; None when the model came by the command line."""

    engine: EngineOptions = field(default_factory=EngineOptions)
    """How a model of the file, or of a reload, is compiled where its entry says nothing."""


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """What a command line came to."""

    settings: Settings

    warnings: tuple[str, ...] = ()
    """What was accepted without effect; for the log, once it is set up."""

"""Refuses models that several workers cannot serve as one server."""

from collections.abc import Iterable, Iterator
from typing import Final

from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.hints import Hint
from ie_serving.engines.sequences import Sequences
from ie_serving.models.configuration import ModelConfig


def check(settings: Settings) -> None:
    """Refuse models that several workers cannot serve as one server. Raises: ConfigError."""
    if faults := conflicts(settings.server, settings.models):
        raise ConfigError(faults)


def conflicts(server: ServerSettings, models: Iterable[ModelConfig]) -> list[str]:
    """Name models that several workers cannot serve as one server; none for one worker."""
    return [*_of_server(server), *faults_of(server, models)]


def check_models(server: ServerSettings, models: Iterable[ModelConfig]) -> None:
    """Refuse models that several workers cannot serve as one server. Raises: ConfigError."""
    if faults := list(faults_of(server, models)):
        raise ConfigError(faults)


def faults_of(server: ServerSettings, models: Iterable[ModelConfig]) -> Iterator[str]:
    """Yield the faults of models for several workers."""
    for model in models if server.workers > 1 else ():
        if model.engine.of(Sequences).stateful:
            yield (
                f"model {model.name} is stateful: its sequences live in one process, and requests"
                f" of one may reach each of {server.workers} workers{_ONE}"
            )


def _of_server(server: ServerSettings) -> Iterator[str]:
    if server.workers == 1:
        return
    if server.grpc_transport != "http2":
        yield (
            f"grpcio accepts connections by itself, unseen by the other of {server.workers}"
            f" workers{_ONE}{_HTTP2}"
        )
    if server.max_connections_per_address:
        yield (
            "connections of an address are counted by one process, and may reach each of"
            f" {server.workers} workers{_ONE}{_NO_LIMIT}"
        )


_ONE: Final = Hint(": leave {server.workers} at 1")
_HTTP2: Final = Hint(", or {server.grpc_transport} at http2")
_NO_LIMIT: Final = Hint(", or {server.max_connections_per_address} at 0")

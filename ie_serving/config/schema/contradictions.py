"""Refuses settings of a server that contradict each other, in every dialect."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.hints import Hint, name_of
from ie_serving.engines.layer_options import Sequences
from ie_serving.models.configuration import ON_DEMAND, ModelConfig

_ONE: Final = Hint(": leave {server.workers} at 1")
_HTTP2: Final = Hint(", or {server.grpc_transport} at http2")
_NO_LIMIT: Final = Hint(", or {server.max_connections_per_address} at 0")
_NO_REGIONS: Final = Hint(", or {server.shared_memory} at false")
_OF_ON_DEMAND: Final = ("model_memory_budget_bytes", "idle_unload_timeout_s")
_SET_LOAD: Final = Hint(
    ", which alone it is for; set {server.load} to on_demand, or a model's load"
)


def check(settings: Settings) -> None:
    """Refuse contradictions. Raises: ConfigError, with all of them."""
    server = settings.server
    faults = of_workers(server, settings.models)
    faults += [f"{name_of(name) or name}: {text}" for name, text in of_shared_port(server)]
    are_all = not (settings.repositories or settings.in_file)
    faults += _of_shadows(settings.models, are_all=are_all)
    _refuse([*faults, *_of_on_demand(server, settings.models), *_of_access(server)])


def of_workers(server: ServerSettings, models: Iterable[ModelConfig]) -> list[str]:
    """Name models that several workers cannot serve as one server; none for one worker."""
    return [*_of_server(server), *_of_stateful(server, models)]


def check_models(
    server: ServerSettings, models: Sequence[ModelConfig], *, are_all: bool = False
) -> None:
    """Refuse models that the server cannot serve as they are set. Raises: ConfigError.

    Args:
        server: its settings.
        models: those of a changed file.
        are_all: whether there are no others.
    """
    faults = [*_of_stateful(server, models), *_of_residency(server, models)]
    _refuse([*faults, *_of_shadows(models, are_all=are_all)])


def refusal(server: ServerSettings, model: ModelConfig) -> str:
    """Say why a server cannot serve a model; empty if it can."""
    faults = (*_of_stateful(server, [model]), *_of_residency(server, [model]))
    return "; ".join(map(str, faults))


def _refuse(faults: Sequence[str]) -> None:
    if faults:
        raise ConfigError(faults)


def _of_on_demand(server: ServerSettings, models: Sequence[ModelConfig]) -> Iterator[str]:
    on_demand = [model for model in models if server.is_on_demand(model)]
    unused = () if on_demand or server.load == ON_DEMAND else _OF_ON_DEMAND
    for name in unused:
        if getattr(server, name):
            yield f"{name_of(f'server.{name}') or name}: no model is loaded on demand{_SET_LOAD}"
    yield from _of_residency(server, models)


def _of_residency(server: ServerSettings, models: Iterable[ModelConfig]) -> Iterator[str]:
    """Yield the faults of each model between being loaded on demand and always."""
    for model in models:
        if not server.is_on_demand(model):
            if model.pinned:
                yield (
                    f'model {model.name} is always loaded: "pinned" has no effect; leave it out, or'
                    ' give "load": "on_demand"'
                )
        elif model.engine.of(Sequences).stateful:
            yield (
                f"model {model.name} is stateful: to unload it would lose its sequences; give it"
                ' "load": "always"'
            )


def _of_shadows(models: Sequence[ModelConfig], *, are_all: bool) -> Iterator[str]:
    """Yield the faults of shadows by other models; of unknown ones, unless directories have more.

    Args:
        models: models of the file.
        are_all: whether there are no others.
    """
    known = {model.name: model for model in models}
    for model in models:
        other = model.shadow.model if model.shadow else ""
        if other in known and known[other].engine.of(Sequences).stateful:
            yield (
                f"the shadow of model {model.name}: model {other} is stateful, and answers requests"
                " of sequences alone; name a model without state"
            )
        elif other and other not in known and are_all:
            yield (
                f"the shadow of model {model.name}: model {other} is not configured; name one of"
                f" {', '.join(sorted(known))}, or leave the shadow out"
            )


def _of_stateful(server: ServerSettings, models: Iterable[ModelConfig]) -> Iterator[str]:
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
    if server.shared_memory:
        yield (
            "regions of shared memory are registered in one process, and requests may reach each of"
            f" {server.workers} workers{_ONE}{_NO_REGIONS}"
        )


def of_shared_port(server: ServerSettings) -> Iterator[tuple[str, str]]:
    """Yield the name of each setting that contradicts one port for both, and the reason."""
    if not server.shares_port:
        return
    if server.grpc_transport != "http2":
        yield (
            "server.rest_port",
            "the same port as that of gRPC; expected another one with the transport grpcio, whose"
            " library takes connections of gRPC alone",
        )
    if server.tls_ports != "both":
        yield (
            "server.tls_ports",
            f"{server.tls_ports} given; expected both, since gRPC and REST are on one port",
        )


# A setting without effect is refused: a server that was meant to be closed must not be open.
def check_access(settings: ServerSettings) -> None:
    """Refuse settings of callers that contradict each other, or have no effect.

    Raises:
        ConfigError: all of them.
    """
    _refuse(_of_access(settings))


def _of_access(settings: ServerSettings) -> list[str]:
    return [str(each) for each in (*_of_tls(settings), *_of_callers(settings))]


def _of_tls(settings: ServerSettings) -> Iterator[Hint]:
    own = (settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    if settings.ssl_config_file and any(own):
        yield Hint(
            "{server.ssl_config_file} has its own certificates; give it, or the others, not both"
        )
    elif bool(settings.tls_certificate) != bool(settings.tls_key):
        yield Hint("{server.tls_certificate} and {server.tls_key} belong together; give both")
    elif settings.tls_client_ca and not settings.tls_certificate:
        yield Hint("{server.tls_client_ca} needs {server.tls_certificate}")
    if settings.tls_client_crl and not settings.tls_client_ca:
        yield Hint("{server.tls_client_crl} needs {server.tls_client_ca}, whose clients it revokes")
    # Python's gRPC library takes no revocation list: it would accept revoked clients.
    elif settings.tls_client_crl and settings.grpc_transport == "grpcio":
        yield Hint("{server.tls_client_crl} needs the http2 of {server.grpc_transport}")
    if settings.tls_ports != ServerSettings.tls_ports and not settings.has_tls:
        yield Hint("{server.tls_ports} needs {server.tls_certificate}: no port is encrypted")


def _of_callers(settings: ServerSettings) -> Iterator[Hint]:
    """Name the contradictions of the settings."""
    named = bool(settings.auth_username)
    if named != bool(settings.auth_password):
        yield Hint("{server.auth_username} and {server.auth_password} belong together; give both")
    if named and not settings.enable_auth:
        yield Hint("{server.auth_username} needs {server.enable_auth}")
    if settings.enable_auth and not (named or settings.api_key_file):
        yield Hint(
            "{server.enable_auth} needs {server.api_key_file}, or {server.auth_username} and"
            " {server.auth_password}"
        )
    if ":" in settings.auth_username:
        yield Hint("{server.auth_username} must have no colon, which ends a name on the wire")
    yield from _contradicting_tokens(settings)


def _contradicting_tokens(settings: ServerSettings) -> Iterator[Hint]:
    own = (settings.jwt_issuer, settings.jwt_audience)
    if settings.jwt_keys and not all(own):
        # A key that signs for several would let the tokens of others in; RFC 8725, section 3.8.
        yield Hint("{server.jwt_keys} needs {server.jwt_issuer} and {server.jwt_audience}")
    if any(own) and not settings.jwt_keys:
        yield Hint("{server.jwt_issuer} and {server.jwt_audience} need {server.jwt_keys}")
    if settings.jwt_keys and not settings.api_key_file:
        yield Hint("{server.jwt_keys} needs {server.api_key_file}, whose lines say who may do what")

"""What gRPC and REST on one port do not go with, in every dialect."""

from collections.abc import Iterator

from ie_serving.config.settings import ServerSettings
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.hints import name_of


def conflicts(server: ServerSettings) -> Iterator[tuple[str, str]]:
    """Yield each setting that one port for both does not go with, by its place, and why."""
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


def check(server: ServerSettings) -> None:
    """Refuse what one port for both does not go with. Raises: ConfigError."""
    if faults := [f"{name_of(place) or place}: {text}" for place, text in conflicts(server)]:
        raise ConfigError(faults)

"""Settings that are to close a server to strangers, and what they must not say together.

One that would have no effect is refused: a server that was meant to be closed must not be open.
"""

from collections.abc import Iterator

from ie_serving.config.settings import ServerSettings
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.hints import Hint


def check(settings: ServerSettings) -> None:
    """Refuse settings that contradict each other, or that would have no effect.

    Raises:
        ConfigError: all of them.
    """
    if faults := [str(each) for each in (*_of_tls(settings), *_of_callers(settings))]:
        raise ConfigError(faults)


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
    # The library of gRPC for Python takes no such list: it would let revoked clients in.
    elif settings.tls_client_crl and settings.grpc_transport == "grpcio":
        yield Hint("{server.tls_client_crl} needs the http2 of {server.grpc_transport}")
    if settings.tls_ports != ServerSettings.tls_ports and not settings.has_tls:
        yield Hint("{server.tls_ports} needs {server.tls_certificate}: no port is encrypted")


def _of_callers(settings: ServerSettings) -> Iterator[Hint]:
    """Name what the settings must not say together."""
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

"""Reads certificate, key and authorities from the files that the settings name.

Source of SSLConfig: ssl_config.proto of TensorFlow Serving, and its server.cc.
"""

from pathlib import Path

from ie_serving.config.credentials import TlsMaterial
from ie_serving.config.files import source
from ie_serving.config.files.text_proto import parse_text
from ie_serving.config.schema.contradictions import check_access
from ie_serving.config.settings import ServerSettings
from ie_serving.core.values.errors import ConfigError
from ie_serving.wire.protobuf import messages


def read(settings: ServerSettings) -> TlsMaterial:
    """Read all files again. Blocking.

    Raises:
        ConfigError: a file cannot be read, or the settings contradict each other.
    """
    check_access(settings)
    if settings.ssl_config_file:
        return _of_ssl_config(settings.ssl_config_file)
    return TlsMaterial(
        place=settings.tls_certificate,
        certificate=_bytes(settings.tls_certificate),
        key=_bytes(settings.tls_key),
        client_ca=_bytes(settings.tls_client_ca),
        revoked=_bytes(settings.tls_client_crl),
    )


def _of_ssl_config(path: str) -> TlsMaterial:
    config = parse_text(source.read_text(Path(path)), messages.SSLConfig, path)
    for name in ("server_key", "server_cert"):
        if not getattr(config, name):
            raise ConfigError([f"{path}: {name} is missing; expected PEM"])
    # The original would believe every authority that its library knows, so any stranger.
    if config.client_verify and not config.custom_ca:
        raise ConfigError([f"{path}: client_verify needs custom_ca, the authorities of clients"])
    return TlsMaterial(
        place=path,
        certificate=config.server_cert.encode(),
        key=config.server_key.encode(),
        client_ca=config.custom_ca.encode() if config.client_verify else b"",
    )


def _bytes(path: str) -> bytes:
    return source.read_text(Path(path)).encode() if path else b""

"""Key material: the ports' certificates, and the credentials that callers must match.

The functions here read certificate, key and authorities from the files that the settings name, and
`files/access_file.py` the callers. `server/gate` takes the checked values.

Source of SSLConfig: ssl_config.proto of TensorFlow Serving, and its server.cc.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ie_serving.config.files import source
from ie_serving.config.files.text_proto import parse_text
from ie_serving.config.schema.contradictions import check_access
from ie_serving.config.settings import ServerSettings
from ie_serving.core.values.access import Principal
from ie_serving.core.values.errors import ConfigError
from ie_serving.wire.protobuf import messages


@dataclass(frozen=True, kw_only=True)
class TlsMaterial:
    """The ports' certificate and key, and the authorities they trust; PEM, as in the files.

    Attributes:
        source: the file it comes from, for errors.
        certificate: certificate of the server, followed by the intermediate ones.
        key: key of the first certificate.
        client_ca: authorities of clients; empty: clients need no certificate.
        revoked: revocation lists of each of those authorities; empty: none.
    """

    source: str
    certificate: bytes
    key: bytes = field(repr=False)
    client_ca: bytes = b""
    revoked: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Password:
    """The hash of a user's password, by scrypt (RFC 7914).

    Attributes:
        caller: the user.
        salt: salt of the hash.
        n, r, p: cost of the hash.
        digest: the hash.
    """

    caller: Principal
    salt: bytes
    n: int
    r: int
    p: int
    digest: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The claim by which a token identifies its caller.

    Attributes:
        name: name of a claim, with dots for nested ones; empty: any valid token matches.
        value: the claim's value, or one of its values.
        caller: the bearer of such a token.
    """

    name: str
    value: str
    caller: Principal


@dataclass(frozen=True, kw_only=True)
class TokenMaterial:
    """The accepted tokens (JSON Web Tokens, RFC 7519), and their callers.

    Attributes:
        source: file or URL of the issuer's keys.
        is_url: whether the keys are fetched from `source`.
        keys: the text of the file; empty for a URL.
        issuer: the claim `iss` of every token.
        audiences: the claim `aud` must name one of these.
        algorithms: accepted signature algorithms.
        leeway_s: seconds by which clocks may differ.
        claims: identify the caller; the first match counts.
    """

    source: str
    is_url: bool
    keys: str
    issuer: str
    audiences: tuple[str, ...]
    algorithms: tuple[str, ...]
    leeway_s: float
    claims: tuple[Claim, ...]


@dataclass(frozen=True, kw_only=True)
class AccessMaterial:
    """The callers with access: the material that a request's credentials are compared with.

    Attributes:
        keys: callers by the SHA-256 of their keys.
        users: passwords by the names of the users.
        certificates: callers by a name in their certificates.
        tokens: material for tokens; None where no token is accepted.
    """

    keys: Mapping[bytes, Principal] = field(repr=False)
    users: Mapping[str, Password]
    certificates: Mapping[str, Principal]
    tokens: TokenMaterial | None = None


def read(settings: ServerSettings) -> TlsMaterial:
    """Read all files again. Blocking.

    Raises:
        ConfigError: a file cannot be read, or the settings contradict each other.
    """
    check_access(settings)
    if settings.ssl_config_file:
        return _of_ssl_config(settings.ssl_config_file)
    return TlsMaterial(
        source=settings.tls_certificate,
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
    # The original would trust every authority that its library knows, so any client.
    if config.client_verify and not config.custom_ca:
        raise ConfigError([f"{path}: client_verify needs custom_ca, the authorities of clients"])
    return TlsMaterial(
        source=path,
        certificate=config.server_cert.encode(),
        key=config.server_key.encode(),
        client_ca=config.custom_ca.encode() if config.client_verify else b"",
    )


def _bytes(path: str) -> bytes:
    return source.read_text(Path(path)).encode() if path else b""

"""The settings of TLS, of callers and of their rights."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ie_serving.core.settings import numbers, words
from ie_serving.core.settings.declaration import BOOLEAN, FILE, TEXT, SettingKind, choice
from ie_serving.core.settings.faults import fault

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Names of RFC 7518 and 8037, without shared secrets, which the server would have to hold."""
MOST_LEEWAY_S: Final = 300.0
"""RFC 7519 has "no more than a few minutes"; with more a withdrawn token is good for longer."""
HERE: Final = ("localhost", "127.0.0.1", "::1")


def is_url(place: str) -> bool:
    """Tell whether keys are fetched from a URL, or read from a file."""
    return "://" in place


def keys_place(value: object, place: str) -> str:
    """Read a file's path, or a URL whose answer cannot be forged on the network."""
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


# Without methods: `ServerSettings` makes its own, and making them takes time at the start.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Access:
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
        "who may do what: a line for each key, user or client certificate, as `ie_serving key"
        " new` prints; read again when it changes. Both ports then answer nobody else",
        "/etc/ie_serving/keys",
        variables="API_KEY_FILE",
        is_common=True,
    )
    """Empty, and no `enable_auth`: callers need no credentials."""

    jwt_keys: str = SettingKind(keys_place, "FILE|URL").setting(
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

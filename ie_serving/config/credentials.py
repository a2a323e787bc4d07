"""What the ports prove themselves with, and what the credentials of callers are compared with.

`files/tls_files.py` and `files/access_file.py` produce these values, checked; `server/gate` takes
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ie_serving.core.values.access import Caller


@dataclass(frozen=True, kw_only=True)
class TlsMaterial:
    """What the ports prove themselves with, and whom they believe; PEM, as the files have it.

    Attributes:
        place: the file that it comes from, for errors.
        certificate: of the server, then of those between it and the root.
        key: of the first certificate.
        client_ca: authorities of clients; empty: clients need no certificate.
        revoked: lists of revoked certificates, of each of those authorities; empty: none.
    """

    place: str
    certificate: bytes
    key: bytes = field(repr=False)
    client_ca: bytes = b""
    revoked: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Password:
    """What a user's password must come to, by scrypt (RFC 7914).

    Attributes:
        caller: who has it.
        salt: of the hash.
        n, r, p: cost of the hash.
        digest: the hash.
    """

    caller: Caller
    salt: bytes
    n: int
    r: int
    p: int
    digest: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a token must say for its bearer to be a caller.

    Attributes:
        name: of a claim, or of one in others with dots between; empty: any token will do.
        value: what it is, or has among its values.
        caller: who has such a token.
    """

    name: str
    value: str
    caller: Caller


@dataclass(frozen=True, kw_only=True)
class TokenMaterial:
    """Which tokens are believed (JSON Web Tokens, RFC 7519), and who has them.

    Attributes:
        place: file or URL of the issuer's keys.
        is_url: whether the keys are fetched from there.
        keys: the text of the file; empty for a URL.
        issuer: the claim `iss` of every token.
        audiences: of which the claim `aud` must name one.
        algorithms: that tokens may be signed by.
        leeway_s: seconds by which clocks may differ.
        claims: whose token it is; the first that fits.
    """

    place: str
    is_url: bool
    keys: str
    issuer: str
    audiences: tuple[str, ...]
    algorithms: tuple[str, ...]
    leeway_s: float
    claims: tuple[Claim, ...]


@dataclass(frozen=True, kw_only=True)
class AccessMaterial:
    """Who may ask: what a request's credentials are compared with.

    Attributes:
        keys: callers by the SHA-256 of their keys.
        users: passwords by the names of the users.
        certificates: callers by a name in their certificates.
        tokens: see `TokenMaterial`; None where no token is believed.
    """

    keys: Mapping[bytes, Caller] = field(repr=False)
    users: Mapping[str, Password]
    certificates: Mapping[str, Caller]
    tokens: TokenMaterial | None = None

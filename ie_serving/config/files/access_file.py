"""Reads the callers and their rights from the file of keys and the flags of one user.

A line has four words: name, rights, models, credential. Rights and models are lists with commas;
models are patterns as of files in a shell, `*` is all. The credential is one of

    sha256:HEX                  of an API key
    scrypt:N:R:P:SALT:HEX       of a password; the name is the user's
    certificate:NAME            a name in a client's certificate
    jwt:CLAIM=VALUE             a claim of a token, or `jwt:*` for any token

Empty lines and lines that begin with `#` are skipped.
"""

import re
import secrets
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import unquote

from ie_serving.config.credentials import AccessMaterial, Claim, Password, TokenMaterial
from ie_serving.config.files import source
from ie_serving.config.schema import server
from ie_serving.config.schema.contradictions import check_access
from ie_serving.config.settings import ServerSettings
from ie_serving.core.settings.faults import Faults, shown
from ie_serving.core.values import access
from ie_serving.core.values.access import EVERY_RIGHT, Principal, Right
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.hints import Hint

K = TypeVar("K")
V = TypeVar("V")

RIGHTS: Final = {str(right.name).lower(): right for right in Right}
ALL_MODELS: Final = "*"
COST: Final = (2**14, 8, 1)
"""n, r and p of new passwords: 16 MB and some 40 ms each, as RFC 7914 recommends for logins."""
MOST_MEMORY: Final = 64 << 20
"""Most bytes for verifying one password; a costlier hash is refused, since clients cause checks."""
MOST_PASSES: Final = 16
"""Largest p, which multiplies the time of a check; a larger one is refused."""
_CHEAP: Final = (2, 1, 1)
"""Cost for a password in plain text on the command line, which a hash does not protect."""
_SHA256 = re.compile(r"sha256:([0-9a-f]{64})")
_SCRYPT = re.compile(r"scrypt:(\d{1,8}):(\d{1,3}):(\d{1,3}):((?:[0-9a-f]{2}){8,64}):([0-9a-f]{64})")
_CERTIFICATE = re.compile(r"certificate:(\S+)")
_TOKEN = re.compile(r"jwt:(?:([^=\s]+)=(\S+)|\*)")


class _FoundCallers(NamedTuple):
    keys: dict[bytes, Principal]
    users: dict[str, Password]
    certificates: dict[str, Principal]
    claims: dict[tuple[str, str], Principal]


def read(settings: ServerSettings) -> AccessMaterial:
    """Read all files again. Blocking.

    Raises:
        ConfigError: all faults of the file, or the settings contradict each other.
    """
    check_access(settings)
    found = _FoundCallers({}, {}, {}, {})
    path = settings.api_key_file
    if path:
        _take_lines(source.read_text(Path(path)), path, found)
    if settings.auth_username:
        found.users[settings.auth_username] = _password_of(settings)
    if found.certificates and not (settings.tls_client_ca or settings.ssl_config_file):
        asked = Hint("; TLS asks clients for them with {server.tls_client_ca}")
        raise ConfigError([f"{path}: names certificates, which no client is asked for{asked}"])
    if found.claims and not settings.jwt_keys:
        asked = Hint("; give them by {server.jwt_keys}")
        raise ConfigError([f"{path}: names tokens, and no keys to verify them with{asked}"])
    return AccessMaterial(
        keys=found.keys,
        users=found.users,
        certificates=found.certificates,
        tokens=_tokens(settings, found) if settings.jwt_keys else None,
    )


def line(name: str, rights: str, models: str, credential: str) -> str:
    """Write a line of the file, and check it. Raises: ConfigError."""
    text = f"{name} {rights} {models} {credential}"
    _take_lines(text, "line", _FoundCallers({}, {}, {}, {}))
    return text


def key_credential(key: str) -> str:
    """Give the last word of an API key's line."""
    return f"sha256:{access.of_key(key.encode()).hex()}"


def password_credential(password: str) -> str:
    """Give the last word of a user's line."""
    salt = secrets.token_bytes(16)
    cost = ":".join(map(str, COST))
    digest = access.of_password(password.encode(), salt, *COST)
    return f"scrypt:{cost}:{salt.hex()}:{digest.hex()}"


def _tokens(settings: ServerSettings, found: _FoundCallers) -> TokenMaterial:
    keys, is_url = settings.jwt_keys, server.is_url(settings.jwt_keys)
    return TokenMaterial(
        source=keys,
        is_url=is_url,
        keys="" if is_url else source.read_text(Path(keys)),
        issuer=settings.jwt_issuer,
        audiences=tuple(each.strip() for each in settings.jwt_audience.split(",")),
        algorithms=settings.jwt_algorithms,
        leeway_s=settings.jwt_leeway_s,
        claims=tuple(
            Claim(name=name, value=value, caller=caller)
            for (name, value), caller in found.claims.items()
        ),
    )


def _password_of(settings: ServerSettings) -> Password:
    n, r, p = _CHEAP
    salt = b"command line"  # constant, so that reading again gives an equal value
    caller = Principal(name=settings.auth_username, rights=EVERY_RIGHT)
    digest = access.of_password(settings.auth_password.encode(), salt, n, r, p)
    return Password(caller=caller, salt=salt, n=n, r=r, p=p, digest=digest)


def _take_lines(text: str, path: str, found: _FoundCallers) -> None:
    faults = Faults()
    for number, each in enumerate(text.splitlines(), 1):
        words = each.split()
        if words and not words[0].startswith("#"):
            faults.take(lambda given, place: _take(given, place, found), words, f"{path}:{number}")
    faults.check()
    if not any(found):
        raise ConfigError(
            [
                f"{path}: names no caller, which is taken for a file that is being written; name"
                " one, or set no such file to let all callers in"
            ]
        )


def _take(words: list[str], place: str, found: _FoundCallers) -> None:
    if len(words) != 4:
        raise ConfigError(
            [f"{place}: {len(words)} words; expected 4: name, rights, models, credential"]
        )
    name, rights, models, credential = words
    patterns = tuple(models.split(","))
    names = () if ALL_MODELS in patterns else patterns
    caller = Principal(name=name, rights=_rights(rights, place), models=names)
    if matched := _SHA256.fullmatch(credential):
        _add(found.keys, bytes.fromhex(matched[1]), caller, place)
    elif matched := _CERTIFICATE.fullmatch(credential):
        _add(found.certificates, matched[1], caller, place)
    elif matched := _TOKEN.fullmatch(credential):
        # Escaped as in a URL, since blanks end a word and an equals sign the name.
        claim, value = (unquote(each or "") for each in matched.groups())
        _add(found.claims, (claim, value), caller, place)
    elif matched := _SCRYPT.fullmatch(credential):
        _add(found.users, name, _password(matched, caller, place), place)
    else:
        # The text does not show the word: it may be an unhashed key.
        raise ConfigError(
            [
                f"{place}: expected sha256: or scrypt: as `ie_serving key` prints them,"
                " certificate:NAME or jwt:CLAIM=VALUE"
            ]
        )


def _rights(given: str, place: str) -> Right:
    rights = Right(0)
    for word in given.split(","):
        if word not in RIGHTS:
            known = ", ".join(RIGHTS)
            raise ConfigError([f"{place}: right {shown(word)} given; expected some of {known}"])
        rights |= RIGHTS[word]
    return rights


def _password(matched: "re.Match[str]", caller: Principal, place: str) -> Password:
    n, r, p = (int(matched[part]) for part in (1, 2, 3))
    is_power = n > 1 and n & (n - 1) == 0
    memory = access.PASSES * n * r
    if not (is_power and r and 0 < p <= MOST_PASSES and memory <= MOST_MEMORY):
        raise ConfigError(
            [
                f"{place}: scrypt:{n}:{r}:{p} given; expected a power of 2, then 1 or more, then"
                f" 1 to {MOST_PASSES}, with a cost of {MOST_MEMORY} bytes at most"
            ]
        )
    salt, digest = bytes.fromhex(matched[4]), bytes.fromhex(matched[5])
    return Password(caller=caller, salt=salt, n=n, r=r, p=p, digest=digest)


def _add(known: dict[K, V], name: K, value: V, place: str) -> None:
    if name in known:
        raise ConfigError([f"{place}: this credential stands in the file twice; remove one line"])
    known[name] = value

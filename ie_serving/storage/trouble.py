"""The kinds of trouble with stores, and the error texts for them.

Each backend sorts its client's exceptions into these kinds in one place and names the setting to
change; errors below the clients (names, sockets, TLS) are common to all and sorted here. Texts
contain only our own words and the store's error codes: clients' texts can hold secrets.
"""

import errno
import logging
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, auto

from ie_serving.core.values.errors import (
    Corrupted,
    EntryChanged,
    Missing,
    ServingError,
    StorageError,
    Throttled,
    Unauthorized,
    Unreachable,
    Untrusted,
)
from ie_serving.core.values.hints import Hint


class Trouble(Enum):
    """Causes that need different actions."""

    DNS = auto()
    REFUSED = auto()
    TIMEOUT = auto()
    BROKEN = auto()
    NO_TLS = auto()
    CERTIFICATE = auto()
    REGION = auto()
    NO_CREDENTIALS = auto()
    CREDENTIALS = auto()
    CLOCK = auto()
    ANONYMOUS = auto()
    DENIED = auto()
    BUCKET = auto()
    CHANGED = auto()
    DAMAGED = auto()
    THROTTLED = auto()
    SERVER = auto()
    OTHER = auto()


MEANING: Mapping[Trouble, tuple[type[StorageError], str]] = {
    Trouble.DNS: (Unreachable, "the host's name does not resolve (DNS)"),
    Trouble.REFUSED: (Unreachable, "the connection was refused"),
    Trouble.TIMEOUT: (Unreachable, "no answer in time (time-out)"),
    Trouble.BROKEN: (Unreachable, "the connection broke"),
    Trouble.NO_TLS: (Untrusted, "the server does not speak TLS"),
    Trouble.CERTIFICATE: (Untrusted, "the certificate was refused (TLS)"),
    Trouble.REGION: (StorageError, "the bucket is in another region"),
    Trouble.NO_CREDENTIALS: (Unauthorized, "there are no usable credentials"),
    Trouble.CREDENTIALS: (Unauthorized, "the credentials were refused"),
    Trouble.CLOCK: (Unauthorized, "the clocks of this machine and the store differ"),
    Trouble.ANONYMOUS: (Unauthorized, "the store refuses requests without credentials"),
    Trouble.DENIED: (Unauthorized, "permission denied"),
    Trouble.BUCKET: (Missing, "the bucket does not exist"),
    Trouble.CHANGED: (EntryChanged, "it was replaced or removed after it had been listed"),
    Trouble.DAMAGED: (Corrupted, "the bytes that arrived are not those that the store promises"),
    Trouble.THROTTLED: (Throttled, "the store asks to slow down (throttling)"),
    Trouble.SERVER: (Unreachable, "the store failed"),
    Trouble.OTHER: (StorageError, "the store refused the request"),
}

_CODE = re.compile(r"(?:[0-9]{3} )?[A-Za-z0-9._-]{1,64}|[A-Za-z0-9.:_-]{1,255}:[0-9]{1,5}")
"""A code, with the HTTP status before it or not; or host and port."""
_UNROUTABLE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN}
_MOST_CAUSES = 12
"""Exceptions that are looked at behind one error. Clients wrap three to five; beyond this many none
is looked at, so that a chain without end cannot hold a poll."""

Classify = Callable[[Exception], tuple[Trouble, str] | None]
"""Names the trouble and the store's code for it; None when the trouble lies below the client."""


@contextmanager
def translated(
    url: str, action: str, classify: Classify, advice: Mapping[Trouble, str | Hint]
) -> Iterator[None]:
    """Translate a client's exception into the StorageError that it means, and raise that.

    Args:
        url: of the store, without credentials.
        action: the attempted action, such as `list` or `read 3/model.xml`.
        classify: sorts the client's exceptions.
        advice: the advice for each trouble, with the backend's names of settings.
    """
    try:
        yield
    except ServingError:
        raise
    except Exception as error:
        trouble, code = classify(error) or (network_trouble(error) or Trouble.OTHER, peer_of(error))
        raise _fault(url, action, trouble, code, advice) from error


def quiet(*loggers: str) -> None:
    """Keep clients from logging requests: at DEBUG they show signatures and tokens."""
    for name in loggers:
        logger = logging.getLogger(name)
        # Not where it says no more already: the level may be changed while the server runs.
        if logger.getEffectiveLevel() < logging.WARNING:
            logger.setLevel(logging.WARNING)


def http_trouble(status: int) -> Trouble:
    """Sort an answer that has no code of its own."""
    # S3's SlowDown comes with 503, and other stores say it when they are overloaded.
    if status in (429, 503):
        return Trouble.THROTTLED
    if status >= 500 or status == 408:
        return Trouble.SERVER
    return {401: Trouble.CREDENTIALS, 403: Trouble.DENIED, 412: Trouble.CHANGED}.get(
        status, Trouble.OTHER
    )


def network_trouble(error: BaseException) -> Trouble | None:
    """Sort an error below HTTP; None when there is none."""
    sorted_causes = (_socket_trouble(cause) for cause in _causes(error))
    return next((trouble for trouble in sorted_causes if trouble), None)


def peer_of(error: BaseException) -> str:
    """Give host and port of the connection that `error` is about, by urllib3; empty for none.

    With a proxy or an endpoint in between, the reader needs to know which peer failed.
    """
    for cause in _causes(error):
        # Not `getattr`: one of its errors has a property of this name that warns.
        held = vars(cause).get("conn") or vars(cause).get("pool")
        host, port = getattr(held, "host", None), getattr(held, "port", None)
        if host and port:
            return f"{host}:{port}"
    return ""


def _fault(
    url: str, action: str, trouble: Trouble, code: str, advice: Mapping[Trouble, str | Hint]
) -> StorageError:
    kind, meaning = MEANING[trouble]
    if trouble is Trouble.DENIED:
        meaning += " to list" if action == "list" else " to read"
    # A code is a word of the store's documentation; anything else may be a text with a secret.
    detail = f" ({code})" if _CODE.fullmatch(code) else ""
    what = f"{url}: cannot {action}: {meaning}{detail}"
    return kind(what, ": ", advice[trouble]) if trouble in advice else kind(what)


def _socket_trouble(error: BaseException) -> Trouble | None:
    # Imported here: modules of stores, which import this one, are imported at every start.
    from urllib3.exceptions import (
        IncompleteRead,
        NameResolutionError,
        ProtocolError,
        ReadTimeoutError,
    )
    from urllib3.exceptions import TimeoutError as PoolTimeout

    if isinstance(error, (socket.gaierror, NameResolutionError)):
        return Trouble.DNS
    if isinstance(error, ConnectionRefusedError):
        return Trouble.REFUSED
    if isinstance(error, ssl.SSLCertVerificationError):
        return Trouble.CERTIFICATE
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        # OpenSSL reads the first bytes of a plain HTTP answer as the version of its protocol.
        return Trouble.NO_TLS if "WRONG_VERSION" in str(error) else Trouble.BROKEN
    if isinstance(error, (TimeoutError, ReadTimeoutError, PoolTimeout)):
        return Trouble.TIMEOUT
    if isinstance(error, (ConnectionError, ssl.SSLEOFError, IncompleteRead)):
        return Trouble.BROKEN
    if isinstance(error, OSError) and error.errno in _UNROUTABLE:
        return Trouble.REFUSED
    if type(error) is ProtocolError:
        return Trouble.BROKEN
    return None


def _causes(error: BaseException) -> list[BaseException]:
    """Every exception that led to `error`, innermost first.

    Clients wrap each other's: as cause, as context, as argument, as `reason` (urllib3) and in
    `kwargs` (botocore).
    """
    found: list[BaseException] = [error]
    # `found` grows while it is walked: every exception adds those that it wraps.
    for cause in found:
        for inner in _wrapped_by(cause):
            if inner not in found and len(found) < _MOST_CAUSES:
                found.append(inner)
    return found[::-1]


def _wrapped_by(error: BaseException) -> list[BaseException]:
    wrapped = (error.__cause__, error.__context__, getattr(error, "reason", None), *error.args)
    named = getattr(error, "kwargs", None) or {}
    return [each for each in (*wrapped, *named.values()) if isinstance(each, BaseException)]

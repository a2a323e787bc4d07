"""The kinds of trouble with stores, their error texts, and retries with back-off.

Each backend sorts its client's exceptions into these kinds in one place and names the setting to
change; errors below the clients (names, sockets, TLS) are common to all and sorted here. Texts
contain only our own words and the store's error codes: clients' texts can hold secrets.
"""

import errno
import logging
import math
import random
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

from ie_serving.core.runtime.waits import Backoff
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
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)
T = TypeVar("T")

PASSING = (Unreachable, Throttled)
"""Transient trouble. All other trouble lasts until a person changes something."""

QUICK_THEN_PATIENT = Backoff(first_s=0.2, longest_s=10.0)
"""A broken connection is best opened again at once; a store that stays unreachable is tried every 5
to 10 s."""

_CODE = re.compile(r"(?:[0-9]{3} )?[A-Za-z0-9._-]{1,64}|[A-Za-z0-9.:_-]{1,255}:[0-9]{1,5}")
"""A code, with the HTTP status before it or not; or host and port."""
_UNROUTABLE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN}
_MOST_CAUSES = 12
"""Exceptions that are looked at behind one error. Clients wrap three to five; beyond this many none
is looked at, so that a chain without end cannot hold a poll."""


@dataclass(frozen=True, kw_only=True)
class RetryLimits:
    """How often, how long after each other, and for how long something is tried."""

    most: int
    """Most tries in all, the first one included."""

    backoff: Backoff = QUICK_THEN_PATIENT
    """Waits between two tries."""

    patience_s: float = math.inf
    """No further try begins this many seconds after the first, so that a hanging store is left."""


class RetryLoop:
    """Runs one thing until it is done, it fails for good, or its tries are used up."""

    def __init__(
        self,
        tries: RetryLimits,
        pause: Callable[[float], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tries = tries
        self._pause = pause
        self._clock = clock
        self.progressed()

    def progressed(self) -> None:
        """Count from the start again: something new was achieved since the last failure."""
        self._failures = 0
        self._began = self._clock()

    def run(self, action: Callable[[], T]) -> T:
        """Run `action`, with retries, and return its result.

        Raises:
            StorageError: the last failure.
        """
        while True:
            try:
                return action()
            except PASSING as error:
                self._wait(error)

    def _wait(self, error: StorageError) -> None:
        self._failures += 1
        # Counted from the first try, not from the last failure: a store that hangs until a time-out
        # of 30 s would otherwise hold its thread for more than a minute.
        is_late = self._clock() - self._began >= self._tries.patience_s
        if is_late or self._failures >= self._tries.most:
            raise error
        delay_s = self._tries.backoff.delay_s(self._failures, random.random())
        self._log(error, delay_s)
        self._pause(delay_s)

    def _log(self, error: StorageError, delay_s: float) -> None:
        log.info(
            Event(
                "request to the store failed, tried again after a pause",
                pause_s=round(delay_s, 2),
                failures=self._failures,
                cause=error,
            )
        )


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

Classify = Callable[[Exception], tuple[Trouble, str] | None]
"""Names the trouble and the store's code for it; None when the trouble lies below the client."""


@contextmanager
def translated(
    url: str, action: str, classify: Classify, advice: Mapping[Trouble, str | Hint]
) -> Iterator[None]:
    """Translate a client's exception into the StorageError that it means, and raise that.

    Args:
        url: URL of the store, without credentials.
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
        # Quiet loggers stay as they are: the level may be changed while the server runs.
        if logger.getEffectiveLevel() < logging.WARNING:
            logger.setLevel(logging.WARNING)


def http_trouble(status: int) -> Trouble:
    """Sort a reply that has no code of its own."""
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
        # `getattr` would warn: one of its errors has a deprecated property of this name.
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
        # OpenSSL reads the first bytes of a plain HTTP reply as the version of its protocol.
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

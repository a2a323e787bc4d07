"""Where the server is, what the client shows it, and how long the client tries."""

import random
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ie_serving.client.failures import ClientError, Unavailable, wrong

SCHEMES: Final = ("http", "https", "grpc", "grpcs")
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0
"""Longest pause between two attempts, unless the server asks for a longer one."""


@dataclass(frozen=True, kw_only=True)
class Connection:
    """The settings of a client. Raises: ClientError."""

    url: str
    """`http://HOST:PORT` or `https://` of the REST port; `grpc://` or `grpcs://` of the gRPC port.
    """

    timeout_s: float = 60.0
    """Longest time of one call, with all its attempts."""

    retry_s: float = 10.0
    """Seconds for which a call is tried again while the server is UNAVAILABLE; 0 tries once. A
    model that keeps state needs 0, since an attempt without an answer may have been computed."""

    key: str = field(default="", repr=False)
    """API key, or token of an issuer."""

    ca: str | Path | None = None
    """File of the authority that signed the server's certificate; the system's by default."""

    certificate: str | Path | None = None
    """The client's own certificate, for mutual TLS."""

    private_key: str | Path | None = None
    """Key of that certificate."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in SCHEMES or not parts.netloc:
            raise wrong(f"url is {self.url!r}; expected one of {', '.join(SCHEMES)}, ://HOST:PORT")
        if not self.timeout_s > 0 or not self.retry_s >= 0:
            raise wrong("timeout_s has to be above 0, and retry_s 0 or more")
        if (self.certificate is None) != (self.private_key is None):
            raise wrong("certificate and private_key belong together: give both")

    @property
    def is_grpc(self) -> bool:
        """Whether calls go over gRPC."""
        return self.url.startswith("grpc")

    @property
    def is_secure(self) -> bool:
        """Whether the connection is encrypted."""
        return urlsplit(self.url).scheme in ("https", "grpcs")

    def headers(self) -> Mapping[str, str]:
        """Give the header with the credentials, or none."""
        return {"authorization": f"Bearer {self.key}"} if self.key else {}

    def tls(self) -> ssl.SSLContext:
        """Make the TLS settings of REST. Raises: ClientError."""
        try:
            made = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                made.load_cert_chain(self.certificate, self.private_key)
        except OSError as error:
            raise wrong(f"certificates cannot be used: {error}") from None
        return made

    def pem(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Read authority, private key and certificate for gRPC. Raises: ClientError."""
        files = (self.ca, self.private_key, self.certificate)
        try:
            ca, key, own = (None if each is None else Path(each).read_bytes() for each in files)
        except OSError as error:
            raise wrong(f"certificates cannot be used: {error}") from None
        return ca, key, own


class Attempts:
    """The attempts of one call: how much time is left, and how long to wait before the next.

    Args of the constructor:
        connection: its `timeout_s` and `retry_s`.
        clock: seconds that never go backwards.
        share: a number from 0 to 1, so that clients do not come back at the same moment.
    """

    def __init__(
        self,
        connection: Connection,
        clock: Callable[[], float],
        share: Callable[[], float] = random.random,
    ) -> None:
        self._clock, self._share = clock, share
        self._end = clock() + connection.timeout_s
        self._last_retry = clock() + connection.retry_s
        self._pause_s = FIRST_PAUSE_S

    def left(self) -> float:
        """Give the seconds until the deadline, always above 0."""
        return max(self._end - self._clock(), 0.001)

    def pause(self, error: ClientError) -> float:
        """Give the seconds to wait before the next attempt. Raises `error` if there is none."""
        if not isinstance(error, Unavailable):
            raise error
        pause = max(self._pause_s * (0.5 + self._share() / 2), error.retry_after_s or 0.0)
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
        if self._clock() + pause >= min(self._end, self._last_retry):
            raise error
        return pause

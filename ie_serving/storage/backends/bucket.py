"""The base of bucket stores: one client for all models of a bucket, and its error handling.

Each backend adds the calls of its client library, and sorts that library's exceptions.
"""

import logging
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from ie_serving.core.values.errors import Unauthorized
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.hosts import host_of, is_public
from ie_serving.storage.base import Entry, Location, shown
from ie_serving.storage.trouble import Trouble, translated
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.metrics.stores import STORES

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
"""A host that does not answer within this is down or behind a firewall: Unreachable."""

READ_TIMEOUT_S = 30.0
"""Longest silence within a reply. A store under load pauses for seconds; beyond this the request
counts as broken and is sent again."""

CHUNK_BYTES = 64 * 1024
"""Bytes of a body that are awaited at a time, for each of eight parts of a download. Smaller pieces
cost calls; with larger ones it takes long to see that a download trickles, or is given up."""

CONNECTIONS = 16
"""Connections that one client keeps open: eight parts of a download and the listings beside it.
Beyond it a connection is closed after its request instead of being kept."""

REBUILT_AFTER_S = 30.0
"""Least seconds between two clients whose credentials are refused. Making a client takes up to 0.2
s of processor time and opens new connections; fifty refused models would each make one at every
poll, and requests would wait for the processor."""

ClientT = TypeVar("ClientT")

_REFUSED = (Trouble.DENIED, Trouble.CREDENTIALS)
"""A store's answers to a request that it does not allow without credentials."""

_CURED_BY_READING_AGAIN = (Trouble.NO_CREDENTIALS, Trouble.CREDENTIALS, Trouble.ANONYMOUS)
"""Troubles that a new client, which reads the credentials again, may not have."""


class SharedClient(Generic[ClientT]):
    """One client of a process, made on first use, and replaced after its credentials were refused.

    Processes that were forked share no connection: each makes its own client.

    Args of the constructor:
        make: makes the client.
        close: closes the connections that a client keeps. Requests under way end undisturbed.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        make: Callable[[], ClientT],
        close: Callable[[ClientT], object] = lambda client: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._close = close
        self._clock = clock
        self._dropped_at = -math.inf
        self._lock = Lock()
        self._client: ClientT | None = None
        self._process = 0

    def get(self) -> ClientT:
        """Give the client; raises whatever making it raises."""
        # The lock is held while the client is made: finding credentials queries the cloud's
        # servers, and eight threads of a download would query them all at once.
        with self._lock:
            if self._client is None or self._process != os.getpid():
                self._client, self._process = self._make(), os.getpid()
            return self._client

    def drop(self, client: ClientT) -> None:
        """Forget `client`, so that rotated credentials are read; not again at once."""
        with self._lock:
            # Others may have been refused with the same client, and have replaced it by now.
            is_early = self._clock() - self._dropped_at < REBUILT_AFTER_S
            if self._client is not client or is_early:
                return
            self._client = None
            self._dropped_at = self._clock()
        self._close(client)


class BucketRemote(ABC, Generic[ClientT]):
    """One prefix of a bucket. See `storage.base.Remote`, whose reads the subclasses add.

    Args of the constructor:
        location: bucket and prefix.
        endpoint: host or URL of the store; empty for the one that the client knows.
        kept: the client, shared by all prefixes of the bucket.

    Attributes:
        advice: the setting to change for each trouble of this store.
    """

    advice: Mapping[Trouble, str | Hint]

    def __init__(self, location: Location, endpoint: str, kept: SharedClient[ClientT]) -> None:
        self._location = location
        self._endpoint = endpoint
        self._kept = kept

    @property
    def url(self) -> str:
        """`scheme://bucket/prefix`, as it was given."""
        return self._location.url

    @property
    def identity(self) -> str:
        """The endpoint and the URL."""
        return f"{shown(self._endpoint)} {self.url}"

    def list(self, directory: str) -> Iterator[Entry]:
        """One request for each 1000 objects below `directory`."""
        with self._client("list") as client:
            prefix = f"{self._location.prefix}{directory}/"
            yield from self._location.entries(self._objects(client, prefix))

    def everything(self) -> Iterator[Entry]:
        """As `list`, of all that lies below the URL."""
        with self._client("list") as client:
            yield from self._objects(client, self._location.prefix)

    @abstractmethod
    def _objects(self, client: ClientT, prefix: str) -> Iterator[Entry]:
        """Yield the objects whose keys begin with `prefix`, with their keys as paths."""

    @abstractmethod
    def _classify(self, error: Exception, action: str) -> tuple[Trouble, str] | None:
        """Name the trouble and the store's code for it; None when it lies below the client."""

    @abstractmethod
    def _is_anonymous(self, client: ClientT) -> bool:
        """Tell whether `client` sends its requests without credentials."""

    @contextmanager
    def _client(self, action: str) -> Iterator[ClientT]:
        """Give the client for one action, and raise its trouble as the StorageError it means."""
        client: ClientT | None = None  # None while it cannot even be made
        trouble: Trouble | None = None

        def classify(error: Exception) -> tuple[Trouble, str] | None:
            """Tell the trouble and the store's code; None for a defect. Notes the trouble."""
            nonlocal trouble
            found = self._classify(error, action)
            if client and found and found[0] in _REFUSED and self._is_anonymous(client):
                found = Trouble.ANONYMOUS, found[1]
            trouble = found[0] if found else None
            return found

        try:
            with STORES.call(self.url, action), translated(self.url, action, classify, self.advice):
                client = self._kept.get()
                yield client
        # Clients read their credentials once. Those on disk may have been rotated since, so the
        # next call reads them again instead of failing until a restart.
        except Unauthorized:
            if client is not None and trouble in _CURED_BY_READING_AGAIN:
                self._kept.drop(client)
            raise


def warn_of_plain_http(bucket: str, url: str, proxy: str = "") -> None:
    """Warn where requests to a bucket are not encrypted on their way to a public address.

    Args:
        bucket: its name.
        url: URL of the store.
        proxy: the address of the proxy in between; empty for none.
    """
    for what, host in exposed(url, proxy):
        log.warning(Event("plain HTTP to a public address", bucket=bucket, host=host, what=what))


def exposed(url: str, proxy: str = "") -> Iterator[tuple[str, str]]:
    """Give the data that third parties can read, and the public host that receives it."""
    is_plain = urlsplit(url).scheme == "http"
    if is_plain and is_public(host_of(url)):
        yield "requests", host_of(url)
    # All clients take a proxy without a scheme for one of plain HTTP. Requests by HTTPS stay
    # encrypted to the store on their way through it.
    if not proxy or proxy.lower().startswith("https://") or not is_public(host_of(proxy)):
        return
    if is_plain:
        yield "requests by proxy", host_of(proxy)
    if "@" in proxy:
        yield "credentials of the proxy", host_of(proxy)


def proxy_of(url: str, *others: str) -> str:
    """Give the address of the proxy that a client uses for a URL; empty for none.

    Args:
        url: URL of the store.
        others: proxy keys that the client tries where the URL's scheme has none, such as `all`.
    """
    # Imported here: it brings an HTTP client, which a server of local models should not pay for.
    from urllib.request import getproxies, proxy_bypass

    # The proxy comes from the environment, as the clients themselves read it.
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc):
        return ""
    proxies = getproxies()
    return next((proxies[each] for each in (parts.scheme, *others) if proxies.get(each)), "")

"""Asks a server's REST API about one message after another; tries again while it is away."""

import http.client
import json
import random
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from ie_serving.core.runtime.backoff import Backoff
from ie_serving.core.values.errors import ConfigError

AGAIN: Final = frozenset({429, 502, 503, 504})
"""Statuses of a server, or a proxy before it, that may answer later."""
BACKOFF: Final = Backoff(first_s=0.5, longest_s=10.0)


class Asker:
    """One connection to a server, opened anew when it breaks. Blocking.

    Args of the constructor:
        url: of the server.
        path: of the model's `:predict`.
        key: see `BridgeOptions.api_key`.
        timeout_s, retry_s: see `BridgeOptions`.
        wait: waits for so many seconds.

    Raises:
        ConfigError: the URL is none of HTTP, or its port is none.
    """

    def __init__(
        self,
        url: str,
        path: str,
        key: str,
        *,
        timeout_s: float,
        retry_s: float,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._server, below = _connection(url, timeout_s)
        self._path = below + path
        self._headers = {"content-type": "application/json", **({"x-api-key": key} if key else {})}
        self._retry_s = retry_s
        self._wait = wait

    def ask(self, body: bytes) -> bytes:
        """Give the server's answer, or why there is none, as JSON."""
        until = time.monotonic() + self._retry_s
        failures = 0
        while True:
            said, again = self._try(body)
            failures += 1
            pause_s = BACKOFF.delay_s(failures, random.random())
            if not again or time.monotonic() + pause_s > until:
                return said
            self._wait(pause_s)

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def _try(self, body: bytes) -> tuple[bytes, bool]:
        """Give an answer, and whether to ask again for a better one."""
        try:
            self._server.request("POST", self._path, body, self._headers)
            reply = self._server.getresponse()
            said = reply.read()
        except (OSError, http.client.HTTPException) as error:
            self._server.close()
            text = f"the server does not answer: {type(error).__name__}: {error}"
            return json.dumps({"error": text}).encode(), True
        if reply.will_close:
            self._server.close()
        return said, reply.status in AGAIN


def _connection(url: str, timeout_s: float) -> tuple[http.client.HTTPConnection, str]:
    """Give a connection that is not open yet, and the path below which the API lies."""
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # a port that is none, or half an IPv6 address
        host = None
    if not host or parts.scheme not in kinds:
        raise ConfigError([f'the server\'s address is "{url}"; expected http://HOST:PORT'])
    return kinds[parts.scheme](host, port, timeout=timeout_s), parts.path.rstrip("/")

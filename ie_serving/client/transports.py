"""Where the server is, and how the client sends it one call, over REST or gRPC.

Each transport is written once: with a blocking library its coroutines end without a pause.
"""

import asyncio
import inspect
import json
import random
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import grpc
import grpc.aio
import httpx

from ie_serving.client.calls import CallHeaders, ClientCall
from ie_serving.client.failures import ClientError, Unavailable, of_connection, of_http, wrong
from ie_serving.core.runtime.waits import Backoff
from ie_serving.core.values.codes import Code

SCHEMES: Final = ("http", "https", "grpc", "grpcs")
BACK_OFF: Final = Backoff(first_s=0.1, longest_s=2.0)
"""Pauses between attempts, unless the server asks for longer ones."""


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
    model that keeps state needs 0, since an attempt without a reply may have been computed."""

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
        self._failures = 0

    def left(self) -> float:
        """Give the seconds until the deadline, always above 0."""
        return max(self._end - self._clock(), 0.001)

    def pause(self, error: ClientError) -> float:
        """Give the seconds to wait before the next attempt. Raises `error` if there is none."""
        if not isinstance(error, Unavailable):
            raise error
        self._failures += 1
        pause = max(BACK_OFF.delay_s(self._failures, self._share()), error.retry_after_s or 0.0)
        if self._clock() + pause >= min(self._end, self._last_retry):
            raise error
        return pause


BytesReply: TypeAlias = tuple[bytes, CallHeaders]

OPTIONS: Final = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    # The client itself tries again; the channel has to connect as often as it does.
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


class RestTransport:
    """Sends over HTTP/1.1 by connections that are kept."""

    def __init__(self, connection: Connection, *, blocking: bool) -> None:
        kind: Any = httpx.Client if blocking else httpx.AsyncClient
        self._is_blocking = blocking
        self._http = kind(
            base_url=connection.url,
            headers=connection.headers(),
            verify=connection.tls() if connection.is_secure else False,
            trust_env=False,  # by the environment, a proxy or .netrc would change credentials
        )

    async def send(self, call: ClientCall[Any], timeout_s: float) -> BytesReply:
        """Send a call once. Raises: ClientError."""
        try:
            if self._is_blocking:
                reply, body = self._bounded(call, timeout_s)
            else:
                asked = self._http.request(**_http_arguments(call, timeout_s))
                reply = await asyncio.wait_for(asked, timeout_s)
                body = reply.content
        except (httpx.TimeoutException, asyncio.TimeoutError):
            text = f"no answer within {timeout_s:.3g} s; ask again, or raise timeout_s"
            raise ClientError(Code.DEADLINE_EXCEEDED, text) from None
        except httpx.HTTPError as error:
            raise of_connection(str(error) or type(error).__name__) from error
        if reply.is_success:
            return body, reply.headers
        try:
            text = str(json.loads(body)["error"])
        except (ValueError, KeyError, TypeError):
            text = body[:500].decode("utf-8", "replace") or reply.reason_phrase
        raise of_http(reply.status_code, text, reply.headers.get("retry-after", ""))

    def _bounded(self, call: ClientCall[Any], timeout_s: float) -> tuple[httpx.Response, bytes]:
        """Send a blocking call; httpx bounds each wait for bytes, so all of them are added up."""
        end = time.monotonic() + timeout_s
        pieces = []
        with self._http.stream(**_http_arguments(call, timeout_s)) as reply:
            for piece in reply.iter_bytes():
                pieces.append(piece)
                if time.monotonic() > end:
                    raise httpx.ReadTimeout("the body takes too long")
        return reply, b"".join(pieces)

    async def close(self) -> None:
        """Close the connections."""
        await _awaited(self._http.close() if hasattr(self._http, "close") else self._http.aclose())


class RpcTransport:
    """Sends over one gRPC channel."""

    def __init__(self, connection: Connection, *, blocking: bool) -> None:
        library: Any = grpc if blocking else grpc.aio
        target = connection.url.partition("://")[2].rstrip("/")
        self._metadata = [*connection.headers().items()]
        if connection.is_secure:
            credentials = grpc.ssl_channel_credentials(*connection.pem())
            self._channel = library.secure_channel(target, credentials, OPTIONS)
        else:
            self._channel = library.insecure_channel(target, OPTIONS)

    async def send(self, call: ClientCall[Any], timeout_s: float) -> BytesReply:
        """Send a call once. Raises: ClientError."""
        ask = self._channel.unary_unary(call.path)
        try:
            return await _awaited(ask(call.payload, timeout=timeout_s, metadata=self._metadata)), {}
        except grpc.RpcError as error:
            refused: Any = error  # it is a Call as well
            code, text = Code[refused.code().name], str(refused.details() or "without a text")
            if code is Code.UNAVAILABLE:
                raise of_connection(text) from error
            raise ClientError(code, text) from error

    async def close(self) -> None:
        """Close the connections."""
        await _awaited(self._channel.close())


def _http_arguments(call: ClientCall[Any], timeout_s: float) -> Mapping[str, Any]:
    return {
        "method": call.method,
        "url": call.path,
        "content": call.payload or None,
        "headers": call.headers,
        "timeout": timeout_s,
    }


async def _awaited(value: Any) -> Any:  # noqa: ANN401  of either library
    return await value if inspect.isawaitable(value) else value

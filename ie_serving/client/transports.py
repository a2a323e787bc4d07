"""Send one call and give its answer, over REST or gRPC.

Each transport is written once: with a blocking library its coroutines end without a pause.
"""

import asyncio
import inspect
import json
import time
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio
import httpx

from ie_serving.client.calls import Call, Headers
from ie_serving.client.endpoint import Connection
from ie_serving.client.failures import ClientError, of_connection, of_http
from ie_serving.core.values.codes import Code

Answer: TypeAlias = tuple[bytes, Headers]

OPTIONS: Final = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    # The client itself tries again; the channel has to connect as often as it does.
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


class Rest:
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

    async def send(self, call: Call[Any], timeout_s: float) -> Answer:
        """Send a call once. Raises: ClientError."""
        try:
            if self._is_blocking:
                reply, body = self._bounded(call, timeout_s)
            else:
                asked = self._http.request(**_asked(call, timeout_s))
                reply = await asyncio.wait_for(asked, timeout_s)
                body = reply.content
        except (httpx.TimeoutException, asyncio.TimeoutError):
            text = f"no answer within {timeout_s:.3g} s"
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

    def _bounded(self, call: Call[Any], timeout_s: float) -> tuple[httpx.Response, bytes]:
        """Send a blocking call; httpx bounds each wait for bytes, so all of them are added up."""
        end = time.monotonic() + timeout_s
        pieces = []
        with self._http.stream(**_asked(call, timeout_s)) as reply:
            for piece in reply.iter_bytes():
                pieces.append(piece)
                if time.monotonic() > end:
                    raise httpx.ReadTimeout("the body takes too long")
        return reply, b"".join(pieces)

    async def close(self) -> None:
        """Close the connections."""
        await _given(self._http.close() if hasattr(self._http, "close") else self._http.aclose())


class Rpc:
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

    async def send(self, call: Call[Any], timeout_s: float) -> Answer:
        """Send a call once. Raises: ClientError."""
        ask = self._channel.unary_unary(call.path)
        try:
            return await _given(ask(call.payload, timeout=timeout_s, metadata=self._metadata)), {}
        except grpc.RpcError as error:
            refused: Any = error  # it is a Call as well
            code, text = Code[refused.code().name], str(refused.details() or "without a text")
            if code is Code.UNAVAILABLE:
                raise of_connection(text) from error
            raise ClientError(code, text) from error

    async def close(self) -> None:
        """Close the connections."""
        await _given(self._channel.close())


def _asked(call: Call[Any], timeout_s: float) -> Mapping[str, Any]:
    return {
        "method": call.method,
        "url": call.path,
        "content": call.payload or None,
        "headers": call.headers,
        "timeout": timeout_s,
    }


async def _given(value: Any) -> Any:  # noqa: ANN401  of either library
    return await value if inspect.isawaitable(value) else value

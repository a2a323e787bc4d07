"""The two clients: the same calls, on an event loop and blocking."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeAlias, TypeVar

from ie_serving.client.calls import (
    CallOutputs,
    ClientCall,
    Inputs,
    ModelAddress,
    Signatures,
    VersionStatus,
    signature_of,
)
from ie_serving.client.failures import ClientError, unreadable
from ie_serving.client.grpc_calls import GrpcCalls
from ie_serving.client.rest_calls import OtherOutputs, RestCalls
from ie_serving.client.transports import Attempts, Connection, RestTransport, RpcTransport
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import Signature

T = TypeVar("T")
Version: TypeAlias = int | None
"""None takes the version of the label, or the server's default."""


class AsyncClient:
    """Calls on an event loop; `async with` closes the connections.

    Args of the constructor:
        connection: a `Connection`, or its URL.
        options: the other settings of a `Connection`.

    Every call raises ClientError.
    """

    _blocking = False

    def __init__(self, connection: Connection | str, **options: Any) -> None:  # noqa: ANN401
        if isinstance(connection, str):
            connection = Connection(url=connection, **options)
        elif options:
            raise TypeError("settings beside a Connection: make them a part of it")
        self._connection = connection
        self._calls = GrpcCalls() if connection.is_grpc else RestCalls()
        kind = RpcTransport if connection.is_grpc else RestTransport
        self._transport = kind(connection, blocking=self._blocking)
        self._signatures: dict[ModelAddress, Signatures] = {}

    async def predict(
        self,
        model: str,
        inputs: Inputs,
        *,
        version: Version = None,
        label: str = "",
        signature: str = "",
    ) -> CallOutputs:
        """Ask for a prediction by TensorFlow Serving's API; give the outputs by name.

        Over REST the first call asks for the metadata, since JSON says neither dtypes nor the name
        of a single output. A reply that does not fit it, as of a new version, asks again.
        """
        which = ModelAddress(model, version, label, signature)
        try:
            known = await self._signature(which)
            return await self._ask(self._calls.predict(which, inputs, known))
        except OtherOutputs:
            self._signatures.pop(which._replace(signature=""), None)
        known = await self._signature(which)
        return await self._ask(self._calls.predict(which, inputs, known))

    async def infer(self, model: str, inputs: Inputs, *, version: Version = None) -> CallOutputs:
        """Ask for an inference by the Open Inference Protocol; give the outputs by name."""
        return await self._ask(self._calls.infer(ModelAddress(model, version), inputs))

    async def metadata(self, model: str, *, version: Version = None, label: str = "") -> Signatures:
        """Ask for the signatures of a version, with names, dtypes and shapes of their tensors."""
        which = ModelAddress(model, version, label)
        found = self._signatures[which] = await self._ask(self._calls.metadata(which))
        return found

    async def status(
        self, model: str, *, version: Version = None, label: str = ""
    ) -> list[VersionStatus]:
        """Ask for the states of a model's versions."""
        return await self._ask(self._calls.status(ModelAddress(model, version, label)))

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _signature(self, which: ModelAddress) -> Signature | None:
        if isinstance(self._calls, GrpcCalls):
            return None
        known = self._signatures.get(which._replace(signature=""))
        if known is None:
            known = await self.metadata(which.model, version=which.version, label=which.label)
        return signature_of(known, which.signature)

    async def _ask(self, call: ClientCall[T]) -> T:
        attempts = Attempts(self._connection, time.monotonic)
        while True:
            try:
                reply = await self._transport.send(call, attempts.left())
                break
            except ClientError as error:
                pause = attempts.pause(error)
            await self._sleep(pause)
        try:
            return call.read(*reply)
        except (ServingError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise unreadable(error) from error

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _BlockingClient(AsyncClient):
    """An `AsyncClient` whose coroutines end without a pause."""

    _blocking = True

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Client:
    """The calls of `AsyncClient`, which wait for their replies. Threads may share one client."""

    def __init__(self, connection: Connection | str, **options: Any) -> None:  # noqa: ANN401
        self._calls = _BlockingClient(connection, **options)

    def predict(
        self,
        model: str,
        inputs: Inputs,
        *,
        version: Version = None,
        label: str = "",
        signature: str = "",
    ) -> CallOutputs:
        """See `AsyncClient.predict`."""
        which: dict[str, Any] = {"version": version, "label": label, "signature": signature}
        return _ended(self._calls.predict(model, inputs, **which))

    def infer(self, model: str, inputs: Inputs, *, version: Version = None) -> CallOutputs:
        """See `AsyncClient.infer`."""
        return _ended(self._calls.infer(model, inputs, version=version))

    def metadata(self, model: str, *, version: Version = None, label: str = "") -> Signatures:
        """See `AsyncClient.metadata`."""
        return _ended(self._calls.metadata(model, version=version, label=label))

    def status(
        self, model: str, *, version: Version = None, label: str = ""
    ) -> list[VersionStatus]:
        """See `AsyncClient.status`."""
        return _ended(self._calls.status(model, version=version, label=label))

    def close(self) -> None:
        """Close the connections."""
        _ended(self._calls.close())

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ended(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine of `_BlockingClient`, which waits for nothing; give its result."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        found: T = end.value
        return found
    raise RuntimeError("a blocking call waited")  # a defect: no coroutine of _BlockingClient pauses

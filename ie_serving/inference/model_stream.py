"""A stream of one client's requests that the model answers as a whole, at the model's own pace."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ie_serving.core.values.errors import InvalidRequest, NotAvailable, ServingError
from ie_serving.core.values.requests import InferRequest, ModelSpec
from ie_serving.core.values.tensors import Arrays, Outputs
from ie_serving.engines.base import Stream
from ie_serving.inference.bound_signature import BoundSignature
from ie_serving.inference.interface import (
    Api,
    Interface,
    ReadOutputs,
    UnencodedOutputs,
    decode_large,
)
from ie_serving.inference.plane import DataPlane
from ie_serving.inference.stream_flow import Item, Outlet, StreamOutcome
from ie_serving.models.version.handle import Servable

T = TypeVar("T")

ParseItem = Callable[[Item[Any]], Awaitable[InferRequest]]
"""Parses the request of an item. Raises ServingError."""


@dataclass(frozen=True, slots=True)
class _TakenRequest(Generic[T]):
    """The request that the model took last; the model's next replies belong to it.

    Attributes:
        index: index of the `Item`.
        read: encodes outputs in the form that the request asks for.
        since: value of `time.perf_counter` when the model took the request.
    """

    index: int
    read: ReadOutputs[T]
    since: float


class VersionStream(Generic[T]):
    """One stream of one version, which is not unloaded before the stream has ended.

    Args of the constructor:
        plane: counts refused requests.
        interface: interface of the front end.
        servable: the version that answers.
        bound: the signature of the stream.
        stream: stream of the model, an `engines.base.Stream`.
    """

    def __init__(
        self,
        plane: DataPlane,
        interface: Interface[T],
        servable: Servable,
        bound: BoundSignature[T],
        stream: Stream,
    ) -> None:
        self._plane = plane
        self._interface = interface
        self._servable = servable
        self._bound = bound
        self._stream = stream
        self._spec: ModelSpec
        self._taken: _TakenRequest[T] | None = None
        self._dropped = 0

    @classmethod
    async def of(
        cls, plane: DataPlane, interface: Interface[T], request: InferRequest
    ) -> "VersionStream[T] | None":
        """Open the stream that a request begins; None if the model answers each request alone.

        Raises:
            ServingError: no version serves the model.
        """
        servable, bound = await plane.of_stream(request, interface)
        stream = servable.compiled.stream
        return cls(plane, interface, servable, bound, stream) if stream else None

    async def feed(
        self,
        request: InferRequest,
        parse: ParseItem,
        items: AsyncIterator[Item[Any]],
        outlet: Outlet[StreamOutcome[T]],
    ) -> None:
        """Pass all requests to the model, and the model's replies to the outlet.

        Args:
            request: the first request; the model sees its caller.
            parse: function that parses an item, a `ParseItem`.
            items: all requests, with the first one.
            outlet: takes the replies.

        Raises:
            ServingError: the error that the model's stream has ended with.
        """
        self._spec = request.model
        caller = self._interface.caller(request.caller)
        with self._servable:
            inputs = self._inputs(parse, items, outlet)
            replies = self._stream(self._bound.signature, inputs, self._read, caller)
            async with aclosing(inputs), aclosing(replies):
                async for reply in replies:
                    await outlet.reserve()
                    outlet.add(self._outcome_of(reply))

    async def _inputs(
        self, parse: ParseItem, items: AsyncIterator[Item[Any]], outlet: Outlet[StreamOutcome[T]]
    ) -> AsyncGenerator[Arrays, None]:
        async for item in items:
            self._check_served()
            found = await self._fitted_or_refusal(parse, item)
            if isinstance(found, ServingError):
                await outlet.reserve()
                outlet.add(StreamOutcome(item.index, found, item.dropped, item.payload))
                item.give()
                continue
            fitted, read = found
            self._taken = _TakenRequest(item.index, read, time.perf_counter())
            self._dropped += item.dropped
            yield fitted
            item.give()  # the model has asked for the next request

    def _check_served(self) -> None:
        if self._servable.unheld is not None:
            raise NotAvailable(
                f'version {self._servable.version} of "{self._servable.name}" is being unloaded:'
                " open the stream again, and send this request anew"
            )

    # Clearing an error's frames would end a generator; see `stream_flow.py`.
    async def _fitted_or_refusal(
        self, parse: ParseItem, item: Item[Any]
    ) -> tuple[Arrays, ReadOutputs[T]] | ServingError:
        try:
            return await self._fitted(parse, item)
        except ServingError as error:
            return error

    async def _fitted(self, parse: ParseItem, item: Item[Any]) -> tuple[Arrays, ReadOutputs[T]]:
        request = await parse(item)
        with self._plane.counting_refusals(request.model.name, self._interface, Api.PREDICT):
            if request.model != self._spec:
                raise InvalidRequest(
                    "the request names another version or signature than the first: the stream of"
                    " a kernel stays with one; open another stream for it"
                )
            if request.size < self._interface.large_request:
                inputs, form = request.decode(self._bound.signature)
            else:
                inputs, form = await decode_large(request, self._bound.signature)
            return self._bound.of_stream(inputs, form, request)

    def _read(self, outputs: Outputs) -> T:
        """Encode outputs, in the thread that the model's stream runs in."""
        reply = self._last_taken().read(outputs)
        return reply.encode(reply.outputs) if isinstance(reply, UnencodedOutputs) else reply

    def _outcome_of(self, reply: T | ServingError) -> StreamOutcome[T]:
        taken = self._last_taken()
        dropped, self._dropped = self._dropped, 0
        served = self._bound.served
        if isinstance(reply, ServingError):
            name, version = self._servable.name, self._servable.version
            self._plane.refused(name, reply, self._interface, Api.PREDICT, version)
        elif served is not None:
            served.add(time.perf_counter() - taken.since)
        return StreamOutcome(taken.index, reply, dropped)

    def _last_taken(self) -> _TakenRequest[T]:
        """Return the request that replies belong to. Raises: ServingError if there is none."""
        if self._taken is None:
            raise ServingError(
                "the kernel's stream gave outputs before it took a request: let it give them while"
                " it goes through its items"
            )
        return self._taken

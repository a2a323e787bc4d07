"""Streams of requests to one model, over any front end: who answers, how many, and how they end.

A model answers each request of a stream by Predict. A kernel that has a `stream` of its own is
given all of them, and answers each with no reply, one or several.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.values.codes import ENDED
from ie_serving.core.values.errors import InvalidRequest, NotAvailable, QueueFull, ServingError
from ie_serving.core.values.requests import InferRequest
from ie_serving.inference.interface import Api, Interface
from ie_serving.inference.model_stream import ModelStream
from ie_serving.inference.plane import DataPlane
from ie_serving.inference.stream_flow import (
    Answered,
    Inflow,
    Item,
    P,
    in_order,
    made,
    newest,
    numbered,
)
from ie_serving.telemetry.metrics.streams import StreamMetrics

T = TypeVar("T")

MOST_STREAMS: Final = 1000
"""Streams of this process, over both ports; one more is refused with RESOURCE_EXHAUSTED or 429."""
IN_FLIGHT: Final = 8
"""Requests of one stream that are worked on, or whose replies wait for their client, unless it says
otherwise: enough to share a batch, and few enough that a slow client has few replies waiting."""
MOST_IN_FLIGHT: Final = 64
"""The most that a stream may ask for: as many as the largest usual batch."""
MOST_WAITING: Final = 64
"""The most that `drop_oldest` may let wait: two seconds of a camera with 30 pictures a second."""
STOPPING: Final = "the server is shutting down: open the stream again elsewhere"

Read = Callable[[P], Awaitable[InferRequest]]
"""Parses a message. Raises ServingError."""

Finish = Callable[[InferRequest, T], T]


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a client says of its stream.

    Attributes:
        in_flight: requests that are worked on at a time; 0 for the default.
        drop_oldest: requests that may wait beside them, beyond which the oldest is dropped; 0 drops
            none, and lets the client wait.
    """

    in_flight: int = 0
    drop_oldest: int = 0

    @property
    def at_once(self) -> int:
        """How many are worked on: of a live source one, since a second would only be older."""
        return self.in_flight or (1 if self.drop_oldest else IN_FLIGHT)


def options_of(given: Mapping[str, str]) -> StreamOptions:
    """Read what a client says of its stream; other names mean nothing here.

    Raises:
        InvalidRequest: a value is no number in its range.
    """
    return StreamOptions(
        _number(given, "in_flight", MOST_IN_FLIGHT), _number(given, "drop_oldest", MOST_WAITING)
    )


def _number(given: Mapping[str, str], name: str, most: int) -> int:
    text = given.get(name)
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= most):
        raise InvalidRequest(f'{name} is "{text[:20]}"; expected a number from 1 to {most}')
    return int(text)


class OpenStreams:
    """The streams of this process, over every front end. Lives on one event loop.

    Attributes:
        metrics: of all of them.
    """

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self.metrics = StreamMetrics()
        self._most = most
        self._open: set[Inflow[Any]] = set()
        self._stopping = False

    def check(self) -> None:
        """Refuse a stream for which there is no room.

        Raises:
            NotAvailable: the server stops.
            QueueFull: there are as many as there may be.
        """
        if self._stopping:
            raise NotAvailable(STOPPING)
        if len(self._open) >= self._most:
            raise QueueFull(f"{self._most} streams are open already: open this one again later")

    @contextmanager
    def opened(self, requests: Inflow[Any]) -> Iterator[None]:
        """Count a stream during the body, which answers what has come when the server stops.

        Raises:
            NotAvailable, QueueFull: as `check`; also at the end, when the server stops.
        """
        self.check()
        self._open.add(requests)
        self.metrics.open += 1
        try:
            yield
        finally:
            self._open.discard(requests)
            self.metrics.open -= 1
        if self._stopping:
            raise NotAvailable(STOPPING)

    def stop(self) -> None:
        """Let every stream answer what has come, and end; open no more."""
        self._stopping = True
        for requests in tuple(self._open):
            requests.end()


class Streams(Generic[T]):
    """Answers the streams of one front end.

    Args of the constructor:
        plane: answers requests.
        interface: of the front end.
        every: all streams of the process.
        finish: gives a reply what only its request tells; None where there is nothing of that. Not
            asked for replies of a kernel's own stream, which belong to no one request.
    """

    def __init__(
        self,
        plane: DataPlane,
        interface: Interface[T],
        every: OpenStreams,
        finish: Finish[T] | None = None,
    ) -> None:
        self._plane = plane
        self._interface = interface
        self._every = every
        self._finish = finish

    def check(self) -> None:
        """Refuse, and count as a request, a stream for which there is no room.

        Raises:
            NotAvailable, QueueFull: see `OpenStreams.check`.
        """
        with self.counting_refusals():
            self._every.check()

    def counting_refusals(self, model: str = "") -> AbstractContextManager[object]:
        """Count, as a request for `model`, whatever the body raises before there is a stream."""
        return self._plane.counting_refusals(model, self._interface, Api.PREDICT)

    async def answers(
        self, requests: AsyncIterator[P], read: Read[P], options: StreamOptions
    ) -> AsyncGenerator[Answered[T], None]:
        """Answer what comes, in order, until there is no more.

        Raises:
            ServingError: why the stream ends before its requests do.
        """
        self.check()
        inflow = Inflow(requests)
        lease = Lease(BUDGET)
        with self._every.opened(inflow), given_back(lease):
            items = numbered(inflow, lease)
            if options.drop_oldest:
                items = newest(items, options.drop_oldest)
            stream = _OneStream(self._plane, self._interface, read, options.at_once, self._finish)
            # From the inside outwards: a generator can be closed when nobody waits for its next.
            async with aclosing(items), aclosing(stream.answers(items)) as answers:
                async for each in answers:
                    if each.dropped:
                        self._every.metrics.dropped[stream.model or ""] += each.dropped
                    yield each


@contextmanager
def given_back(lease: Lease) -> Iterator[None]:
    """Give back what a lease has when the body ends, whatever still refers to it.

    What a cancelled stream leaves behind refers to itself, and waits for the garbage collector.
    """
    try:
        yield
    finally:
        lease.release()


class _OneStream(Generic[P, T]):
    """One stream.

    Attributes:
        model: that of its first request which can be read and has a model; None before.
    """

    def __init__(
        self,
        plane: DataPlane,
        interface: Interface[T],
        read: Read[P],
        at_once: int,
        finish: Finish[T] | None,
    ) -> None:
        self._finish = finish
        self._plane = plane
        self._interface = interface
        self._parse = read
        self._at_once = at_once
        self.model: str | None = None

    async def answers(self, items: AsyncIterator[Item[P]]) -> AsyncGenerator[Answered[T], None]:
        """Answer them, each by itself or as the model's own stream."""
        async for item in items:
            first = await self._first(item)
            if isinstance(first, ServingError):
                yield Answered(item.index, first, item.dropped)
                item.give()
                continue
            request, whole = first
            begun = _again(item, items)
            of_all = self._by_model(whole, request, begun) if whole else self._each(begun)
            async with aclosing(begun), aclosing(of_all) as answers:
                async for each in answers:
                    yield each
            return

    # Not in the generator itself, which whoever phrases the error would end; see `stream_flow.py`.
    async def _first(
        self, item: Item[P]
    ) -> tuple[InferRequest, ModelStream[T] | None] | ServingError:
        try:
            request = await self._read(item)
            return request, ModelStream.of(self._plane, self._interface, request)
        except ServingError as error:
            self.model = None  # it may have named one that is not there
            return error

    async def _read(self, item: Item[P]) -> InferRequest:
        """Parse a request. Raises: ServingError."""
        if item.refusal is not None:
            raise item.refusal
        try:
            request = await self._parse(item.payload)
            self._check_model(request.model.name)
        except ENDED as error:
            self._plane.refused(self.model or "", error, self._interface, Api.PREDICT)
            raise
        return request

    def _check_model(self, name: str) -> None:
        if self.model is None:
            self.model = name
        elif name != self.model:
            raise InvalidRequest(
                f'the request names model "{name[:100]}", and its stream "{self.model}": a stream'
                " belongs to one model"
            )

    def _each(self, items: AsyncIterator[Item[P]]) -> AsyncGenerator[Answered[T], None]:
        async def answer(payload: P) -> T:
            began = time.perf_counter()
            request = await self._read(Item(0, payload))
            reply = await self._plane.predict(request, self._interface, began)
            return self._finish(request, reply) if self._finish else reply

        return in_order(items, answer, self._at_once)

    def _by_model(
        self, whole: ModelStream[T], request: InferRequest, items: AsyncIterator[Item[P]]
    ) -> AsyncGenerator[Answered[T], None]:
        return made(partial(whole.feed, request, self._read, items), self._at_once)


async def _again(item: Item[P], items: AsyncIterator[Item[P]]) -> AsyncGenerator[Item[P], None]:
    """Give an item that was looked at, and those behind it."""
    yield item
    async for each in items:
        yield each

"""Streams of requests to one model, over any front end: opening, limits, answering, ending.

A model answers each request of a stream as a Predict. A kernel with a `stream` method gets all the
requests itself, and answers each with any number of replies.
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
from ie_serving.inference.model_stream import VersionStream
from ie_serving.inference.plane import DataPlane
from ie_serving.inference.stream_flow import (
    Inflow,
    Item,
    P,
    StreamOutcome,
    in_order,
    made,
    newest,
    numbered,
)
from ie_serving.telemetry.metrics.requests import StreamMetrics

T = TypeVar("T")

MOST_STREAMS: Final = 1000
"""Open streams of this process over both ports; more are refused: RESOURCE_EXHAUSTED or 429."""
IN_FLIGHT: Final = 8
"""Default number of requests of one stream that are worked on or whose replies the client has not
taken: enough to share a batch, and few enough that a slow client keeps few replies in memory."""
MOST_IN_FLIGHT: Final = 64
"""Largest `in_flight` that a client may ask for: the largest usual batch."""
MOST_WAITING_ITEMS: Final = 64
"""Largest `drop_oldest`, in requests: about two seconds of a camera with 30 pictures a second."""
STOPPING: Final = "the server is shutting down: open the stream again elsewhere"

ReadPayload = Callable[[P], Awaitable[InferRequest]]
"""Parses a message. Raises ServingError."""

Finish = Callable[[InferRequest, T], T]


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options that a client sets for its stream.

    Attributes:
        in_flight: requests that are worked on at a time; 0 for the default.
        drop_oldest: further requests that may wait; beyond them the oldest is dropped. 0 drops none
            and makes the client wait.
    """

    in_flight: int = 0
    drop_oldest: int = 0

    @property
    def at_once(self) -> int:
        """Requests worked on at once: one for a live source: a second would be staler."""
        return self.in_flight or (1 if self.drop_oldest else IN_FLIGHT)


def options_of(given: Mapping[str, str]) -> StreamOptions:
    """Read the options of a stream; ignore other names.

    Raises:
        InvalidRequest: a value is no number in its range.
    """
    return StreamOptions(
        _number(given, "in_flight", MOST_IN_FLIGHT),
        _number(given, "drop_oldest", MOST_WAITING_ITEMS),
    )


def _number(given: Mapping[str, str], name: str, most: int) -> int:
    text = given.get(name)
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= most):
        raise InvalidRequest(f'{name} is "{text[:20]}"; expected a number from 1 to {most}')
    return int(text)


class OpenStreams:
    """The open streams of this process, over every front end. Lives on one event loop.

    Attributes:
        metrics: metrics of all streams.
    """

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self.metrics = StreamMetrics()
        self._most = most
        self._open: set[Inflow[Any]] = set()
        self._stopping = False

    def check(self) -> None:
        """Refuse a stream if the process cannot take one more.

        Raises:
            NotAvailable: the server stops.
            QueueFull: `MOST_STREAMS` are open.
        """
        if self._stopping:
            raise NotAvailable(STOPPING)
        if len(self._open) >= self._most:
            raise QueueFull(f"{self._most} streams are open already: open this one again later")

    @contextmanager
    def opened(self, requests: Inflow[Any]) -> Iterator[None]:
        """Count a stream during the body, which answers all received requests if the server stops.

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
        """Let every stream answer the requests that it has received, and end; open no more."""
        self._stopping = True
        for requests in tuple(self._open):
            requests.end()


class StreamReplies(Generic[T]):
    """Answers the streams of one front end.

    Args of the constructor:
        plane: answers requests.
        interface: interface of the front end.
        every: all streams of the process.
        finish: adds to a reply what depends on its request, such as an id; None if nothing does.
            Not called for replies of a kernel's own stream, which belong to no single request.
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
        """Refuse a stream if the process cannot take one more, and count it as a refused request.

        Raises:
            NotAvailable, QueueFull: see `OpenStreams.check`.
        """
        with self.counting_refusals():
            self._every.check()

    def counting_refusals(self, model: str = "") -> AbstractContextManager[object]:
        """Count each error of the body before a stream exists, as a request for `model`."""
        return self._plane.counting_refusals(model, self._interface, Api.PREDICT)

    async def replies(
        self, requests: AsyncIterator[P], read: ReadPayload[P], options: StreamOptions
    ) -> AsyncGenerator[StreamOutcome[T], None]:
        """Answer the requests in order until the client sends no more.

        Raises:
            ServingError: the reason why the stream ends before its requests do.
        """
        self.check()
        inflow = Inflow(requests)
        lease = Lease(BUDGET)
        with self._every.opened(inflow), given_back(lease):
            items = numbered(inflow, lease)
            if options.drop_oldest:
                items = newest(items, options.drop_oldest)
            stream = _OneStream(self._plane, self._interface, read, options.at_once, self._finish)
            # Innermost last: a generator can only be closed when no other awaits its next item.
            async with aclosing(items), aclosing(stream.replies(items)) as replies:
                async for each in replies:
                    if each.dropped:
                        self._every.metrics.dropped[stream.model or ""] += each.dropped
                    yield each


@contextmanager
def given_back(lease: Lease) -> Iterator[None]:
    """Give back the bytes of a lease when the body ends, even if references to the lease remain.

    A cancelled stream leaves reference cycles that wait for the garbage collector.
    """
    try:
        yield
    finally:
        lease.release()


class _OneStream(Generic[P, T]):
    """One stream.

    Attributes:
        model: named by the first request that could be parsed and whose model exists; before, None.
    """

    def __init__(
        self,
        plane: DataPlane,
        interface: Interface[T],
        read: ReadPayload[P],
        at_once: int,
        finish: Finish[T] | None,
    ) -> None:
        self._finish = finish
        self._plane = plane
        self._interface = interface
        self._parse = read
        self._at_once = at_once
        self.model: str | None = None

    async def replies(
        self, items: AsyncIterator[Item[P]]
    ) -> AsyncGenerator[StreamOutcome[T], None]:
        """Answer the requests, each separately or through the model's own stream."""
        async for item in items:
            first = await self._first(item)
            if isinstance(first, ServingError):
                yield StreamOutcome(item.index, first, item.dropped, item.payload)
                item.give()
                continue
            request, whole = first
            begun = _again(item, items)
            of_all = self._by_model(whole, request, begun) if whole else self._one_by_one(begun)
            async with aclosing(begun), aclosing(of_all) as replies:
                async for each in replies:
                    yield each
            return

    # Clearing an error's frames would end a generator; see `stream_flow.py`.
    async def _first(
        self, item: Item[P]
    ) -> tuple[InferRequest, VersionStream[T] | None] | ServingError:
        try:
            request = await self._read(item)
            return request, await VersionStream.of(self._plane, self._interface, request)
        except ServingError as error:
            self.model = None  # the request may have named a model that does not exist
            return error

    async def _read_any(self, payload: P) -> InferRequest:
        """Parse a request to any model without a stream of its own. Raises: ServingError."""
        with self._plane.counting_refusals(self.model or "", self._interface, Api.PREDICT):
            request = await self._parse(payload)
        if request.model.name != self.model:
            with self._plane.counting_refusals(request.model.name, self._interface, Api.PREDICT):
                await self._check_answers_alone(request)
        return request

    async def _check_answers_alone(self, request: InferRequest) -> None:
        if await VersionStream.of(self._plane, self._interface, request):
            raise InvalidRequest(
                f'model "{request.model.name[:100]}" takes the requests of a stream together: open'
                " a stream for it alone"
            )

    async def _read(self, item: Item[P]) -> InferRequest:
        """Parse a request to the model of the stream. Raises: ServingError."""
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

    def _one_by_one(self, items: AsyncIterator[Item[P]]) -> AsyncGenerator[StreamOutcome[T], None]:
        async def answer(payload: P) -> T:
            began = time.perf_counter()
            request = await self._read_any(payload)
            reply = await self._plane.predict(request, self._interface, began)
            return self._finish(request, reply) if self._finish else reply

        return in_order(items, answer, self._at_once)

    def _by_model(
        self, whole: VersionStream[T], request: InferRequest, items: AsyncIterator[Item[P]]
    ) -> AsyncGenerator[StreamOutcome[T], None]:
        return made(partial(whole.feed, request, self._read, items), self._at_once)


async def _again(item: Item[P], items: AsyncIterator[Item[P]]) -> AsyncGenerator[Item[P], None]:
    """Yield an item that was already read, then the remaining ones."""
    yield item
    async for each in items:
        yield each

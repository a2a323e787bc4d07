"""Calls that are told of, over both transports: access log, traces.

Only where one of these is on do services pass through here. Calls of unknown methods do not. Of a
conversation it is told when it ends.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Protocol, TypeAlias, cast

from ie_serving.core.access import Credentials
from ie_serving.core.codes import ENDED, Code, code_of
from ie_serving.core.errors import ServingError
from ie_serving.server.transport.grpc import replies
from ie_serving.server.transport.grpc.call import Call, UnaryCall
from ie_serving.server.transport.grpc.conversation import StreamingCall
from ie_serving.server.transport.grpc.services import (
    Admission,
    Answer,
    Buffer,
    CallContext,
    Method,
    Services,
    Streaming,
)
from ie_serving.server.transport.http2 import frames
from ie_serving.server.transport.http2.headers import Fields
from ie_serving.telemetry.entry import CURRENT, Entry, now
from ie_serving.telemetry.request_id import HEADER
from ie_serving.telemetry.trace_context import PARENT, STATE
from ie_serving.telemetry.watch import Watch

_LONG: Final = 127
"""Length from which HPACK writes a length in several bytes; RFC 7541 section 5.1."""
# Ids do not repeat: in the client's table of headers one would push out what does.
_ID: Final = b"\x10%c%b" % (len(HEADER), HEADER.encode())
"""A literal that is never indexed, up to the length of its value; RFC 7541 section 6.2.3."""
_OK: Final = Code.OK.name
_ENDS: Final = frames.END_HEADERS | frames.END_STREAM
Metadata: TypeAlias = Sequence[tuple[str | bytes, str | bytes]]
_GIVEN: Final = (HEADER, PARENT, STATE)
"""What of the metadata is read."""
_PLACES: Final = {name: place for place, key in enumerate(_GIVEN) for name in (key, key.encode())}
"""The place of each in `_GIVEN`: transports give metadata as text or as bytes."""


class Context(CallContext, Protocol):
    """What a call tells, and takes, beside what every call does."""

    def peer(self) -> object:
        """Who the client is; see `entry.Entry`."""

    def set_trailing_metadata(self, pairs: tuple[tuple[str, str], ...], /) -> None:
        """Send `pairs` with the status."""


class _Logged:
    """What the calls of one method have in common.

    Args of the constructor:
        path: of the method.
        watch: who tells of its calls.
    """

    def __init__(self, path: str, watch: Watch) -> None:
        self._path = path
        self._name = path.rpartition("/")[2]
        self._watch = watch
        # Of the call before: over HTTP/2, calls with the same headers share what was read of them.
        self._metadata: Metadata = ()
        self._given: Sequence[str] = _given(())

    def begun(self, context: Context) -> Entry | None:
        """Make the entry of a call; None where nobody wants to tell of it."""
        if isinstance(context, _Told):  # most are, and need not be asked by a call each
            metadata, client = context._request.fields, context._sender.peer
        else:
            metadata, client = context.invocation_metadata() or (), context.peer()
        if metadata is not self._metadata:
            self._metadata, self._given = metadata, _given(metadata)
        given = self._given
        watch, path, trace = self._watch, self._path, None
        if watch.trace is not None:
            trace = watch.trace(path, given[1], given[2])
            if trace is None and not watch.every:
                return None
        entry = watch.begin(given[0], trace, client, "gRPC", self._name, path)
        if trace is not None:
            entry.arrived = getattr(context, "arrived", 0.0)
        if watch.logs:
            # Before the answer is known, so that a refusal carries the id as well.
            context.set_trailing_metadata(((HEADER, entry.id),))
        return entry


def _given(metadata: Metadata) -> Sequence[str]:
    """Read what `_GIVEN` names; empty where it is not there."""
    given = ["", "", ""]
    for name, value in metadata:
        if (place := _PLACES.get(name)) is not None:
            text = value.decode("latin-1") if isinstance(value, bytes) else value
            given[place] = f"{given[place]},{text}" if given[place] and place == 2 else text
    return given


class LoggedAnswer(_Logged):
    """Answers as `answer` does. Every call is told of.

    Args of the constructor:
        path, watch: see `_Logged`.
        answer: what answers it.
    """

    def __init__(self, path: str, answer: Answer, watch: Watch) -> None:
        super().__init__(path, watch)
        self._answer = answer
        self._end = watch.end

    async def __call__(
        self, payload: Buffer, context: CallContext, begun: Entry | None = None
    ) -> bytes:
        """See `Answer`; `begun` is the entry of the call where there is one already."""
        entry = begun or self.begun(cast(Context, context)) or Entry()
        entry.received = len(payload)
        CURRENT.set(entry)
        try:
            reply = await self._answer(payload, context)
            entry.code, entry.sent = _OK, len(reply)
        except ENDED as error:
            entry.code = code_of(error).name
            raise
        finally:
            self._end(entry)
        return reply

    def refused(self, context: Context, error: Exception) -> None:
        """Tell of a call that has ended before it could be answered."""
        entry = self.begun(context)
        if entry is not None:
            entry.code = code_of(error).name
            self._watch.end(entry)


class SampledAnswer(LoggedAnswer):
    """The same where some calls are told of. One that is not pays for no coroutine here."""

    def __call__(  # type: ignore[override]  # an `Answer` gives any awaitable
        self, payload: Buffer, context: CallContext
    ) -> Awaitable[bytes]:
        """See `Answer`."""
        begun = self.begun(cast(Context, context))
        if begun is not None:
            return super().__call__(payload, context, begun)
        CURRENT.set(None)  # else it is that of a call before, which may be under way
        return self._answer(payload, context)


class LoggedConversation(_Logged):
    """Converses as `inner` does: a `Converse`. It is told of when it ends.

    Args of the constructor:
        path, watch: see `_Logged`.
        inner: what answers it.
    """

    def __init__(self, path: str, inner: Streaming, watch: Watch) -> None:
        super().__init__(path, watch)
        self._inner = inner

    async def __call__(
        self, requests: AsyncIterator[Buffer], context: CallContext
    ) -> AsyncGenerator[bytes, None]:
        """See `Converse`."""
        entry = self.begun(cast(Context, context))
        if entry is None:
            entry = Entry()  # which nobody is told of
        entry.received = 0
        entry.parts = None  # there is no end to what may be done for it
        CURRENT.set(entry)
        try:
            async with aclosing(
                self._inner.converse(_counted(requests, entry), context)
            ) as replies:
                async for reply in replies:
                    entry.sent += len(reply)
                    yield reply
            entry.code = Code.OK.name
        except ENDED as error:
            entry.code = code_of(error).name
            raise
        finally:
            entry.code = entry.code or Code.CANCELLED.name  # whoever reads it has left
            entry.forget_times()
            self._watch.end(entry)


async def _counted(requests: AsyncIterator[Buffer], entry: Entry) -> AsyncIterator[Buffer]:
    async for request in requests:
        entry.received = (entry.received or 0) + len(request)
        yield request


class LoggedAdmission:
    """Admits as `admission` does, has what answers told of, and tells of whom it does not admit.

    Of those neither the address nor an id of their own is known here.

    Attributes:
        decided: see `Admission`.
    """

    def __init__(self, admission: Admission, watch: Watch) -> None:
        # Nothing: each call is admitted here, so that it is told of what answers it.
        self.decided: Mapping[Any, Any] = {}
        self._admission = admission
        self._watch = watch

    def method(self, path: bytes, credentials: Credentials) -> Method:
        """See `Admission`."""
        try:
            method = self._admission.method(path, credentials)
        except ServingError as error:
            self._refused(path.decode("latin-1"), error)
            raise
        return _logged(path, method, self._watch)

    def _refused(self, path: str, error: ServingError) -> None:
        watch = self._watch
        trace = watch.trace(path, "", "") if watch.trace else None
        if trace is not None or watch.every:
            entry = watch.begin("", trace, None, "gRPC", path.rpartition("/")[2], path)
            entry.code = code_of(error).name
            watch.end(entry)


def logged(services: Services, watch: Watch) -> Services:
    """Have the calls of every method of `services` told of."""
    return {
        service: {
            name: _logged(f"/{service}/{name}".encode(), method, watch)
            for name, method in methods.items()
        }
        for service, methods in services.items()
    }


def _logged(path: bytes, method: Method, watch: Watch) -> Method:
    if isinstance(method, Streaming):
        return Streaming(LoggedConversation(path.decode("latin-1"), method, watch))
    kind = LoggedAnswer if watch.every else SampledAnswer
    return kind(path.decode("latin-1"), method, watch)


class _Told(Call):
    """A call over the own HTTP/2 that is told of, and whose status carries metadata."""

    # Without slots: two kinds of call have some of their own, and a class has one such base.

    def peer(self) -> object:
        """See `Context`."""
        return self._sender.peer

    def invocation_metadata(self) -> Fields:
        """See `CallContext`; with the headers of HTTP/2, which nobody asks for here."""
        return self._request.fields

    def set_trailing_metadata(self, pairs: tuple[tuple[str, str], ...]) -> None:
        """See `Context`."""
        ((name, value),) = pairs
        # An id, which every answer has, without the cost of `replies.block`.
        short = name == HEADER and len(value) < _LONG
        trailing = _ID + b"%c%b" % (len(value), value.encode()) if short else replies.block(*pairs)
        self._trailing = trailing
        size = len(replies.SUCCESS) + len(trailing)
        # As `frames.headers`, whose two calls would cost as much again.
        head = frames.HEAD.pack(size >> 8, size & 0xFF, frames.HEADERS, _ENDS, self.number)
        self._after = b"".join((head, replies.SUCCESS, trailing))


class ToldCall(_Told, UnaryCall):
    """One of one message. Its method is a `LoggedAnswer`."""

    _method: LoggedAnswer

    def _refuse(self, error: Exception) -> None:
        if self._task is None:  # else the method hears of it
            self._method.refused(self, error)
        super()._refuse(error)


class ToldConversation(_Told, StreamingCall):
    """One of many messages."""


class _Arriving(_Told):
    """One that tells when its headers came, where it may be traced."""

    arrived: float

    def begun(self) -> None:
        """See `Stream`."""
        self.arrived = now()
        super().begun()


class TracedCall(_Arriving, ToldCall):
    """One of one message."""


class TracedConversation(_Arriving, ToldConversation):
    """One of many messages."""

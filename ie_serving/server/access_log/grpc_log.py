"""Observes gRPC calls for access log and traces, over both transports.

Services are wrapped by this module only if one of these is on. Calls of unknown methods are not
observed. A streaming call is reported when it ends.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Protocol, TypeAlias, cast

from ie_serving.core.runtime.eager_start import proceed_unawaited
from ie_serving.core.values.access import Credentials
from ie_serving.core.values.codes import ENDED, Code, code_of
from ie_serving.core.values.errors import ServingError
from ie_serving.server.transport.grpc import header_blocks
from ie_serving.server.transport.grpc.call import Call, ReplyStage, UnaryCall
from ie_serving.server.transport.grpc.conversation import StreamingCall
from ie_serving.server.transport.grpc.message_reader import PREFIX, GrpcMessage
from ie_serving.server.transport.grpc.services import (
    Buffer,
    CallAdmission,
    CallContext,
    RpcMethod,
    Services,
    StreamingMethod,
    Unary,
)
from ie_serving.server.transport.http2 import frames
from ie_serving.server.transport.http2.headers import HeaderFields
from ie_serving.telemetry.request.entry import (
    CURRENT,
    ID_HEADER,
    LONGEST_ID,
    NO_MODEL,
    RequestEntry,
    RequestTarget,
    now,
    safe_id,
)
from ie_serving.telemetry.request.observers import RequestWatch
from ie_serving.telemetry.request.trace_context import PARENT, STATE

_OK: Final = Code.OK.name
Metadata: TypeAlias = Sequence[tuple[str | bytes, str | bytes]]
_GIVEN: Final = (ID_HEADER, PARENT, STATE)
"""Names of the metadata that are read."""
_INDEX_OF: Final = {name: index for index, key in enumerate(_GIVEN) for name in (key, key.encode())}
"""Index of each name in `_GIVEN`: transports pass metadata as text or as bytes."""


def _around(length: int) -> tuple[bytes, bytes]:
    """Return the bytes before the stream's number and before the id, in the end of a reply."""
    block = header_blocks.SUCCESS + header_blocks.block((ID_HEADER, "i" * length))
    frame = frames.headers(0, block, ends=True)
    return frame[:5], frame[9 : len(frame) - length]


_AROUND: Final = [_around(length) for length in range(LONGEST_ID + 1)]
"""Parts of the end of a reply around an id, by the id's length."""


class ObservedContext(CallContext, Protocol):
    """The parts of a call that only observed calls need."""

    def peer(self) -> object:
        """The client's address; see `entry.RequestEntry`."""

    def set_trailing_metadata(self, pairs: tuple[tuple[str, str], ...], /) -> None:
        """Send `pairs` with the status."""


class _LoggedMethod:
    """The common part of all calls of one method.

    Args of the constructor:
        path: path of the method.
        watch: the observers of its calls.

    Attributes:
        asked: operation that its calls ask for.
        metadata, given: metadata of the previous call, and the values read from it.
    """

    def __init__(self, path: str, watch: RequestWatch) -> None:
        self.asked = _target_of(path)
        self._watch = watch
        # The previous call's: over HTTP/2 calls with equal headers share these values.
        self.metadata: Metadata = ()
        self.given = _header_values(())

    def read(self, metadata: Metadata) -> tuple[bytes, str, str]:
        """Read the values of `_GIVEN` in the metadata of a call."""
        if metadata is not self.metadata:
            self.metadata, self.given = metadata, _header_values(metadata)
        return self.given

    def begun(self, context: ObservedContext) -> RequestEntry | None:
        """Make the entry of a call; None if it is not observed."""
        id, parent, state = self.read(context.invocation_metadata() or ())
        watch, trace = self._watch, None
        if watch.trace is not None:
            trace = watch.trace(self.asked.path, parent, state)
            if trace is None and not watch.logs:
                return None
        entry = RequestEntry()
        entry.began = now()
        entry.id, entry.client, entry.asked = id, context.peer(), self.asked
        if trace is not None:
            entry.trace, entry.parts = trace, []
            entry.arrived = getattr(context, "arrived", 0.0)
        if not watch.logs:
            return entry
        if isinstance(context, _ObservedHttp2Call):
            context.told = entry
        if id:
            _give_back(id, context)
        return entry

    def failed(self, entry: RequestEntry, error: BaseException, context: ObservedContext) -> None:
        """Record how a call has failed, and give it an id if its client has sent none."""
        entry.code = code_of(error).name
        if self._watch.logs and not entry.id:
            _give_back(entry.named(), context)


def _give_back(id: bytes, context: ObservedContext) -> None:
    context.set_trailing_metadata(((ID_HEADER, id.decode()),))


def _target_of(path: str) -> RequestTarget:
    return RequestTarget("gRPC", path.rpartition("/")[2], path)


def _header_values(metadata: Metadata) -> tuple[bytes, str, str]:
    """Read the values of `_GIVEN`; empty if missing, or if an id is not safe to log."""
    given = ["", "", ""]
    for name, value in metadata:
        if (index := _INDEX_OF.get(name)) is not None:
            text = value.decode("latin-1") if isinstance(value, bytes) else value
            given[index] = f"{given[index]},{text}" if given[index] and index == 2 else text
    id, parent, state = given
    return safe_id(id.encode()), parent, state


class LoggedHandler(_LoggedMethod):
    """Answers as `handler` does, and observes every call.

    Args of the constructor:
        path, watch: see `_LoggedMethod`.
        handler: the handler of the method.

    Attributes:
        handler: the handler of the method.
        end: takes the entry of a call that has ended.
    """

    def __init__(self, path: str, handler: Unary, watch: RequestWatch) -> None:
        super().__init__(path, watch)
        self.handler = handler
        self.end = watch.end

    async def __call__(
        self, payload: Buffer, context: CallContext, begun: RequestEntry | None = None
    ) -> bytes:
        """See `Unary`; `begun` is the entry of the call if it exists already."""
        entry = begun or self.begun(cast(ObservedContext, context)) or RequestEntry()
        entry.received = len(payload)
        CURRENT.set(entry)
        try:
            reply = await self.handler(payload, context)
        except ENDED as error:
            self.failed(entry, error, cast(ObservedContext, context))
            self.end(entry)
            raise
        entry.code, entry.sent = _OK, len(reply)
        self.end(entry)
        return reply


class SampledHandler(LoggedHandler):
    """Observes only a sample of the calls. The others cost no coroutine here."""

    def __call__(  # type: ignore[override]  # a `Unary` gives any awaitable
        self, payload: Buffer, context: CallContext
    ) -> Awaitable[bytes]:
        """See `Unary`."""
        begun = self.begun(cast(ObservedContext, context))
        if begun is not None:
            return super().__call__(payload, context, begun)
        CURRENT.set(None)  # otherwise the entry of an earlier call, which may be in progress
        return self.handler(payload, context)


class LoggedConversation(_LoggedMethod):
    """Wraps `inner`, a `Converse`, and observes each call when it ends.

    Args of the constructor:
        path, watch: see `_LoggedMethod`.
        inner: the method.
    """

    def __init__(self, path: str, inner: StreamingMethod, watch: RequestWatch) -> None:
        super().__init__(path, watch)
        self._inner = inner

    async def __call__(
        self, requests: AsyncIterator[Buffer], context: CallContext
    ) -> AsyncGenerator[bytes, None]:
        """See `Converse`."""
        entry = self.begun(cast(ObservedContext, context))
        if entry is None:
            entry = RequestEntry()  # not reported to any observer
        entry.received = 0
        entry.parts = None  # a stream may add parts without limit
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
            self.failed(entry, error, cast(ObservedContext, context))
            raise
        finally:
            entry.code = entry.code or Code.CANCELLED.name  # the client has left
            entry.forget_times()
            self._watch.end(entry)


async def _counted(requests: AsyncIterator[Buffer], entry: RequestEntry) -> AsyncIterator[Buffer]:
    async for request in requests:
        entry.received = (entry.received or 0) + len(request)
        yield request


class LoggedAdmission:
    """Admits as `admission` does, wraps the admitted methods, and reports refused calls.

    Neither the address nor an own id of a refused call is known here.

    Attributes:
        decided: decisions, as in `CallAdmission`.
    """

    def __init__(self, admission: CallAdmission, watch: RequestWatch) -> None:
        # Empty: each call is admitted here, so that its method is wrapped.
        self.decided: Mapping[Any, Any] = {}
        self._admission = admission
        self._watch = watch

    def method(self, path: bytes, credentials: Credentials) -> RpcMethod:
        """See `CallAdmission`."""
        try:
            method = self._admission.method(path, credentials)
        except ServingError as error:
            self._refused(path.decode("latin-1"), error)
            raise
        return _logged(path, method, self._watch)

    def _refused(self, path: str, error: ServingError) -> None:
        watch = self._watch
        trace = watch.trace(path, "", "") if watch.trace else None
        if trace is not None or watch.logs:
            entry = RequestEntry()
            entry.began = now()
            entry.asked = _target_of(path)
            entry.trace, entry.code = trace, code_of(error).name
            watch.end(entry)


def logged(services: Services, watch: RequestWatch) -> Services:
    """Wrap every method of `services` so that its calls are observed."""
    return {
        service: {
            name: _logged(f"/{service}/{name}".encode(), method, watch)
            for name, method in methods.items()
        }
        for service, methods in services.items()
    }


def _logged(path: bytes, method: RpcMethod, watch: RequestWatch) -> RpcMethod:
    if isinstance(method, StreamingMethod):
        return StreamingMethod(LoggedConversation(path.decode("latin-1"), method, watch))
    kind = LoggedHandler if watch.logs else SampledHandler
    return kind(path.decode("latin-1"), method, watch)


class _ObservedHttp2Call(Call):
    """An observed call over the own HTTP/2.

    Attributes:
        told: its entry, once it exists and there is an access log.
    """

    # No slots: both kinds of call have slots, and a class can have one such base.
    told: RequestEntry | None = None

    def peer(self) -> object:
        """See `ObservedContext`."""
        return self._sender.peer

    def invocation_metadata(self) -> HeaderFields:
        """See `CallContext`; includes the headers of HTTP/2, which are not used here."""
        return self._request.fields

    def set_trailing_metadata(self, pairs: tuple[tuple[str, str], ...], /) -> None:
        """See `ObservedContext`: the id, for a status of OK. A failure sends it in `_trailing`."""
        self._give_back(pairs[0][1].encode())

    def _give_back(self, id: bytes) -> None:
        head, block = _AROUND[len(id)]
        self._after = b"".join((head, self.number.to_bytes(4, "big"), block, id))

    @property
    def _trailing(self) -> bytes:  # type: ignore[override]
        """Metadata of a failure."""
        return header_blocks.block((ID_HEADER, self.told.named().decode())) if self.told else b""


class ObservedCall(_ObservedHttp2Call, UnaryCall):
    """A unary call that is logged.

    Until `_run`, its method is the `LoggedHandler`; from then on the handler that this one wraps.
    The call itself keeps the entry, so that no further coroutine runs for it.
    """

    _logged: LoggedHandler
    _entry: RequestEntry | None = None

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        logged: Any = self._method
        self._logged, self._method = logged, logged.handler
        entry = self._entry = self._begun(logged)
        if entry is not None and self._message:
            entry.received = len(self._message[1])
        try:  # as `Call` does, without the call
            task = self._task = proceed_unawaited(work, work.send(None))
        except (StopIteration, asyncio.CancelledError):
            task = None
        if task is not None:
            task.add_done_callback(self._done)
        elif entry is not None:
            if self._entry is not None and self._size:  # as `_done`, without the calls
                self._entry = None
                entry.code, entry.sent = _OK, self._size - PREFIX.size
                logged.end(entry)
            else:
                self._done(None)
            entry.spare = True  # only the connection's context still refers to it

    def _begun(self, logged: LoggedHandler) -> RequestEntry | None:
        """Make the entry of this call current for the code that answers it.

        Does what `LoggedHandler.begun` does, in fewer steps: most connections have one entry for
        all calls, and each function call here would be a fifth of the remaining time.
        """
        entry = CURRENT.get()
        if entry is not None and entry.spare:
            entry.spare, entry.answered_by, entry.received = False, NO_MODEL, None
            entry.started = entry.inferred = entry.encoded = entry.ended = 0.0
        else:
            entry = RequestEntry()
            CURRENT.set(entry)
        self.told = entry
        entry.began = now()
        fields = self._request.fields
        id = logged.given[0] if fields is logged.metadata else logged.read(fields)[0]
        entry.id, entry.client, entry.asked = id, self._sender.peer, logged.asked
        if id:
            self._give_back(id)
        return entry

    async def _content(self, message: GrpcMessage) -> Buffer:
        content = await super()._content(message)
        if self._entry is not None:
            self._entry.received = len(content)  # inflated
        return content

    def _done(self, _: object) -> None:
        """End the entry of a call without failure: its reply is sent, or the client has left."""
        if self._entry is not None:
            size = self._size
            self._end(_OK if size else Code.CANCELLED.name, max(0, size - PREFIX.size))

    def fail(self, code: Code, text: str, whole: str = "") -> None:
        """See `Call`."""
        super().fail(code, text, whole)  # sets the entry's id to the one that the client is sent
        self._end(code.name)

    def _interrupted(self, error: asyncio.CancelledError) -> None:
        if self._answered is ReplyStage.ALL:  # then the canceller of the work records the cause
            self._end(code_of(error).name)
        super()._interrupted(error)

    def _end(self, code: str, sent: int = 0) -> None:
        """End the entry, unless a deadline has ended it before the work did."""
        entry, self._entry = self._entry, None
        if entry is not None:
            entry.code, entry.sent = code, sent
            self._logged.end(entry)

    def _refuse(self, error: Exception) -> None:
        """See `Call`. A call refused before its method has begun gets its entry here."""
        if isinstance(self._method, LoggedHandler):
            self._logged = self._method
            self._entry = self._begun(self._logged)
        super()._refuse(error)


class ObservedConversation(_ObservedHttp2Call, StreamingCall):
    """A streaming call that is logged."""


class _ArrivalTimedCall(_ObservedHttp2Call):
    """A call that records when its headers arrived, if it may be traced."""

    arrived: float

    def begun(self) -> None:
        """See `Stream`."""
        self.arrived = now()
        super().begun()


class TracedCall(_ArrivalTimedCall, ObservedCall):
    """A unary call that may be traced."""

    def _begun(self, logged: LoggedHandler) -> RequestEntry | None:
        entry = logged.begun(self)
        CURRENT.set(entry)  # None too: otherwise the work would find an earlier entry
        return entry


class TracedConversation(_ArrivalTimedCall, ObservedConversation):
    """A streaming call that may be traced."""

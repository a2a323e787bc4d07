"""Unary calls that stand in the access log, over both transports.

Only where the log is on do services pass through here. Conversations, as a Watch, are not logged,
nor are calls of unknown methods.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

from ie_serving.core.access import Credentials
from ie_serving.core.codes import ENDED, Code, code_of
from ie_serving.core.errors import ServingError
from ie_serving.server.transport.grpc import replies
from ie_serving.server.transport.grpc.call import UnaryCall
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
from ie_serving.telemetry.access_log import CURRENT, AccessLog, Entry
from ie_serving.telemetry.request_id import HEADER

_LONG: Final = 127
"""Length from which HPACK writes a length in several bytes; RFC 7541 section 5.1."""
# Ids do not repeat: in the client's table of headers one would push out what does.
_ID: Final = b"\x10%c%b" % (len(HEADER), HEADER.encode())
"""A literal that is never indexed, up to the length of its value; RFC 7541 section 6.2.3."""
_NAMES: Final = (HEADER, HEADER.encode())
"""Transports give metadata as text or as bytes."""


class Context(CallContext, Protocol):
    """What a logged call tells, and takes, beside what every call does."""

    def peer(self) -> object:
        """Who the client is; see `access_log.Entry`."""

    def set_trailing_metadata(self, pairs: tuple[tuple[str, str], ...], /) -> None:
        """Send `pairs` with the status."""


class LoggedAnswer:
    """Answers as `answer` does.

    Args of the constructor:
        path: of the method.
        answer: what answers it.
        log: gets a line for each call.
    """

    def __init__(self, path: str, answer: Answer, log: AccessLog) -> None:
        self._path = path
        self._answer = answer
        self._log = log

    async def __call__(self, payload: Buffer, context: CallContext) -> bytes:
        """See `Answer`."""
        entry = self._begun(cast(Context, context))
        entry.received = len(payload)
        CURRENT.set(entry)
        try:
            reply = await self._answer(payload, context)
            entry.code, entry.sent = Code.OK.name, len(reply)
        except ENDED as error:
            entry.code = code_of(error).name
            raise
        finally:
            self._log.note(entry)
        return reply

    def refused(self, context: Context, error: Exception) -> None:
        """Log a call that has ended before it could be answered."""
        entry = self._begun(context)
        entry.code = code_of(error).name
        self._log.note(entry)

    def _begun(self, context: Context) -> Entry:
        sent = context.invocation_metadata() or ()
        given = next((value for name, value in sent if name in _NAMES), "")
        entry = _entry(self._log.ids.of(given), context.peer(), self._path)
        # Before the answer is known, so that a refusal carries the id as well.
        context.set_trailing_metadata(((HEADER, entry.id),))
        return entry


class LoggedAdmission:
    """Admits as `admission` does, has what answers logged, and logs whom it does not admit.

    Of those neither the address nor an id of their own is known here.

    Attributes:
        decided: see `Admission`.
    """

    def __init__(self, admission: Admission, log: AccessLog) -> None:
        # Nothing: each call is admitted here, so that what answers it is logged.
        self.decided: Mapping[Any, Any] = {}
        self._admission = admission
        self._log = log

    def method(self, path: bytes, credentials: Credentials) -> Method:
        """See `Admission`."""
        try:
            method = self._admission.method(path, credentials)
        except ServingError as error:
            entry = _entry(self._log.ids.of(None), None, path.decode("latin-1"))
            entry.code = code_of(error).name
            self._log.note(entry)
            raise
        return _logged(path, method, self._log)


def logged(services: Services, log: AccessLog) -> Services:
    """Have every unary method of `services` logged."""
    return {
        service: {
            name: _logged(f"/{service}/{name}".encode(), method, log)
            for name, method in methods.items()
        }
        for service, methods in services.items()
    }


def _logged(path: bytes, method: Method, log: AccessLog) -> Method:
    if isinstance(method, Streaming):
        return method
    return LoggedAnswer(path.decode("latin-1"), method, log)


def _entry(request_id: str, client: object, path: str) -> Entry:
    return Entry(request_id, client, "gRPC", path.rpartition("/")[2], path)


class LoggedCall(UnaryCall):
    """A call over the own HTTP/2, whose status carries metadata. Its method is a `LoggedAnswer`."""

    __slots__ = ("_after", "_trailing")
    _method: LoggedAnswer

    def begun(self) -> None:
        """See `Stream`."""
        super().begun()
        # A slot hides the default that `Call` has, and to read an empty one raises.
        self._after = self._trailing = b""

    def peer(self) -> object:
        """See `Context`."""
        return self._sender.peer

    def invocation_metadata(self) -> Fields:
        """See `CallContext`; with the headers of HTTP/2, which nobody asks for here."""
        return self._request.fields

    def set_trailing_metadata(self, pairs: tuple[tuple[str, str], ...]) -> None:
        """See `Context`."""
        self._trailing = _block(pairs)
        self._after = frames.headers(self.number, replies.SUCCESS + self._trailing, ends=True)

    def _refuse(self, error: Exception) -> None:
        if self._task is None:  # else the method hears of it
            self._method.refused(self, error)
        super()._refuse(error)


def _block(pairs: tuple[tuple[str, str], ...]) -> bytes:
    """Write metadata as `replies.block` does; an id, which every answer has, without its cost."""
    ((name, value),) = pairs
    if name != HEADER or len(value) >= _LONG:
        return replies.block(*pairs)
    return b"%b%c%b" % (_ID, len(value), value.encode("ascii"))

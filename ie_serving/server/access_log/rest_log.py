"""Observes REST requests for access log, traces and `Server-Timing`.

`ObservedApp.answer` makes the entry of a request on arrival; the connection that carries it, an
`ObservedConnection`, ends the entry with the reply. So no coroutine is needed in between. Both
classes are used only if one of the three is on. Data that the protocol refuses because it is no
request is not observed here.
"""

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from ie_serving.server.transport.http1.body import Octets
from ie_serving.server.transport.http1.connection import ConnectionServer, Http1Connection
from ie_serving.server.transport.http1.connection_states import SENDING
from ie_serving.server.transport.http1.faults import DEFECT
from ie_serving.server.transport.http1.heads import KnownHeads
from ie_serving.server.transport.http1.messages import (
    AnyReply,
    App,
    Fault,
    InterimReply,
    ProtocolSwitch,
    Reply,
    Request,
    RequestHead,
)
from ie_serving.server.transport.http1.protocol import Protocol
from ie_serving.telemetry.request.entry import (
    CURRENT,
    ID_HEADER,
    LONGEST,
    RequestEntry,
    RequestTarget,
    current,
    now,
    safe_id,
)
from ie_serving.telemetry.request.observers import RequestWatch
from ie_serving.telemetry.request.trace_context import PARENT, STATE

if TYPE_CHECKING:  # imported when a connection switches to another protocol
    from ie_serving.server.transport.http1.channel import Channel

_HEADER: Final = ID_HEADER.encode()
_CONTEXT: Final = (PARENT.encode(), STATE.encode())
_ID: Final = _HEADER + b": %b\r\n"
_TIMING: Final = b"server-timing: %b\r\n"
CANCELLED: Final = 499
"""nginx's code for a request whose client has left, or that was cancelled by a drain."""
FAILED: Final = 500
WRONG: Final = 400
"""Lowest code of a failed request; its reply has an id even if the client sent none."""


class ObservedApp:
    """Answers as the application does, and makes an entry of each request.

    Args of the constructor:
        app: the application.
        watch: the observers of its requests.
        secure: whether they come over TLS.
    """

    def __init__(self, app: App, watch: RequestWatch, *, secure: bool = False) -> None:
        self._app = app
        self._watch = watch
        self._secure = secure
        # The previous request's: equal requests share one head, and most repeat theirs.
        self._head: RequestHead | None = None
        self._asked, self._given = RequestTarget(), b""

    def answer(self, request: Request) -> Coroutine[Any, Any, AnyReply]:
        """See `messages.App`."""
        head, body, _, ends = request
        if head is not self._head:
            self._read(head)
        entry = RequestEntry()
        entry.began = now()
        entry.id, entry.client, entry.asked = self._given, ends.client, self._asked
        if body is None:
            # The length of a body may be announced even if the body comes in pieces.
            entry.received, entry.arrived = head.length, entry.began
        else:
            entry.received = len(body)
        CURRENT.set(entry)
        return self._app(request)

    def _read(self, head: RequestHead) -> None:
        given = head.fields.get(_HEADER)
        self._head, self._given = head, safe_id(given) if given else b""
        self._asked = RequestTarget("REST", head.method, head.path[:LONGEST].decode("latin-1"))


class PartsApp(ObservedApp):
    """Used if entries have parts, or if only some requests are observed.

    That is with traces or `Server-Timing`.
    """

    def answer(self, request: Request) -> Coroutine[Any, Any, AnyReply]:
        """See `messages.App`."""
        head, watch, trace = request.head, self._watch, None
        if head is not self._head:
            self._read(head)
        if watch.trace is not None:
            parent, state = [head.fields.get(name, b"").decode("latin-1") for name in _CONTEXT]
            trace = watch.trace(self._asked.path, parent, state)
            if trace is None and not watch.every:
                CURRENT.set(None)  # otherwise the entry of an earlier request, maybe in progress
                return self._app(request)
        answer = super().answer(request)  # a coroutine that has not begun yet
        entry = CURRENT.get()
        if entry is not None and (trace is not None or watch.timing):
            entry.trace, entry.parts, entry.secure = trace, [], self._secure
        return answer


class ObservedConnection(Http1Connection):
    """A connection whose requests are reported when they are answered.

    Args of the constructor:
        watch: the observers.
        server: server of the connection, as of an `Http1Connection`.
    """

    def __init__(self, watch: RequestWatch, server: ConnectionServer) -> None:
        super().__init__(server)
        self._protocol = _ObservedProtocol(server.known_heads, watch)
        self._watch = watch

    def _give_up(self, fault: Fault) -> None:
        entry = current()
        # If no request is being answered, the entry is not one of this connection.
        if entry is not None and self._answering:
            told = self._protocol.writer in SENDING and fault is DEFECT
            entry.code = FAILED if told else CANCELLED
            self._watch.end(entry)
        super()._give_up(fault)

    async def _speak(self, switch: ProtocolSwitch, channel: "Channel") -> None:
        """Run the other protocol, and report it when it ends, as nginx does."""
        entry = current()
        try:
            await super()._speak(switch, channel)
        finally:
            if entry is not None:
                entry.received, entry.sent = channel.received, channel.sent
                entry.forget_times()
                self._watch.end(entry)


class _ObservedProtocol(Protocol):
    """Writes replies, and ends the entry of the request that each one answers."""

    def __init__(self, known: KnownHeads, watch: RequestWatch) -> None:
        super().__init__(known)
        self._logs, self._timing, self._end = watch.logs, watch.timing, watch.end

    def send(
        self, said: AnyReply | InterimReply | Fault, *, last: bool = False
    ) -> Sequence[Octets]:
        """See `Protocol`."""
        entry = CURRENT.get()  # as `current`, without the call
        if entry is None or entry.ended:
            return super().send(said, last=last)
        if not isinstance(said, Reply):
            return super().send(self._begun(said, entry), last=last)
        code, _, body, _ = said
        entry.code, entry.sent = code, len(body)
        if entry.id or self._timing or code >= WRONG:
            said = said._replace(lines=self._last_lines(entry))
        written = super().send(said, last=last)
        self._end(entry)
        return written

    def _begun(
        self, said: ProtocolSwitch | InterimReply | Fault, entry: RequestEntry
    ) -> ProtocolSwitch | InterimReply | Fault:
        """If the reply switches to another protocol, note that in the entry."""
        if not isinstance(said, ProtocolSwitch):
            return said
        entry.code = said.status
        entry.parts = None  # a stream may add parts without limit
        return said._replace(lines=self._lines(entry))

    def _last_lines(self, entry: RequestEntry) -> bytes:
        if self._logs and cast(int, entry.code) >= WRONG:
            entry.named()
        entry.ended = now()
        return self._lines(entry)

    def _lines(self, entry: RequestEntry) -> bytes:
        lines = _ID % entry.id if self._logs and entry.id else b""
        return lines + _TIMING % timing(entry) if self._timing and entry.ended else lines


def timing(entry: RequestEntry) -> bytes:
    """Write the value of `Server-Timing`: known times in milliseconds; W3C, Server Timing."""
    found = {"total": entry.ended - entry.began}
    if entry.encoded:
        whole = entry.inferred - entry.started
        queue = min(whole, sum(part.waited_s for part in entry.parts or ()))
        found = {
            "decode": entry.started - entry.began,
            "queue": queue,
            "infer": whole - queue,
            "encode": entry.encoded - entry.inferred,
            **found,
        }
    return ", ".join(f"{name};dur={1e3 * seconds:.3f}" for name, seconds in found.items()).encode()

"""An application whose requests are told of: access log, traces, `Server-Timing`.

It stands in front of the application only where one of these is on. What is no request, and so is
refused by the protocol, does not come here.
"""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ie_serving.core.codes import ENDED
from ie_serving.server.transport.http1.messages import (
    Answer,
    App,
    Request,
    RequestHead,
    Switch,
)
from ie_serving.telemetry.entry import CURRENT, LONGEST, Entry, now
from ie_serving.telemetry.request_id import HEADER, safe
from ie_serving.telemetry.trace_context import PARENT, STATE
from ie_serving.telemetry.watch import Watch

if TYPE_CHECKING:  # imported when a connection leaves HTTP
    from ie_serving.server.transport.http1.channel import Channel

_HEADER: Final = HEADER.encode()
_CONTEXT: Final = (PARENT.encode(), STATE.encode())
_ID: Final = _HEADER + b": %b\r\n"
_TIMING: Final = b"server-timing: %b\r\n"
CANCELLED: Final = 499
"""nginx's code of a request whose client has left, or that was cut at the end of a drain."""
FAILED: Final = 500
WRONG: Final = 400
"""From this code on a request has failed; its reply has an id, also where the client sent none."""


class LoggedApp:
    """Answers as the application does. Every request is told of.

    Args of the constructor:
        app: the application.
        watch: who tells of its requests.
        secure: whether they come over TLS.
    """

    def __init__(self, app: App, watch: Watch, *, secure: bool = False) -> None:
        self._app = app
        self._watch = watch
        self._secure = secure
        self._logs, self._timing, self._end = watch.logs, watch.timing, watch.end
        # Of the request before: equal requests share one head, which most clients send again.
        self._head: RequestHead | None = None
        self._path, self._given = "", b""

    async def __call__(self, request: Request, begun: Entry | None = None) -> Answer:
        """See `messages.App`; `begun` is the entry of the request where there is one already."""
        entry = begun or self.begun(request) or Entry()
        CURRENT.set(entry)
        try:
            reply = await self._app(request)
        except ENDED as error:
            entry.code = CANCELLED if isinstance(error, asyncio.CancelledError) else FAILED
            self._end(entry)
            raise
        if isinstance(reply, Switch):
            return self._switched(reply, entry)
        code, _, body, _ = reply
        entry.code, entry.sent = code, len(body)
        if self._logs and code >= WRONG:
            entry.named()
        self._end(entry)
        return reply._replace(lines=self._lines(entry)) if entry.id or self._timing else reply

    def begun(self, request: Request) -> Entry | None:
        """Make the entry of a request; None where nobody wants to tell of it."""
        head, watch, trace = request.head, self._watch, None
        if head is not self._head:
            self._read(head)
        if watch.trace is not None:
            parent, state = [head.fields.get(name, b"").decode("latin-1") for name in _CONTEXT]
            trace = watch.trace(self._path, parent, state)
            if trace is None and not watch.every:
                return None
        entry = Entry()
        entry.began = now()
        entry.interface, entry.method, entry.path = "REST", head.method, self._path
        entry.id, entry.client, entry.secure = self._given, request.ends.client, self._secure
        if trace is not None or self._timing:
            entry.trace, entry.parts = trace, []
        # A body that comes in pieces may be announced by its length all the same.
        entry.received = head.length if request.body is None else len(request.body)
        if request.body is None:
            entry.arrived = entry.began
        return entry

    def _read(self, head: RequestHead) -> None:
        given = head.fields.get(_HEADER)
        self._head, self._given = head, safe(given) if given else b""
        self._path = head.path[:LONGEST].decode("latin-1")

    def _lines(self, entry: Entry) -> bytes:
        lines = _ID % entry.id if self._logs and entry.id else b""
        return lines + _TIMING % timing(entry) if self._timing and entry.ended else lines

    def _switched(self, switch: Switch, entry: Entry) -> Switch:
        entry.code = switch.status
        entry.parts = None  # there is no end to what may be done for it
        serve = partial(self._serve, switch, entry)
        return switch._replace(serve=serve, lines=self._lines(entry))

    async def _serve(self, switch: Switch, entry: Entry, channel: "Channel") -> None:
        """Speak the other protocol, and tell of it when it ends, as nginx does."""
        try:
            await switch.serve(channel)
        finally:
            entry.received, entry.sent = channel.received, channel.sent
            entry.forget_times()
            self._watch.end(entry)


class SampledApp(LoggedApp):
    """The same where some requests are told of. One that is not pays for no coroutine here."""

    def __call__(  # type: ignore[override]  # an `App` gives any coroutine
        self, request: Request
    ) -> Coroutine[Any, Any, Answer]:
        """See `messages.App`."""
        begun = self.begun(request)
        if begun is not None:
            return super().__call__(request, begun)
        CURRENT.set(None)  # else it is that of a request before, which may be under way
        return self._app(request)


def timing(entry: Entry) -> bytes:
    """Write the value of `Server-Timing`: milliseconds of what is known; W3C, Server Timing."""
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

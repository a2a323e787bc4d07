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
    Headers,
    Reply,
    Request,
    RequestHead,
    Switch,
)
from ie_serving.telemetry.entry import CURRENT, Entry
from ie_serving.telemetry.request_id import HEADER
from ie_serving.telemetry.trace_context import PARENT, STATE
from ie_serving.telemetry.watch import Watch

if TYPE_CHECKING:  # imported when a connection leaves HTTP
    from ie_serving.server.transport.http1.channel import Channel

_HEADER: Final = HEADER.encode()
_GIVEN: Final = (_HEADER, PARENT.encode(), STATE.encode())
_TIMING: Final = b"server-timing"
CANCELLED: Final = 499
"""nginx's code of a request whose client has left, or that was cut at the end of a drain."""
FAILED: Final = 500


class LoggedApp:
    """Answers as the application does.

    Args of the constructor:
        app: the application.
        watch: who tells of its requests.
        secure: whether they come over TLS.
    """

    def __init__(self, app: App, watch: Watch, *, secure: bool = False) -> None:
        self._app = app
        self._watch = watch
        self._secure = secure

    def __call__(self, request: Request) -> Coroutine[Any, Any, Answer]:
        """See `messages.App`. A request that nobody is told of pays for no coroutine here."""
        entry = self._begun(request.head, request)
        if entry is None:
            CURRENT.set(None)  # else it is that of a request before, which may be under way
            return self._app(request)
        return self._told(entry, request)

    async def _told(self, entry: Entry, request: Request) -> Answer:
        CURRENT.set(entry)
        reply: Answer | None = None
        try:
            reply = await self._app(request)
            entry.code, entry.sent = reply.status, len(reply.body)
        except ENDED as error:
            entry.code = CANCELLED if isinstance(error, asyncio.CancelledError) else FAILED
            raise
        finally:
            if not isinstance(reply, Switch):  # that one goes on
                self._watch.end(entry)
        headers = (*reply.headers, *self._more(entry))
        if isinstance(reply, Switch):
            entry.parts = None  # there is no end to what may be done for it
            return reply._replace(headers=headers, serve=partial(self._serve, reply, entry))
        return Reply(reply.status, headers, reply.body)

    def _begun(self, head: RequestHead, request: Request) -> Entry | None:
        fields = head.fields
        given, parent, state = [fields.get(name, b"").decode("latin-1") for name in _GIVEN]
        watch, path = self._watch, head.path.decode("latin-1")
        trace = watch.trace(path, parent, state)
        if trace is None and not watch.every:
            return None
        entry = watch.begin(given, trace, request.ends.client, "REST", head.method, path)
        # A body that comes in pieces may be announced by its length all the same.
        entry.received = head.length if request.body is None else len(request.body)
        entry.secure = self._secure
        if request.body is None:
            entry.arrived = entry.began
        return entry

    def _more(self, entry: Entry) -> Headers:
        """Give the headers that a reply has for it."""
        own: Headers = ((_HEADER, entry.id.encode()),) if self._watch.logs else ()
        return (*own, (_TIMING, timing(entry))) if self._watch.timing and entry.ended else own

    async def _serve(self, switch: Switch, entry: Entry, channel: "Channel") -> None:
        """Speak the other protocol, and tell of it when it ends, as nginx does."""
        try:
            await switch.serve(channel)
        finally:
            entry.received, entry.sent = channel.received, channel.sent
            entry.forget_times()
            self._watch.end(entry)


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

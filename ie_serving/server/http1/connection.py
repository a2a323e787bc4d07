"""One client's connection: bytes become exchanges, which are answered one after the other.

httptools (llhttp) parses, strictly: it refuses both lengths at once, two lengths, folded headers,
bare line feeds and other ways to make two readers see two different requests. Beyond it

- a head, a trailer and chunk extensions have a size limit;
- an offered upgrade, as Java's HTTP client sends it, is ignored: the parser would stop there, so
  the head is given to a new one without it;
- requests that come before the one before them is answered wait, and their client with them;
- after a fault the requests before it are answered still; then the fault, and the end.

A client that sends the end of its stream has gone, as nginx and Go's server have it, too: what
still works for it is cancelled.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol, cast

import httptools

from ie_serving.server.busy_poll import BusyPoll
from ie_serving.server.eager import begin
from ie_serving.server.http1.exchange import GATHERED, MOST_UNREAD, Exchange, Message
from ie_serving.server.http1.faults import (
    DEFECT,
    FAILED,
    LARGEST_HEAD,
    STOPPING,
    TOO_LARGE,
    Refused,
    fault,
)
from ie_serving.server.http1.heads import CLOSE, KEEP_ALIVE, Head, date, plain
from ie_serving.server.http1.outbox import Outbox
from ie_serving.server.http1.targets import target
from ie_serving.telemetry.logs import Event

log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Coroutine[Any, Any, None]]

JOINED: Final = 64 * 1024
"""Up to so many bytes a reply's body is copied behind its head, to be one write."""


class Server(Protocol):
    """What a connection needs of its server.

    Attributes:
        app: answers requests.
        draining: every connection ends with its next reply.
        outbox: takes small replies.
        busy_poll: is told of whatever arrives.
    """

    app: App
    draining: bool
    outbox: Outbox
    busy_poll: BusyPoll

    def joined(self, connection: "Connection") -> None:
        """Count a connection in."""

    def left(self, connection: "Connection") -> None:
        """Count it out."""


class Connection(asyncio.Protocol):
    """Speaks HTTP/1.0 and 1.1 over one transport.

    `_coming` is the exchange whose body is being parsed. It waits in `_waiting` once its body is
    complete, or too large to be gathered; the application works for `_exchange`.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._template: Message = {}
        self._coming: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._exchange: Exchange | None = None
        self._refusal: bytes | None = None
        self._deaf = False  # what comes now belongs to no request
        self._ended = False
        self._write_blocked = False
        self._read_blocked = False
        self._in_head = False
        self._head_began = 0.0
        self._heard = self._loop.time()
        self._unparsed = 0  # bytes since the parser last came to the end of something
        self._unsent = (0, 0.0)  # bytes, and since when it is so many
        self._url = b""
        self._expects = False
        self._length = 0
        self._headers: list[tuple[bytes, bytes]] = []

    # -- from the transport ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)
        self._template = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "scheme": "http",
            "root_path": "",
            "client": _address(transport, "peername"),
            "server": _address(transport, "sockname"),
        }
        self._server.joined(self)

    def data_received(self, data: bytes) -> None:
        """Parse, and begin with what is complete."""
        if self._deaf:
            return
        self._heard = self._loop.time()
        self._server.busy_poll.arrived()
        self._unparsed += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserError as error:
            if not self._deaf:
                self._refuse(*fault(error))
        else:
            if self._unparsed > LARGEST_HEAD:
                self._refuse(400, TOO_LARGE)
        self._proceed()
        if self._waiting:
            self.balance()

    def eof_received(self) -> None:
        """Let the transport close: the client has gone, but for what is answered already."""
        self._server.outbox.flush()

    def connection_lost(self, error: Exception | None) -> None:
        """Cancel what still works for the client."""
        self._deaf = self._ended = True
        for exchange in (self._exchange, self._coming):
            if exchange:
                exchange.leave()
        self._waiting.clear()
        self._coming = None
        del self._parser  # it holds methods of this object
        self._server.left(self)

    def pause_writing(self) -> None:
        """Answer no more before the client has read."""
        self._write_blocked = True

    def resume_writing(self) -> None:
        """Go on answering."""
        self._write_blocked = False
        self._proceed()

    # -- from the parser -------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._in_head = True
        self._head_began = self._heard
        self._url = b""
        self._expects = False
        self._length = 0
        self._headers = []

    def on_url(self, url: bytes) -> None:
        """Take the target, or a piece of it."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; nobody asked for trailers."""
        if self._in_head:
            name, value = name.lower(), value.rstrip(b" \t")
            if name == b"content-length":
                self._length = int(value)
            elif name == b"expect":
                self._expects = value.lower() == b"100-continue"
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Make the exchange."""
        parser = self._parser
        if parser.should_upgrade():
            if parser.get_method() == b"CONNECT":
                raise Refused(501, "CONNECT is not supported: this server is no proxy.")
            return  # it is parsed again
        if self._unparsed > LARGEST_HEAD:
            self._measure_head()
        self._in_head = False
        self._unparsed = 0
        self._coming = exchange = Exchange(
            self, self._scope(), keep_alive=parser.should_keep_alive(), expects=self._expects
        )
        if self._expects or self._length > GATHERED:
            self._offer(exchange)

    def on_body(self, data: bytes) -> None:
        """Pass a piece on."""
        self._unparsed = 0
        exchange = self._coming
        if exchange:
            exchange.feed(data)
            if exchange.unread >= GATHERED:
                self._offer(exchange)
                self.balance()

    def on_message_complete(self) -> None:
        """Pass the end on."""
        exchange = self._coming
        if exchange is None:
            return  # it is parsed again
        self._coming = None
        self._unparsed = 0
        self._deaf = not exchange.keep_alive
        exchange.end()
        if not exchange.replied:
            self._offer(exchange)
        elif self._deaf:
            self._end()

    # -- from the exchange -----------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """See Link."""
        if not self._ended:
            self._server.outbox.send(self._transport, data)

    def reply(self, exchange: Exchange, head: Head, body: bytes) -> None:
        """See Link."""
        if self._ended:
            return
        text = self._finished(exchange, head, len(body))
        outbox = self._server.outbox
        if exchange.scope["method"] == "HEAD":
            outbox.send(self._transport, text)
        elif len(body) <= JOINED:
            outbox.send(self._transport, text + body)
        else:
            outbox.flush()
            self._transport.writelines((text, body))

    def balance(self) -> None:
        """Let the client wait while requests wait, or a body that nobody reads; else read on."""
        coming = self._coming
        block = bool(self._waiting) or (coming is not None and coming.unread > MOST_UNREAD)
        if block == self._read_blocked or self._ended:
            return
        self._read_blocked = block
        if block:
            self._transport.pause_reading()
        else:
            self._heard = self._loop.time()
            self._transport.resume_reading()

    # -- from the server -------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a request is being read or answered."""
        return bool(self._in_head or self._coming or self._exchange or self._waiting)

    def end_if_idle(self) -> None:
        """Close, unless a request is being read or answered: its reply closes."""
        if not self.busy:
            self._end()

    def cancel(self) -> None:
        """Cancel what works now; its client is told."""
        if self._exchange and self._exchange.task:
            self._exchange.task.cancel()

    def abort(self) -> None:
        """Close without another word."""
        self._transport.abort()

    def end_if_late(self, now: float, patience_s: float) -> None:
        """Close when the client has kept the server waiting for more than `patience_s`.

        That is between requests, from the first to the last byte of a head, between two pieces of
        a body, and while it takes nothing of a reply.
        """
        unsent = self._transport.get_write_buffer_size()
        if unsent:
            if unsent != self._unsent[0]:
                self._unsent = (unsent, now)
            elif now - self._unsent[1] > patience_s:
                self.abort()
            return
        self._unsent = (0, now)
        if self._read_blocked or (self._exchange and self._exchange.whole):
            return
        since = self._head_began if self._in_head else self._heard
        if now - since > patience_s:
            self._end()

    # -- inside ----------------------------------------------------------------------------------

    def _parse(self, data: bytes) -> None:
        rest: bytes | memoryview = data
        while True:
            try:
                self._parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as upgrade:
                rest = memoryview(rest)[upgrade.args[0] :]
                head = self._head_without_upgrade()
                self._parser = httptools.HttpRequestParser(self)
                self._parser.feed_data(head)

    def _head_without_upgrade(self) -> bytes:
        parser = self._parser
        version = parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (parser.get_method(), self._url, version)]
        lines += [b"%b: %b" % pair for pair in self._headers if pair[0] != b"upgrade"]
        return b"\r\n".join((*lines, b"\r\n"))

    def _measure_head(self) -> None:
        headers = self._headers
        if len(self._url) + sum(len(name) + len(value) for name, value in headers) > LARGEST_HEAD:
            raise Refused(400, TOO_LARGE)

    def _scope(self) -> Message:
        parser = self._parser
        scope = self._template.copy()
        version = parser.get_http_version()
        if version != "1.1":
            if version != "1.0":
                raise Refused(400, f"HTTP version {version} is not supported: speak HTTP/1.1.")
            if any(name == b"transfer-encoding" for name, _ in self._headers):
                raise Refused(400, "HTTP/1.0 knows no Transfer-Encoding: speak HTTP/1.1.")
            self._expects = False  # RFC 9110 section 10.1.1: such a client knows no 100
            scope["http_version"] = version
        scope["method"] = parser.get_method().decode()
        scope["raw_path"], scope["path"], scope["query_string"] = target(self._url)
        scope["headers"] = self._headers
        return scope

    def _finished(self, exchange: Exchange, head: Head, length: int) -> bytes:
        """Complete a head, and decide whether the connection goes on."""
        framing = b""
        if head.length is None:
            framing = b"content-length: %d\r\n" % length
        elif head.length != length and exchange.scope["method"] != "HEAD":
            raise ValueError(f"{head.length} bytes are announced and {length} given")
        if head.closes or self._server.draining:
            exchange.keep_alive = False
        if not exchange.keep_alive:
            framing += b"" if head.closes else CLOSE
        elif exchange.scope["http_version"] == "1.0":
            framing += KEEP_ALIVE
        return b"%b%b%b\r\n" % (head.text, date(), framing)

    def _offer(self, exchange: Exchange) -> None:
        """Let the application have it, when its turn has come."""
        if not exchange.offered:
            exchange.offered = True
            self._waiting.append(exchange)

    def _proceed(self) -> None:
        """Begin with the next exchange: one at a time, and one for each turn of the loop."""
        if self._exchange or self._write_blocked or self._ended:
            return
        if self._waiting:
            self._begin(self._waiting.popleft())
            if self._read_blocked:
                self.balance()  # its body may be still to come, and its client may leave
        elif self._refusal:
            self.write(self._refusal)
            self._end()

    def _begin(self, exchange: Exchange) -> None:
        self._exchange = exchange
        if exchange.whole:
            exchange.gather()
        try:
            task = begin(self._server.app(exchange.scope, exchange.receive, exchange.send))
        except Exception:
            log.exception(Event(FAILED))
            self._finish(exchange)
            return
        if task is None:
            self._finish(exchange)
            return
        exchange.task = task
        task.add_done_callback(partial(self._task_done, exchange))

    def _task_done(self, exchange: Exchange, task: "asyncio.Task[None]") -> None:
        exchange.task = None
        self._heard = self._loop.time()
        if not task.cancelled() and task.exception():
            log.error(Event(FAILED), exc_info=task.exception())
        self._finish(exchange)

    def _finish(self, exchange: Exchange) -> None:
        """Go on after the application has returned."""
        self._exchange = None
        if self._ended:
            return
        if not exchange.replied and not self._refusal:
            self._refuse(*STOPPING if self._server.draining else DEFECT)
        if exchange.replied and not exchange.keep_alive and exchange.whole:
            self._end()
            return
        if self._waiting or self._refusal:
            self._loop.call_soon(self._proceed)
        if self._read_blocked:
            self.balance()

    def _refuse(self, status: int, text: str) -> None:
        """Take nothing more; answer so once what came before is answered."""
        self._deaf = True
        self._in_head = False
        self._refusal = plain(status, text)
        coming, self._coming = self._coming, None
        if coming is None:
            return
        coming.leave()
        if coming in self._waiting:
            self._waiting.remove(coming)
        if coming.replied:
            self._end()  # it has its reply, and nothing is to follow

    def _end(self) -> None:
        """Close once everything written is sent."""
        self._deaf = self._ended = True
        self._waiting.clear()
        self._server.outbox.flush()
        self._transport.close()


def _address(transport: asyncio.BaseTransport, name: str) -> tuple[str, int] | None:
    address = transport.get_extra_info(name)
    return (str(address[0]), int(address[1])) if isinstance(address, tuple) else None

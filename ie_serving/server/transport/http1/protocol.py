"""HTTP/1.1 without a socket: bytes become events, replies become bytes.

httptools (llhttp) parses strictly: it refuses a length beside chunks, two lengths, folded headers,
bare line feeds and other ways to make two readers see two different requests. In addition

- heads, trailers and chunk extensions have a size limit, and a head has a limit of headers;
- the head of a request has to fulfil the rules of `heads.py`;
- an offered upgrade, as Java's HTTP client sends it, is ignored (RFC 9110 section 7.8): the parser
  would stop there, so a new parser gets the head without the offer;
- a head that was parsed before is not parsed again (`heads.py`), since clients send the same
  few hundred bytes with every request;
- nothing behind waiting requests is parsed: the rest of a read is kept as bytes, which take a tenth
  of the memory of the parsed requests. The budget counts the bytes of incomplete and of waiting
  requests (`holding.py`).

`connection_states.py` lists all permitted moves, and why.
"""

import time
from collections import deque
from collections.abc import Sequence
from typing import Final

import httptools

from ie_serving.core.runtime.budget import Lease
from ie_serving.core.runtime.states import IllegalMove, after
from ie_serving.core.values.errors import ServingError
from ie_serving.server.transport.http1.body import Octets, join
from ie_serving.server.transport.http1.connection_states import (
    ENDING,
    IDLE,
    OPEN,
    READER,
    WRITER,
    Reader,
    ReaderEvent,
    Writer,
    WriterEvent,
)
from ie_serving.server.transport.http1.faults import (
    LARGEST_HEAD,
    RequestRefused,
    mistaken,
    oversized,
    refusal_of,
)
from ie_serving.server.transport.http1.heads import (
    BLANK_LINE,
    LONGEST,
    KnownHeads,
    offered,
    request_head,
    size_of,
    without_upgrade,
)
from ie_serving.server.transport.http1.holding import (
    FREE_FIELDS,
    GATHERED,
    HeldBytes,
    room_for_fields,
    room_for_head,
    waiting_bytes,
)
from ie_serving.server.transport.http1.messages import (
    BROKEN,
    END,
    NO_ENDS,
    AnyReply,
    BodyPart,
    Fault,
    HttpEvent,
    InterimReply,
    ProtocolSwitch,
    Reply,
    Request,
    RequestHead,
)
from ie_serving.server.transport.http1.reply_heads import (
    CLOSE,
    CONTINUE_HEAD,
    KEEP_ALIVE,
    date,
    head,
    plain,
    switching,
)

JOINED: Final = 64 * 1024
"""Largest body in bytes of a reply that is copied behind its head for a single write. Above it the
copy costs more than the second buffer of a `writev`."""
PARSED: Final = 16 * 1024
"""Bytes of a body of unknown length that the parser gets at a time: after each, the number of bytes
outside of the body is checked, which the parser does not limit."""
PARSED_AT_ONCE: Final = 2 * 1024
"""The same between two requests and within a head: after each, the protocol checks whether requests
wait. It is as long as most small requests, and as 80 of the smallest."""
FRAMING: Final = 16
"""Bytes that a chunk may take beside its data without being counted: a size and two line ends.
Anything longer has extensions."""


class Protocol:
    """The two halves of one connection.

    Args of the constructor:
        known: heads that were parsed before, on any connection.

    Attributes:
        ends: passed on with each request.
        reader: state of the client's data.
        writer: state of our replies.
        rest: bytes behind waiting requests; the next `receive` parses them, even without new data.
    """

    def __init__(self, known: KnownHeads) -> None:
        self.ends = NO_ENDS
        self.reader = Reader.IDLE
        self.writer = Writer.OPEN
        self.rest = b""
        self._known = known
        self._parser = self._new_parser()
        self._events: list[HttpEvent] = []
        self._unanswered: deque[RequestHead] = deque()
        self._unparsed = 0  # bytes outside of bodies since the last head or end of a request
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._text = b""  # of a head that may be cached
        self._upgrade = b""  # protocols offered by a head that is parsed again without them
        self._head: RequestHead
        self._left = 0  # bytes of a large body that are to come, if its length is known
        self._parts: list[Octets] = []
        self._gathered = 0
        self._holding = HeldBytes()
        self._room = FREE_FIELDS  # headers that may come before more are counted
        self._fields_lease: Lease | None = None

    def receive(self, data: bytes) -> Sequence[HttpEvent]:
        """Parse data from the client; return its events. After a fault: none."""
        if self.reader is IDLE and not self.rest:
            end = data.find(BLANK_LINE, 0, LONGEST) + len(BLANK_LINE)
            self._text = data[:end]
            known = self._known.get(self._text)
            if known is not None and known.length == len(data) - end:
                self._unanswered.append(known)
                return (Request(known, data[end:], None, self.ends),)
        return () if self.reader is Reader.CLOSED else self._parse(data)

    def passed(self, count: int) -> Sequence[HttpEvent]:
        """Record bytes of a body that were read elsewhere; return the events of its end, if any."""
        self._pass(count)
        events, self._events = self._events, []
        return events

    def send(
        self, said: AnyReply | InterimReply | Fault, *, last: bool = False
    ) -> Sequence[Octets]:
        """Turn a message into bytes, which the caller writes in this order.

        Args:
            said: reply to the oldest unanswered request, 100 Continue, or reply to a fault.
            last: end the connection with this reply.

        Raises:
            ValueError: headers must not be sent, or contradict the length of the body.
            IllegalMove: nothing may be sent, or no request is unanswered.
        """
        if not isinstance(said, Reply):
            return self._rare(said)
        status, headers, body, lines = said
        if not self._unanswered:
            raise IllegalMove(self.writer, WriterEvent.REPLY)
        asked = self._unanswered[0]
        text, closes, length = head(status, headers)
        bodiless = asked.method == "HEAD"
        if length is not None and length != len(body) and not bodiless:
            raise ValueError(f"{length} bytes are announced and {len(body)} given")
        ends = closes or last or not asked.keep_alive
        if ends or self.writer is not OPEN:
            last_comes = self.writer is ENDING and len(self._unanswered) == 1 and not self.rest
            ends = ends or last_comes
            event = WriterEvent.LAST_REPLY if ends else WriterEvent.REPLY
            self.writer = after(WRITER, self.writer, event)
        self._unanswered.popleft()
        framing = b"" if length is not None else b"content-length: %d\r\n" % len(body)
        if ends:
            framing += b"" if closes else CLOSE
        elif asked.version == "1.0":
            framing += KEEP_ALIVE
        written = b"%b%b%b%b\r\n" % (text, lines, date(int(time.time())), framing)
        if bodiless:
            return (written,)
        return (written + body,) if len(body) <= JOINED else (written, body)

    def filled(self) -> None:
        """Start no further request: the client does not read the replies."""
        self.writer = after(WRITER, self.writer, WriterEvent.FILLED)

    def emptied(self) -> None:
        """Continue: the client reads again."""
        self.writer = after(WRITER, self.writer, WriterEvent.EMPTIED)

    def input_closed(self) -> bool:
        """Record that the client sends no more; return whether a complete request is unanswered.

        The last of the replies then ends the connection.
        """
        whole = self.reader in (IDLE, Reader.CLOSED) and self._unanswered
        if not whole or self.writer is not OPEN:
            return False
        self.writer = after(WRITER, self.writer, WriterEvent.INPUT_CLOSED)
        return True

    def settle(self) -> None:
        """Return to the budget the bytes of requests that have waited."""
        self._holding.settle(self._held_bytes())

    def close(self) -> None:
        """End both halves: nothing more is read or sent."""
        self._drop()
        self._unanswered.clear()
        self.reader = after(READER, self.reader, ReaderEvent.CLOSE)
        self.writer = after(WRITER, self.writer, WriterEvent.CLOSE)

    def forget(self) -> None:
        """Close, and drop the parser, which refers to methods of this object."""
        self.close()
        del self._parser

    def _rare(self, said: ProtocolSwitch | InterimReply | Fault) -> Sequence[Octets]:
        if isinstance(said, InterimReply):
            self.writer = after(WRITER, self.writer, WriterEvent.CONTINUE)
            return (CONTINUE_HEAD,)
        if isinstance(said, ProtocolSwitch):
            self.writer = after(WRITER, self.writer, WriterEvent.SWITCH)
            return (switching(said.status, said.headers, said.lines),)
        self.writer = after(WRITER, self.writer, WriterEvent.REFUSAL)
        return (plain(said.status, said.text),)

    # -- the slow path: any data other than one request with a cached head -----------------------

    def _parse(self, data: bytes) -> Sequence[HttpEvent]:
        rest = memoryview(self.rest + data if self.rest else data)
        self.rest = b""
        try:
            while rest and self.reader is not Reader.CLOSED:
                if self._left > 0 and self.reader is Reader.STREAMING:
                    rest = self._pass_by(rest)
                    continue
                size = self._size_of_piece(len(rest))
                self._feed(rest[:size])
                rest = rest[size:]
                if len(self._unanswered) > 1:
                    break
        except httptools.HttpParserError as error:
            if self.reader is not Reader.CLOSED:  # else it follows the last request: ignored
                self._fail(mistaken(data) or refusal_of(error, self.ends.client))
        if self.reader is not IDLE or len(self._unanswered) > 1 or self._holding.size:
            self._count(rest)
        events, self._events = self._events, []  # the caller owns their memory from now on
        return events

    def _count(self, rest: memoryview) -> None:
        if self.reader is Reader.CLOSED:
            return
        self.rest = bytes(rest)
        try:
            self._holding.count(self._held_bytes())
        except ServingError as error:
            self._fail(Fault(429, str(error)))

    def _held_bytes(self) -> int:
        """Estimate the bytes of waiting and incomplete requests."""
        head = self._unparsed if self.reader is Reader.HEAD else 0
        return len(self.rest) + head + self._gathered + waiting_bytes(self._unanswered)

    def _drop(self) -> None:
        """Drop data that will not become a request."""
        self.rest = b""
        self._headers, self._parts = [], []
        self._gathered = 0
        self._fields_lease = None
        self._holding.settle(0)

    def _size_of_piece(self, most: int) -> int:
        if self.reader not in (Reader.GATHERING, Reader.STREAMING):
            return PARSED_AT_ONCE
        return PARSED if self._head.length is None else most

    def _feed(self, rest: memoryview) -> None:
        self._unparsed += len(rest)
        while True:
            try:
                self._parser.feed_data(rest)
                break
            except httptools.HttpParserUpgrade as upgrade:
                rest = rest[upgrade.args[0] :]
                self._upgrade = offered(self._headers)
                again = without_upgrade(self._parser, self._url, self._headers)
                self._parser = self._new_parser()
                self._parser.feed_data(again)
        if self._unparsed > LARGEST_HEAD and self.reader is not Reader.CLOSED:
            self._fail(oversized(self._url if self.reader is Reader.HEAD else b""))

    def _pass_by(self, rest: memoryview) -> memoryview:
        """Take a body of known length past the parser, which would copy it; return the rest."""
        piece = rest[: self._left]
        self._events.append(BodyPart(piece))
        self._pass(len(piece))
        return rest[len(piece) :]

    def _pass(self, count: int) -> None:
        self._left -= count
        if not self._left:
            self._parser = self._new_parser()  # the former one still waits for the body
            self.on_message_complete()

    def _new_parser(self) -> "httptools.HttpRequestParser":
        parser = httptools.HttpRequestParser(self)
        parser.set_dangerous_leniencies(lenient_version=True)  # `spoken` checks the version
        return parser

    def _fail(self, fault: Fault) -> None:
        answered = self.reader is Reader.STREAMING and not self._unanswered
        if self.reader is Reader.STREAMING and not answered:
            self._unanswered.pop()  # the refusal is its reply
        self.reader = after(READER, self.reader, ReaderEvent.FAULT)
        self._drop()
        self._events.append(BROKEN if answered else fault)

    # -- called by the parser --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Start a head."""
        if self.reader is not Reader.IDLE:
            self._text = b""  # the head began in an earlier read, or behind another request
        self.reader = after(READER, self.reader, ReaderEvent.HEAD_BEGINS)
        self._url = b""
        self._headers = []
        self._room = FREE_FIELDS
        self._fields_lease = None

    def on_url(self, url: bytes) -> None:
        """Add the target, or a piece of it."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; ignore trailers."""
        if self.reader is not Reader.HEAD:
            return
        if len(self._headers) == self._room:
            self._make_room()
        self._headers.append((name.lower(), value.rstrip(b" \t")))

    def _make_room(self) -> None:
        self._text = b""  # too large to be cached
        self._fields_lease = room_for_fields(self._fields_lease, self._room)
        self._room += FREE_FIELDS

    def on_headers_complete(self) -> None:
        """Make the head, and decide how its body is received."""
        parser = self._parser
        if parser.should_upgrade():
            if parser.get_method() == b"CONNECT":
                raise RequestRefused(501, "CONNECT is not supported: this server is no proxy.")
            return  # the head is parsed again, without the upgrade
        if self._unparsed > LARGEST_HEAD:
            self._measure_head()
        self._fields_lease = room_for_head(self._fields_lease, self._unparsed)
        self._unparsed = 0
        given = (self._url, self._headers, self._fields_lease, self._upgrade)
        self._head = asked = request_head(parser, *given)
        self._upgrade = b""
        self._known.learn(self._text, asked)
        self._text = b""
        self._headers = []
        self._fields_lease = None
        self._left = asked.length or 0
        if asked.expects or self._left > GATHERED:
            self._pass_on(ReaderEvent.LARGE)
        else:
            self.reader = after(READER, self.reader, ReaderEvent.SMALL)

    def on_chunk_header(self) -> None:
        """Exclude the framing of a chunk from the count, but not its extensions."""
        self._unparsed -= FRAMING

    def on_body(self, data: bytes) -> None:
        """Buffer a piece, or pass it on."""
        self._unparsed -= len(data)
        if self.reader is Reader.STREAMING:
            self._left -= len(data)
            self._events.append(BodyPart(data))
            return
        join(self._parts, data)
        self._gathered += len(data)
        if self._gathered > GATHERED:
            self._pass_on(ReaderEvent.GROWN)
            self._events.append(BodyPart(self._body()))

    def _body(self) -> bytes:
        body = b"".join(self._parts)
        self._parts = []
        self._gathered = 0
        return body

    def on_message_complete(self) -> None:
        """Emit the request, or the end of its body."""
        if self.reader is Reader.HEAD:
            return  # the head is parsed again, without the upgrade
        self._unparsed = 0
        if self.reader is Reader.STREAMING:
            self._events.append(END)
        else:
            self._unanswered.append(self._head)
            self._events.append(Request(self._head, self._body(), None, self.ends))
        ended = ReaderEvent.END if self._head.keep_alive else ReaderEvent.LAST_END
        del self._head  # the request owns the head, and the memory of its headers, from now on
        self.reader = after(READER, self.reader, ended)

    def _pass_on(self, event: ReaderEvent) -> None:
        self.reader = after(READER, self.reader, event)
        self._unanswered.append(self._head)
        self._events.append(Request(self._head, None, None, self.ends))

    def _measure_head(self) -> None:
        if len(self._url) + size_of(self._headers) > LARGEST_HEAD:
            raise RequestRefused(*oversized(self._url))

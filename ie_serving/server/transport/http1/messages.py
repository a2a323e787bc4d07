"""Requests and replies as values, which protocol, driver and application exchange."""

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from ie_serving.core.runtime.budget import Lease
from ie_serving.server.transport.http1.body import BodyStream, Octets

if TYPE_CHECKING:  # imported when a connection switches to another protocol
    from ie_serving.server.transport.http1.channel import Channel


Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Lower-case names and values, in the order in which they were sent."""
Address: TypeAlias = tuple[str, int] | None
"""Host and port; None for sockets without them."""


class Endpoints(NamedTuple):
    """The two ends of a connection.

    Attributes:
        client, server: their addresses.
        names: names in the client's certificate, verified by TLS; none without a certificate.
    """

    client: Address = None
    server: Address = None
    names: tuple[str, ...] = ()


NO_ENDS: Final = Endpoints()


class RequestHead(NamedTuple):
    """The head of a request. Equal requests share one object, so it is never changed.

    Attributes:
        method: method in capitals.
        path: path as sent, escapes included, without scheme and host.
        query: the part behind the question mark, or empty.
        version: `1.1` or `1.0`.
        headers: all of them.
        fields: values by name; those of a name that was sent several times are joined by commas,
            which means the same (RFC 9110 section 5.3).
        length: bytes of the body; None if only its end will tell.
        keep_alive: another request may follow on the connection.
        expects: `Expect: 100-continue`: the client waits for 100 Continue before it sends the body.
        lease: lease of the memory of the headers, if they are many.
        upgrade: protocols that the client offers to switch to (RFC 9110 section 7.8).
    """

    method: str
    path: bytes
    query: bytes
    version: str
    headers: Headers
    fields: Mapping[bytes, bytes]
    length: int | None
    keep_alive: bool
    expects: bool
    lease: Lease | None = None
    upgrade: bytes = b""


class Request(NamedTuple):
    """A request, as the protocol parses it and as the application receives it.

    Attributes:
        head: its head.
        body: the whole body; None if it arrives in pieces.
        stream: yields the pieces.
        ends: ends of the connection.
    """

    head: RequestHead
    body: bytes | None
    stream: BodyStream | None = None
    ends: Endpoints = NO_ENDS


class BodyPart(NamedTuple):
    """A part of the body of the newest request, which arrives in pieces."""

    data: bytes | memoryview


class BodyEnd(NamedTuple):
    """The body of the newest request is complete."""


class Fault(NamedTuple):
    """The client's data is no request, or none that this server accepts. The last event.

    Attributes:
        status: status of the reply to it.
        text: body of that reply.
    """

    status: int
    text: str


class BodyFault(NamedTuple):
    """A fault in the body of a request that is answered already: no reply can follow."""


HttpEvent: TypeAlias = Request | BodyPart | BodyEnd | Fault | BodyFault
"""An event that the protocol parses from a client's data."""


class Reply(NamedTuple):
    """The complete reply to one request.

    Attributes:
        status: HTTP status of a final reply: 200 and above.
        headers: headers without those for framing and connection, except that `connection: close`
            is respected and a correct `content-length` is accepted.
        body: sent as it is; not changed until the reply is sent.
        lines: header lines, with their ends, that only this reply has: sent as they are.
    """

    status: int
    headers: Headers
    body: Octets
    lines: bytes = b""


class ProtocolSwitch(NamedTuple):
    """The reply that accepts an offered upgrade; another protocol follows it.

    Attributes:
        status: 101.
        headers: headers of the reply, as of a `Reply`, which has no others.
        body: empty.
        serve: runs the protocol, until the connection ends. Cancelled when the client leaves.
        lines: lines of the head, as of a `Reply`.
    """

    status: int
    headers: Headers
    body: bytes
    serve: "Callable[[Channel], Coroutine[Any, Any, None]]"
    lines: bytes = b""


AnyReply: TypeAlias = Reply | ProtocolSwitch

App: TypeAlias = Callable[[Request], Coroutine[Any, Any, AnyReply]]
"""Answers a request. Called as soon as the request has arrived; cancelled if its client leaves."""


class InterimReply(NamedTuple):
    """The interim reply (100 Continue) to a client that waits for it before it sends the body."""


CONTINUE: Final = InterimReply()
END: Final = BodyEnd()
BROKEN: Final = BodyFault()

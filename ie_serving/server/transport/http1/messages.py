"""What passes between protocol, driver and application: requests and replies as values."""

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from ie_serving.core.runtime.budget import Lease
from ie_serving.server.transport.http1.body import Stream

if TYPE_CHECKING:  # imported when a connection leaves HTTP
    from ie_serving.server.transport.http1.channel import Channel

Buffer: TypeAlias = bytes | bytearray | memoryview
Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Lower-case names and values, in the order in which they were sent."""
Address: TypeAlias = tuple[str, int] | None
"""Host and port; None where the socket has no such thing."""


class Ends(NamedTuple):
    """The two ends of a connection.

    Attributes:
        client, server: their addresses.
        names: in the client's certificate, which TLS has verified; none without one.
    """

    client: Address = None
    server: Address = None
    names: tuple[str, ...] = ()


NO_ENDS: Final = Ends()


class RequestHead(NamedTuple):
    """The head of a request. Equal requests share one, so nobody changes it.

    Attributes:
        method: in capitals.
        path: as it was sent, escapes included, without scheme and host.
        query: what stands behind the question mark, or nothing.
        version: `1.1` or `1.0`.
        headers: all of them.
        fields: values by name; those of a name that was sent several times are joined by commas,
            which means the same (RFC 9110 section 5.3).
        length: bytes of the body; None where only its end will tell.
        keep_alive: another request may follow on the connection.
        expects: the client sends the body when it is told to (`Expect: 100-continue`).
        lease: of the memory of the headers, where they are many.
        upgrade: protocols that the client offers to go over to (RFC 9110 section 7.8).
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
    """A request, as the protocol gives it and as the application takes it.

    Attributes:
        head: its head.
        body: the whole body; None for one that comes in pieces.
        stream: gives the pieces.
        ends: of the connection.
    """

    head: RequestHead
    body: bytes | None
    stream: Stream | None = None
    ends: Ends = NO_ENDS


class Piece(NamedTuple):
    """A part of the body of the newest request, which comes in pieces."""

    data: bytes


class End(NamedTuple):
    """The body of the newest request has come to its end."""


class Fault(NamedTuple):
    """What the client sends is no request, or none that this server takes. The last event.

    Attributes:
        status: of the reply that is owed for it.
        text: its body.
    """

    status: int
    text: str


class Broken(NamedTuple):
    """A fault in a body whose request is answered already: there is nothing left to say."""


Event: TypeAlias = Request | Piece | End | Fault | Broken
"""What a client has sent."""


class Reply(NamedTuple):
    """The whole reply to one request.

    Attributes:
        status: HTTP's, of a final reply: 200 and above.
        headers: without those that frame the reply or end the connection, save that `connection:
            close` is heeded and a `content-length` that is true is taken.
        body: sent as it is; not changed while the reply is on its way.
        lines: header lines, with their ends, that no other reply has: they are sent as they are.
    """

    status: int
    headers: Headers
    body: Buffer
    lines: bytes = b""


class Switch(NamedTuple):
    """The reply to an offered upgrade, behind which another protocol is spoken.

    Attributes:
        status: 101.
        headers: as of a `Reply`, which has no others.
        body: nothing.
        serve: speaks it, until the connection is to end. Cancelled when the client leaves.
        lines: as of a `Reply`.
    """

    status: int
    headers: Headers
    body: bytes
    serve: "Callable[[Channel], Coroutine[Any, Any, None]]"
    lines: bytes = b""


Answer: TypeAlias = Reply | Switch

App: TypeAlias = Callable[[Request], Coroutine[Any, Any, Answer]]
"""Answers a request. Called as soon as it has come, and cancelled when its client leaves."""


class Continue(NamedTuple):
    """The interim reply to a client that expects to be told to go on."""


CONTINUE: Final = Continue()
END: Final = End()
BROKEN: Final = Broken()

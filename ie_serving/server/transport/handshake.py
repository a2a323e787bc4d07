"""TLS handshakes: the alert that a failed one owes its client, and its place in counts and log.

`OpeningConnection` is the protocol of a connection during its handshake; afterwards the protocol of
the port takes the connection over.

When a handshake fails, the library writes an alert into the outgoing bytes, and the event loop
would close the connection without sending them. So `AlertingTlsObject` presents a failed handshake
to the event loop as one that waits for more data. The loop sends the alert, and `OpeningConnection`
then ends the connection.

Any client can cause failures, so a log line for each would let it fill the disk; but a client
without a certificate is most often a customer's, whose operator needs the log. So failures are
counted by reason, and logged at a bounded rate.
"""

import asyncio
import logging
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from ie_serving.core.runtime import eager_start
from ie_serving.core.runtime.threads import let_go
from ie_serving.server.transport.connection_limit import client_of
from ie_serving.server.transport.peer import client_address
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.metrics.text import family, sample

log = logging.getLogger(__name__)

FAILURES: Final = "ie_serving_tls_handshake_failures_total"
QUIET_S: Final = 60.0
"""Seconds between two log lines about one reason."""

NO_CERTIFICATE: Final = "no_certificate"
CERTIFICATE: Final = "certificate"
NOT_TLS: Final = "not_tls"
NO_OVERLAP: Final = "no_overlap"
REFUSED: Final = "refused_by_client"
TIMEOUT: Final = "timeout"
LEFT: Final = "left"
OTHER: Final = "other"

REASON_OF: Final[Mapping[str, str]] = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": NO_CERTIFICATE,
    "CERTIFICATE_VERIFY_FAILED": CERTIFICATE,
    "HTTP_REQUEST": NOT_TLS,
    "HTTPS_PROXY_REQUEST": NOT_TLS,
    "WRONG_VERSION_NUMBER": NOT_TLS,
    "BAD_RECORD_TYPE": NOT_TLS,
    "PACKET_LENGTH_TOO_LONG": NOT_TLS,
    "RECORD_LAYER_FAILURE": NOT_TLS,
    "UNSUPPORTED_PROTOCOL": NO_OVERLAP,
    "VERSION_TOO_LOW": NO_OVERLAP,
    "NO_SHARED_CIPHER": NO_OVERLAP,
    "NO_SUITABLE_KEY_SHARE": NO_OVERLAP,
    "NO_SUITABLE_GROUPS": NO_OVERLAP,
    "NO_SUITABLE_SIGNATURE_ALGORITHM": NO_OVERLAP,
    "NO_SHARED_SIGNATURE_ALGORITHMS": NO_OVERLAP,
}
"""Reasons by OpenSSL's names of its errors (`openssl/sslerr.h`). A name with ALERT is of an alert
that the client has sent."""
HANDSHAKE_S: Final = 10.0
"""Seconds that a client may take for the TLS handshake; then its connection is cut. It takes two
round trips, so this leaves seconds for each on a slow network."""
LINGER_S: Final = 1.0
"""Seconds that a refused client may take to read the TLS alert. If we closed while the client is
sending, the kernel would reset the connection, and the client might never read the alert."""
_NOT_TLS = b"this port is encrypted, and the request was not: use https://\n"
PLAIN_REFUSAL: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_NOT_TLS), _NOT_TLS)
)
"""Reply to a client of plain HTTP, which does not know TLS alerts; as in nginx and Go."""


class FailedHandshakes:
    """The failed handshakes of all ports. Belongs to one event loop.

    Args of the constructor:
        now: monotonic clock in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[str] = Counter()
        self._now = now
        self._logged: dict[str, tuple[float, int]] = {}

    def refused(self, error: ssl.SSLError, address: str | None) -> None:
        """Count a handshake that the TLS library has ended."""
        reason = reason_of(error)
        said = getattr(error, "verify_message", "") or (error.reason or str(error))
        self._note(reason, address, said.replace("_", " ").lower())

    def too_slow(self, address: str | None) -> None:
        """Count a handshake that its client has not completed in time."""
        self._note(TIMEOUT, address, "not done in time")

    def left(self) -> None:
        """Count a client that has closed its connection. Not logged: probes do this."""
        self.counts[LEFT] += 1

    def lines(self) -> Iterator[str]:
        """Yield the samples for the metrics page."""
        meaning = "TLS handshakes that have failed."
        found = (sample(FAILURES, number, reason=why) for why, number in self.counts.items())
        yield from family(FAILURES, "counter", meaning, found)

    def _note(self, reason: str, address: str | None, cause: str) -> None:
        self.counts[reason] += 1
        now, number = self._now(), self.counts[reason]
        logged_at, logged = self._logged.get(reason, (now - QUIET_S, 0))
        if now - logged_at < QUIET_S:
            return
        self._logged[reason] = now, number
        failures = number - logged
        log.info(
            Event(
                "TLS handshake failed",
                reason=reason,
                address=client_of(address) if address else "unix",
                cause=cause,
                failures=failures,
            )
        )


def reason_of(error: ssl.SSLError) -> str:
    """Return the label of a failure: one of few, whatever the client sends."""
    name = error.reason or ""
    return REFUSED if "ALERT" in name else REASON_OF.get(name, OTHER)


Failed = Callable[[ssl.SSLError], bytes]
"""Called when a handshake fails; returns the bytes to send to the client instead of the alert, or
none."""


class AlertingTlsObject(ssl.SSLObject):
    """TLS object of one connection. See `ssl.SSLContext.sslobject_class`.

    Attributes:
        lingers: whether closing waits until the client has closed, too.
    """

    _incoming: ssl.MemoryBIO
    _outgoing: ssl.MemoryBIO
    _failed: Failed | None
    _has_failed = False
    lingers = False

    def begin(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, failed: Failed) -> None:
        """Set the sources and sinks of bytes, and the function to call at a failure."""
        self._incoming, self._outgoing, self._failed = incoming, outgoing, failed

    def do_handshake(self) -> None:
        """Continue with the received bytes.

        Raises:
            ssl.SSLWantReadError: the client has to send more data, or to close after a failure.
        """
        if self._has_failed:
            self._incoming.read()  # dropped: closing now would keep the alert from the client
            raise ssl.SSLWantReadError
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLSyscallError):
            raise
        except ssl.SSLError as error:
            self._fail(error)
            raise ssl.SSLWantReadError from None
        self._failed = None

    def unwrap(self) -> None:
        """Close the sending side; wait for the client to close only if `lingers` is set.

        RFC 8446 section 6.1 permits a server to close without waiting. An idle client reads
        nothing, so the event loop would wait for 30 s.
        """
        try:
            super().unwrap()
        except ssl.SSLWantReadError:
            if self.lingers:
                raise

    def _fail(self, error: ssl.SSLError) -> None:
        failed, self._failed, self._has_failed = self._failed, None, True
        assert failed  # a handshake that is over is never continued
        instead = failed(error)
        if instead:
            self._outgoing.read()
            self._outgoing.write(instead)


class ServerContext(ssl.SSLContext):
    """TLS context of a server. Belongs to one event loop."""

    sslobject_class = AlertingTlsObject

    def __init__(self, _: int) -> None:
        self._expected: deque[Failed] = deque()

    @contextmanager
    def expected(self, failed: Failed) -> Iterator[None]:
        """Call `failed` if the handshake that the body starts fails.

        The event loop makes the object of a handshake one turn after its start, in the order of
        the starts (`loop.call_soon`), and cannot tell the object which connection it is for.
        """
        self._expected.append(failed)
        try:
            yield
        finally:
            if failed in self._expected:  # abandoned before its turn
                self._expected.remove(failed)

    def wrap_bio(  # type: ignore[override]
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        **of_it: Any,  # noqa: ANN401
    ) -> AlertingTlsObject:
        """See `ssl.SSLContext`."""
        made = super().wrap_bio(incoming, outgoing, **of_it)
        assert isinstance(made, AlertingTlsObject)
        made.begin(incoming, outgoing, self._expected.popleft())
        return made


class TlsSettings(NamedTuple):
    """The TLS of a port.

    Attributes:
        context: returns the TLS context of the next connection.
        failed: called for handshakes that fail.
    """

    context: Callable[[], ServerContext]
    failed: FailedHandshakes


class OpeningConnection(asyncio.Protocol):
    """A connection until another protocol takes it over. See `connection_limit.LimitedConnection`.

    Args of the constructor:
        opened: called when the connection exists.
        closed: called when it is lost or has been handed over.
    """

    def __init__(self, opened: Callable[[Any], None], closed: Callable[[Any], None]) -> None:
        self._opened = opened
        self._closed = closed
        self._began = time.monotonic()
        self._transport: asyncio.Transport | None = None

    def idle_since(self) -> float | None:
        """See `connection_limit.LimitedConnection`."""
        return self._began

    def address(self) -> str | None:
        """See `connection_limit.LimitedConnection`."""
        return client_address(self._transport)

    def end_idle(self) -> None:
        """See `connection_limit.LimitedConnection`."""
        self.abort()

    def abort(self) -> None:
        """See `connection_limit.LimitedConnection`."""
        if self._transport:
            self._transport.abort()


def hand_over(transport: asyncio.Transport, protocol: asyncio.Protocol, early: bytes) -> None:
    """Give a connection to a protocol, with the bytes that have come before."""
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    if early and not transport.is_closing():
        protocol.data_received(early)


class Handshake(OpeningConnection):
    """One connection during its handshake.

    Args of the constructor:
        secure: the TLS of the port.
        connect: makes the protocol of the port.
        opened, closed: see `OpeningConnection`.
        limit_s: limit in seconds, `HANDSHAKE_S` by default.
    """

    def __init__(
        self,
        secure: TlsSettings,
        connect: Callable[[], asyncio.Protocol],
        opened: "Callable[[Handshake], None]",
        closed: "Callable[[Handshake], None]",
        limit_s: float = HANDSHAKE_S,
    ) -> None:
        super().__init__(opened, closed)
        self._context = secure.context()
        self._failed = secure.failed
        self._connect = connect
        self._limit_s = limit_s
        self._task: asyncio.Task[None] | None = None
        self._ending: asyncio.TimerHandle | None = None
        # Data that the client has sent right behind its last message of the handshake.
        self._early = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the handshake."""
        self._transport = transport
        self._opened(self)
        if transport.is_closing():  # beyond the limit of connections
            self._closed(self)
            return
        # Begun eagerly: else the client's first message could arrive before TLS can take it.
        self._task = eager_start.begin(self._agree(transport))

    def data_received(self, data: bytes) -> None:
        """Keep data that arrives before the protocol of the port has taken over."""
        self._early += data

    def abort(self) -> None:
        """See `connection_limit.LimitedConnection`."""
        super().abort()
        if self._task:
            self._task.cancel()

    async def _agree(self, plain: asyncio.Transport) -> None:
        try:
            secured = await self._secured(plain)
        finally:
            if self._ending:
                self._ending.cancel()
            self._closed(self)
        if secured is None:
            plain.abort()
            return
        hand_over(secured, self._connect(), self._early)

    async def _secured(self, plain: asyncio.Transport) -> asyncio.Transport | None:
        """Do the TLS handshake; None if it fails for any reason."""
        loop, limit_s = asyncio.get_running_loop(), self._limit_s
        try:
            with self._context.expected(self._refuse):
                secured = await loop.start_tls(
                    plain, self, self._context, server_side=True, ssl_handshake_timeout=limit_s
                )
            # If the client has left before the handshake began, the loop also returns here, as if
            # it had succeeded, and will not report the end of that connection to any protocol.
            if secured is None or secured.is_closing():
                raise ConnectionResetError
            return secured
        except asyncio.CancelledError as error:  # closed for another one, or after an alert
            let_go(error)
        except OSError as error:
            if not self._ending:
                self._note_end()
            let_go(error)
        return None

    def _refuse(self, error: ssl.SSLError) -> bytes:
        """Record why the handshake fails, and leave the client time to read the alert."""
        self._failed.refused(error, self.address())
        self._ending = asyncio.get_running_loop().call_later(LINGER_S, self.abort)
        asyncio.get_running_loop().call_soon(self._send_end)
        return PLAIN_REFUSAL if error.reason == "HTTP_REQUEST" else b""

    def _send_end(self) -> None:
        """Close the sending side; called when the transport has been given the alert."""
        if self._transport and not self._transport.is_closing():
            self._transport.write_eof()

    def _note_end(self) -> None:
        if time.monotonic() - self._began < self._limit_s:
            self._failed.left()
        else:
            self._failed.too_slow(self.address())

"""TLS of one connection; a client whose handshake fails receives the TLS alert that says why.

When a handshake fails, the library writes an alert into the outgoing bytes, and the event loop
closes the connection without sending them. So this class presents a failed handshake to the event
loop as one that waits for more data, and the loop sends the alert. `handshake.py` then ends it.
"""

import ssl
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Failed = Callable[[ssl.SSLError], bytes]
"""Called when a handshake fails; returns the bytes to send to the client instead of the alert, or
none."""


class Agreeing(ssl.SSLObject):
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
            SSLWantReadError: the client has to send more data, or to close after a failure.
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

    sslobject_class = Agreeing

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

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **of_it: Any) -> Agreeing:  # type: ignore[override]  # noqa: ANN401
        """See `ssl.SSLContext`."""
        made = super().wrap_bio(incoming, outgoing, **of_it)
        assert isinstance(made, Agreeing)
        made.begin(incoming, outgoing, self._expected.popleft())
        return made

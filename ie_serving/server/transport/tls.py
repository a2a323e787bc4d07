"""TLS of one connection, whose client is told why where its handshake fails.

The library writes an alert into the outgoing bytes when it fails, and the event loop then closes
the connection without sending them. So a failed handshake looks to the event loop like one that
waits for more of its client, which has the alert sent. `handshake.py` is told, and ends it.
"""

import ssl
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Failed = Callable[[ssl.SSLError], bytes]
"""Told of the failure of a handshake; gives what the client is sent instead of the alert, or
nothing."""


class Agreeing(ssl.SSLObject):
    """One connection. See `ssl.SSLContext.sslobject_class`.

    Attributes:
        lingers: whether the end waits until the client has closed, too.
    """

    _incoming: ssl.MemoryBIO
    _outgoing: ssl.MemoryBIO
    _failed: Failed | None
    _has_failed = False
    lingers = False

    def begin(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, failed: Failed) -> None:
        """Know where bytes come from and go to, and who is told of a failure."""
        self._incoming, self._outgoing, self._failed = incoming, outgoing, failed

    def do_handshake(self) -> None:
        """Go on with what has come.

        Raises:
            SSLWantReadError: the client has to send more; or it has failed, and has to leave.
        """
        if self._has_failed:
            self._incoming.read()  # not kept; to close on it would take the alert from the client
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
        """Say that nothing more follows, and wait for the client's word only where this lingers.

        RFC 8446 section 6.1 lets a server close without it. A client that is idle reads nothing, so
        the event loop would wait for 30 s.
        """
        try:
            super().unwrap()
        except ssl.SSLWantReadError:
            if self.lingers:
                raise

    def _fail(self, error: ssl.SSLError) -> None:
        failed, self._failed, self._has_failed = self._failed, None, True
        assert failed  # nobody goes on with a handshake that is over
        instead = failed(error)
        if instead:
            self._outgoing.read()
            self._outgoing.write(instead)


class ServerContext(ssl.SSLContext):
    """What a server agrees upon TLS with. Belongs to one event loop."""

    sslobject_class = Agreeing

    def __init__(self, _: int) -> None:
        self._expected: deque[Failed] = deque()

    @contextmanager
    def expected(self, failed: Failed) -> Iterator[None]:
        """Have `failed` told of the failure of the handshake that is begun meanwhile.

        The event loop makes the object of a handshake a turn after it was asked to, in the order
        in which it was asked (`loop.call_soon`), and has no way to tell it whose it is.
        """
        self._expected.append(failed)
        try:
            yield
        finally:
            if failed in self._expected:  # given up before its turn
                self._expected.remove(failed)

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **of_it: Any) -> Agreeing:  # type: ignore[override]  # noqa: ANN401
        """See `ssl.SSLContext`."""
        made = super().wrap_bio(incoming, outgoing, **of_it)
        assert isinstance(made, Agreeing)
        made.begin(incoming, outgoing, self._expected.popleft())
        return made

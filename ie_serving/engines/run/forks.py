"""What becomes of a process that a user's code forks off the server's, or off a kernel's.

Such a fork is a copy with one thread, the one that forked. It has the sockets that clients connect
to, and would keep them open when the server has ended; the handlers by which signals reach the
event loop, so that a signal to the fork would stop the server; and the thread goes on in the
server's own code once the user's has returned, where it would answer requests a second time. So a
fork begins without these sockets and handlers, and ends when it comes back from the user's code.
Signals that come before the handlers are gone wait until then: else the server would stop in place
of the fork, and whoever waits for the fork's end, as a pool does, would wait for ever.
"""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar
from weakref import WeakSet

from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

T = TypeVar("T")

SIGNALS: Final = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP),
    *(signal.SIGUSR1, signal.SIGUSR2),
)
"""Those that the server and the processes of kernels handle or ignore."""
_WAYS: "Final[WeakSet[socket.socket]]" = WeakSet()
_OWN = os.getpid()
_nothing = -1
"""What takes the place of the sockets; opened before a fork, which may have no descriptor left."""


_held = threading.local()
"""`mask`: the signals that were blocked before a fork, in the thread that forks."""


def watch() -> None:
    """Prepare this process for forks; called wherever a user's code is loaded."""
    global _OWN, _nothing  # noqa: PLW0603  of the process, as the handler is
    _OWN = os.getpid()
    if _nothing < 0:
        _nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.register_at_fork(before=_hold, after_in_parent=_let, after_in_child=_begin)


def not_for_forks(way: socket.socket) -> None:
    """Have forks begin without this socket: its other end is to notice when this process ends."""
    _WAYS.add(way)


def call(what: str, function: Callable[..., T], *args: Any) -> T:  # noqa: ANN401  as it takes
    """Call a user's code, which `what` names; a fork that comes back from it ends here."""
    try:
        return function(*args)
    finally:
        leave_if_forked(what)


def leave_if_forked(what: str) -> None:
    """End this process if it is a fork that came back from a user's code, which `what` names."""
    if os.getpid() != _OWN:
        log.error(Event("fork ended", kernel=what, pid=os.getpid()))
        logging.shutdown()
        os._exit(1)


def _hold() -> None:
    _held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _let() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _held.mask)


def _begin() -> None:
    try:
        _part()
    finally:
        # Also those that the thread has blocked, for the event loop's sake: what ends the fork, as
        # a pool ends its processes, would wait for ever.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _part() -> None:
    # By whatever forks, also in the midst of an event loop: nothing here may raise.
    with suppress(ValueError):  # from another interpreter's thread
        signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
    for descriptor in {*_served(), *(way.fileno() for way in _WAYS)} - {-1}:
        # Not closed: whoever has the number would close, later, what has it then.
        os.dup2(_nothing, descriptor, inheritable=False)


def _served() -> Iterator[int]:
    """Find the sockets that listen, and those of clients that came by them."""
    sockets = {number: each for number in _descriptors() if (each := _socket(number))}
    listening = {_place(each) for each in sockets.values() if _listens(each)}
    for number, each in sockets.items():
        if _place(each) in listening:
            yield number
        each.detach()


def _descriptors() -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir("/proc/self/fd")]
    return []


def _socket(descriptor: int) -> socket.socket | None:
    with suppress(OSError):
        return socket.socket(fileno=descriptor)
    return None


def _listens(each: socket.socket) -> bool:
    with suppress(OSError):
        return bool(each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    return False


def _place(each: socket.socket) -> object:
    """Give the port, or the path, that a socket has at this end."""
    with suppress(OSError):
        name = each.getsockname()
        return name[1] if isinstance(name, tuple) else name or None
    return None

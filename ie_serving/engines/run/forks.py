"""Contains processes that a user's code forks off the server's process or off a kernel's.

A fork is a copy with only the forking thread. It inherits the sockets that clients connect to, and
would keep them open after the server's end; the signal handlers of the event loop, so that a signal
to the fork would stop the server; and its thread would return from the user's code into the
server's code and answer requests a second time. So a fork drops these sockets and handlers when it
begins, and ends when it returns from the user's code. Signals are blocked until the handlers are
gone: otherwise the server would stop instead of the fork, and a parent that waits for the fork's
end, such as a process pool, would wait for ever.
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
"""Descriptor that replaces the sockets; opened before a fork, which may have no free descriptor."""

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
    """Have forks begin without this socket, so that its peer notices the end of this process."""
    _WAYS.add(way)


def call(what: str, function: Callable[..., T], *args: Any) -> T:  # noqa: ANN401  as it takes
    """Call a user's code, which `what` names; a fork that returns from it ends here."""
    try:
        return function(*args)
    finally:
        leave_if_forked(what)


def leave_if_forked(what: str) -> None:
    """End this process if it is a fork that returned from a user's code, which `what` names."""
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
        # The fork unblocks the signals that the thread has blocked for the event loop: otherwise a
        # parent that ends the fork by a signal, as a process pool does, would wait for ever.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _part() -> None:
    # Any fork calls this, also in the midst of an event loop: nothing here may raise.
    with suppress(ValueError):  # from another interpreter's thread
        signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
    for descriptor in {*_served(), *(way.fileno() for way in _WAYS)} - {-1}:
        # The number stays taken: its owner here would later close another descriptor.
        os.dup2(_nothing, descriptor, inheritable=False)


def _served() -> Iterator[int]:
    """Find the sockets that listen, and those of clients that came by them."""
    sockets = {number: each for number in _descriptors() if (each := _socket(number))}
    listening = {_local_address(each) for each in sockets.values() if _listens(each)}
    for number, each in sockets.items():
        if _local_address(each) in listening:
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


def _local_address(each: socket.socket) -> object:
    """Give the port, or the path, that a socket has at this end."""
    with suppress(OSError):
        name = each.getsockname()
        return name[1] if isinstance(name, tuple) else name or None
    return None

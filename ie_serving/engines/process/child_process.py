"""One child process, in the server: starts it, sends its job, opens links to it, and ends it.

`Starts` has the starts of one server, so that they end with it: a start takes seconds, longer than
a stopping server may take, which no longer needs the process.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.process.link import Link, LinkMessage, PeerGone, Segment
from ie_serving.engines.process.protocol import FrameKind, text

if TYPE_CHECKING:
    from ie_serving.engines.process.supervision import Supervisor

DYING_S = 1.0
"""Seconds for a process to end after its sockets closed: a dying process takes milliseconds, or
longer with much memory. Beyond this it counts as alive, and is killed."""


class WorkerProcess:
    """A child of this process; see `worker.py` for its side.

    It dies with the thread that creates it, since for the kernel that thread is its parent.

    Args of the constructor:
        command: its command line, without the control socket's number and the server's process id.
        environ: added to the environment.

    Raises:
        OSError: the system has no process or memory left.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair()
        self._giving = threading.Lock()
        self._was_cut_off = False
        with theirs, SPARE_CPU.everywhere():
            self._popen = subprocess.Popen(
                [*command, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**environ, **os.environ},
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    def load(self, job: str, limit_s: float) -> LinkMessage:
        """Send the job and wait until the process has loaded it.

        Raises:
            RemoteFault: the process cannot load the job.
            PeerGone: the process has ended.
            TimeoutError: the load took longer than `limit_s` seconds.
        """
        self._control.settimeout(limit_s)
        self.begin(job)
        found = self.reply()
        self._control.settimeout(None)
        return found

    def begin(self, job: str) -> None:
        """Send the job; the first half of `load`. Raises: PeerGone."""
        control = Link(self._control)
        control.send(control.pack(FrameKind.JOB, 0, [text(job)]))

    def reply(self) -> LinkMessage:
        """Give the reply to the job; the second half of `load`. Raises: as `load`."""
        return Link(self._control).reply()

    def has_replied(self, wait_s: float) -> bool:
        """Wait at most `wait_s` seconds until the process has answered, or ended."""
        poll = select.poll()  # `select.select` takes no descriptor from 1024 on
        poll.register(self._control, select.POLLIN)
        return bool(poll.poll(wait_s * 1000))

    def link(self) -> Link:
        """Open a link to the process.

        Raises:
            PeerGone: the process has ended.
            OSError: there are no descriptors left.
        """
        ours, (memory,) = self._way(memories=1)
        return Link(ours, memory)

    def way_for_stream(self) -> tuple[socket.socket, Segment, Segment]:
        """Open a stream to the process: a socket, memory to write to, and memory to read.

        Raises:
            PeerGone: the process has ended.
            OSError: there are no descriptors left.
        """
        ours, (writes, reads) = self._way(memories=2)
        return ours, writes, reads

    def _way(self, memories: int) -> tuple[socket.socket, list[Segment]]:
        with ExitStack() as undone:
            ours, theirs = map(undone.enter_context, socket.socketpair())
            numbers = [os.memfd_create("ie_serving") for _ in range(memories)]
            for number in numbers:
                undone.callback(os.close, number)
            with self._giving:
                try:
                    socket.send_fds(self._control, [b"L"], [theirs.fileno(), *numbers])
                except OSError as error:
                    raise PeerGone from error
            undone.pop_all()
            theirs.close()
            return ours, [Segment(number) for number in numbers]

    def wait(self) -> str:
        """Wait for the end of the process; say how it ended. In one thread."""
        with suppress(OSError):
            self._control.recv(1)
        self.cut_off()
        code = self._popen.wait()
        if self._was_cut_off:
            return "it closed its connection to the server, and was ended"
        return _ended(code)

    def cut_off(self) -> None:
        """Kill the process if it does not end within `DYING_S` after its sockets closed."""
        try:
            self._popen.wait(DYING_S)
        except subprocess.TimeoutExpired:
            self._was_cut_off = True
            self._popen.kill()

    def hang_up(self) -> None:
        """Make the process close its model and end. Does not wait."""
        with suppress(OSError):  # it has ended
            self._control.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """Kill the process. Does not wait."""
        self._popen.kill()

    def close(self) -> None:
        """Close the control socket. Called once, after `wait`."""
        with self._giving:
            self._control.close()


def _ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    advice = " (the kernel kills so when memory runs out)" if name == "SIGKILL" else ""
    return f"killed by {name}{advice}"


def command_of(code: str) -> tuple[str, ...]:
    """Give the command line of a Python process that runs `code`.

    With this process's path, the child finds the installed package from any working directory, and
    imports nothing from that directory.
    """
    path = "import sys; sys.path[:] = sys.argv[1].split('\\n');"
    return (sys.executable, "-c", f"{path} {code}", "\n".join(sys.path))


class Starts:
    """The starts of one server. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: list[Supervisor] = []
        self._ended = False

    def run(self, starting: "Supervisor") -> "LinkMessage":
        """Start a process, and wait for it.

        Raises:
            LoadFailed: the process cannot be started, or the server ends.
        """
        with self._lock:
            if self._ended:  # a load may get here while the server stops
                raise LoadFailed("the server is being stopped")
            self._under_way.append(starting)
        try:
            return starting.start()
        finally:
            with self._lock:
                self._under_way.remove(starting)

    def end(self) -> None:
        """Cancel the starts in progress, and refuse new ones. Does not wait."""
        with self._lock:
            self._ended = True
            under_way = list(self._under_way)
        for starting in under_way:
            starting.abandon()

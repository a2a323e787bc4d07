"""A new process takes over from the one that runs, without a refused connection: SIGUSR2.

    the one that runs (predecessor)                    the new one (successor)
    starts its own command again, ──────────────────>  reads its flags and its configuration,
    with its sockets, and goes on                      loads every model,
                                                       accepts from the same sockets
    accepts nothing more, drains, ends <────────────── says that it is ready
    or: says why, and goes on as before <───────────── ends

Both have the same sockets, and so one queue of connections in the kernel: what neither has accepted
when the first one ends is the other's. What the successor says on stderr before it has come so far
that it has a log, such as what is wrong with a flag, is kept for its predecessor, whose log has it.
"""

import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ie_serving.config.settings import Settings
from ie_serving.core.values.errors import ServingError
from ie_serving.server.process.handover import nameless
from ie_serving.telemetry.log.logs import Event

if TYPE_CHECKING:  # nobody needs it who is not replaced
    import subprocess

log = logging.getLogger(__name__)

VARIABLE: Final = "IE_SERVING_TAKE_OVER"
"""Variable by which the successor knows what it has inherited, as JSON."""
LONGEST_S: Final = 3600.0
"""Seconds that a successor may take to be ready; then it is ended. Far more than the largest models
take to load, so only one that hangs meets it: two processes hold the memory of all models."""
LOOK_S: Final = 0.1
"""Seconds between two looks at whether the successor is ready: for so long both accept."""
STDERR: Final = 2
MOST_SAID: Final = 2000
"""Characters of the cause that are logged; the end of it, which says what went wrong."""
_READY: Final = b"+"
_FAILED: Final = b"-"


class Predecessor:
    """What a successor has from the process that it is to replace.

    Args of the constructor:
        sockets: that it listens on.
        report: file that it reads.

    Attributes:
        sockets: see above.
    """

    def __init__(self, sockets: Sequence[socket.socket], report: int) -> None:
        self.sockets = tuple(sockets)
        self._report = report

    def told_ready(self) -> None:
        """Tell it that this process, or a worker of it, accepts connections: it may leave."""
        os.pwrite(self._report, _READY, 0)

    def told_failure(self, cause: str) -> None:
        """Tell it why this process ends."""
        os.pwrite(self._report, _FAILED + cause.encode(errors="replace"), 0)


def inherited(environment: MutableMapping[str, str]) -> Predecessor | None:
    """Take what a predecessor has handed over; None in a process that replaces nobody.

    Args:
        environment: of this process; the variable is taken out, lest children believe it.
    """
    given = environment.pop(VARIABLE, None)
    if given is None:
        return None
    handed = json.loads(given)
    for descriptor in (*handed["sockets"], handed["report"]):
        os.set_inheritable(descriptor, False)
    _speak_on(handed["stderr"])
    log.info(Event("process takes over", predecessor=os.getppid()))
    sockets = [socket.socket(fileno=descriptor) for descriptor in handed["sockets"]]
    return Predecessor(sockets, handed["report"])


def of_successor(settings: Settings) -> Settings:
    """Give the settings of a successor: it accepts nothing before all of its models serve.

    Where the start may lack some, it waits until each has loaded, well or badly.

    Raises:
        ServingError: it cannot take over.
    """
    server = settings.server
    if server.grpc_transport == "grpcio":
        raise ServingError(
            "grpc_transport is grpcio, whose library binds sockets of its own and takes none over:"
            " use http2, or stop the server and start it again"
        )
    required = server.require_available or not server.allow_unavailable_models
    changed = replace(server, open_ports_early=False, require_available=required)
    return replace(settings, server=changed)


def _speak_on(stderr: int) -> None:
    """Have what was said on stderr, and the rest, go where the predecessor's goes."""
    sys.stderr.flush()
    said = _content(STDERR)
    os.ftruncate(STDERR, 0)
    os.dup2(stderr, STDERR)
    os.close(stderr)
    os.write(STDERR, said)


class Successor:
    """A process that is to replace this one.

    Args of the constructor:
        sockets: that this process has bound.
        environment: of this process.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, sockets: Sequence[socket.socket], environment: Mapping[str, str]) -> None:
        self._report, self._said = nameless(), nameless()
        self._began = time.monotonic()
        stderr = os.dup(STDERR)
        try:
            self._process = self._start([each.fileno() for each in sockets], stderr, environment)
        except OSError:
            self.close()
            raise
        finally:
            os.close(stderr)
        self.pid: int = self._process.pid

    def _start(
        self, sockets: Sequence[int], stderr: int, environment: Mapping[str, str]
    ) -> "subprocess.Popen[bytes]":
        import subprocess

        handed = {"sockets": sockets, "report": self._report, "stderr": stderr}
        return subprocess.Popen(
            command_again(),
            env={**environment, VARIABLE: json.dumps(handed)},
            pass_fds=(*sockets, self._report, stderr),
            stderr=self._said,
        )

    @property
    def is_ready(self) -> bool:
        """Whether it accepts connections."""
        return os.pread(self._report, 1, 0) == _READY

    @property
    def is_late(self) -> bool:
        """Whether it has had more time than any start takes."""
        return time.monotonic() - self._began > LONGEST_S

    def cause(self, code: int) -> str:
        """Say why it has ended, by what it has said last; `code` is that of `_ended_child`."""
        if self.is_late:  # what it has said last does not tell
            return f"process {self.pid} was not ready within {LONGEST_S:g} s, and was ended"
        told = _content(self._report)[1:] or _content(self._said)
        lines = [line.strip() for line in told.decode(errors="replace").splitlines()]
        last = [line for line in lines if line][-1:]
        return (last[0] if last else f"exit code {code}")[-MOST_SAID:]

    def repeat(self) -> None:
        """Say on stderr what it has said there before it had a log."""
        os.write(STDERR, _content(self._said))

    def ended(self, code: int) -> None:
        """Take note that it has ended, and let go of what was for it."""
        self._process.returncode = code  # else its destructor would wait for it
        self.close()

    def close(self) -> None:
        """Let go of what was for it."""
        os.close(self._report)
        os.close(self._said)


class Succession:
    """What a process does to be replaced.

    Args of the constructor:
        environment: of this process.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._successor: Successor | None = None
        self._is_stopped = False

    def begin(self, sockets: Sequence[socket.socket]) -> None:
        """Start a successor, unless one is on its way or the machine would end it with this one."""
        if self._successor:
            log.warning(Event("replacement already on its way", pid=self._successor.pid))
            return
        cause = self._refusal()
        if cause:
            _say(cause)
            return
        try:
            self._successor = Successor(sockets, self._environment)
        except OSError as error:
            _say(f"{error.filename}: {error.strerror}")
            return
        log.info(Event("replacement started", pid=self._successor.pid))

    def _refusal(self) -> str:
        own = os.getpid()
        if own == 1:
            return "it is the first process of its container, which ends with it: start another one"
        # What systemd starts it names here; it ends whatever is left of a service whose main
        # process has ended, unless that tells it of another one.
        is_main = self._environment.get("SYSTEMD_EXEC_PID") == str(own)
        if is_main and "NOTIFY_SOCKET" not in self._environment:
            return "systemd would end its replacement with it; set Type=notify in the unit"
        return ""

    @property
    def is_under_way(self) -> bool:
        """Whether a successor has been started and has not ended."""
        return self._successor is not None

    def ready_pid(self) -> int:
        """Give the process that has taken over; 0 as long as there is none."""
        successor = self._successor
        if successor is None:
            return 0
        if successor.is_ready:
            return successor.pid
        if successor.is_late:
            self.give_up()
        return 0

    def stop(self) -> None:
        """End a successor that is not ready, as this process is told to stop: a stop is for both.

        Otherwise whoever stops the server would have one again as soon as the models have loaded.
        """
        if self._successor and not self._successor.is_ready:
            self._is_stopped = True
            log.info(Event("replacement ended, this process stops", pid=self._successor.pid))
            self.give_up()

    def give_up(self) -> None:
        """End a successor that is not ready."""
        if self._successor and not self._successor.is_ready:
            os.kill(self._successor.pid, signal.SIGTERM)

    def note_end(self, pid: int, code: int) -> None:
        """Take note that a child has ended: say why, if it was to replace this process."""
        successor = self._successor
        if successor is None or successor.pid != pid:
            return
        self._successor = None
        if not self._is_stopped:
            successor.repeat()
            _say(successor.cause(code))
        successor.ended(code)


def _say(cause: str) -> None:
    log.error(Event("process not replaced, it goes on", cause=cause))


def command_again() -> Sequence[str]:
    """Give the command that this process was started by.

    A script is started by its path, so that one that was replaced may name another interpreter.
    """
    program = sys.argv[0]
    if os.path.isfile(program) and os.access(program, os.X_OK):
        return [program, *sys.argv[1:]]
    return [sys.executable, *sys.orig_argv[1:]]


def _content(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)

"""SIGUSR2: a new process takes over from the running one without refusing a connection.

    the one that runs (predecessor)                    the new one (successor)
    starts its own command again, ──────────────────>  reads its flags and its configuration,
    with its sockets, and goes on                      loads every model,
                                                       accepts from the same sockets
    accepts nothing more, drains, ends <────────────── says that it is ready
    or: says why, and goes on as before <───────────── ends

Both have the same sockets, and so one queue of connections in the kernel: a connection that the
first has not accepted when it ends is accepted by the other. Until it has a log, the successor's
output on stderr, such as a wrong flag, is kept for its predecessor, which logs it.
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
from ie_serving.core.runtime.handover import nameless
from ie_serving.core.values.errors import ServingError
from ie_serving.telemetry.log.logs import Event

if TYPE_CHECKING:  # a process that is not replaced does not need it
    import subprocess

log = logging.getLogger(__name__)

VARIABLE: Final = "IE_SERVING_TAKE_OVER"
"""Environment variable that lists, as JSON, what the successor has inherited."""
LONGEST_S: Final = 3600.0
"""Seconds that a successor may take to be ready; then it is ended. Far more than the largest models
take to load, so it ends only a hung one; until then two processes hold the memory of all models."""
LOOK_S: Final = 0.1
"""Seconds between two checks whether the successor is ready; for that long both accept."""
STDERR: Final = 2
MOST_SAID: Final = 2000
"""Characters of the cause that are logged, from its end, which says what went wrong."""
_READY: Final = b"+"
_FAILED: Final = b"-"


class Predecessor:
    """The predecessor, as its successor sees it.

    Args of the constructor:
        sockets: listening sockets of the predecessor.
        report: file descriptor that the predecessor reads.

    Attributes:
        sockets: listening sockets, inherited from the predecessor.
    """

    def __init__(self, sockets: Sequence[socket.socket], report: int) -> None:
        self.sockets = tuple(sockets)
        self._report = report

    def told_ready(self) -> None:
        """Tell the predecessor that this process or its worker accepts connections: it may end."""
        os.pwrite(self._report, _READY, 0)

    def told_failure(self, cause: str) -> None:
        """Tell the predecessor why this process ends."""
        os.pwrite(self._report, _FAILED + cause.encode(errors="replace"), 0)


def inherited(environment: MutableMapping[str, str]) -> Predecessor | None:
    """Return the predecessor; None if this process does not replace another.

    Args:
        environment: environment of this process; the variable is removed, so that children do not
            inherit it.
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
    """Return the settings of a successor, which accepts nothing before all of its models serve.

    If the start may lack some models, it waits until each load has succeeded or failed.

    Raises:
        ServingError: the settings do not permit a take-over.
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
    """Write the kept output to the predecessor's stderr, and further output as well."""
    sys.stderr.flush()
    said = _content(STDERR)
    os.ftruncate(STDERR, 0)
    os.dup2(stderr, STDERR)
    os.close(stderr)
    os.write(STDERR, said)


class Successor:
    """A process that will replace this one.

    Args of the constructor:
        sockets: sockets that this process has bound.
        environment: environment of this process.

    Raises:
        OSError: the process cannot be started.
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
        """Whether the successor accepts connections."""
        return os.pread(self._report, 1, 0) == _READY

    @property
    def is_late(self) -> bool:
        """Whether the successor has taken longer than any start should."""
        return time.monotonic() - self._began > LONGEST_S

    def cause(self, code: int) -> str:
        """Return why it has ended, from the end of its output; `code` is that of `ended_child`."""
        if self.is_late:  # its last output does not say why it was ended
            return f"process {self.pid} was not ready within {LONGEST_S:g} s, and was ended"
        told = _content(self._report)[1:] or _content(self._said)
        lines = [line.strip() for line in told.decode(errors="replace").splitlines()]
        last = [line for line in lines if line][-1:]
        return (last[0] if last else cause_of(code))[-MOST_SAID:]

    def repeat(self) -> None:
        """Repeat on stderr what the successor has written there before it had a log."""
        os.write(STDERR, _content(self._said))

    def ended(self, code: int) -> None:
        """Note that the successor has ended, and release its resources."""
        self._process.returncode = code  # else its destructor would wait for it
        self.close()

    def close(self) -> None:
        """Close the files that were for the successor."""
        os.close(self._report)
        os.close(self._said)


class Succession:
    """Replaces this process by a successor.

    Args of the constructor:
        environment: environment of this process.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._successor: Successor | None = None
        self._is_stopped = False

    def begin(self, sockets: Sequence[socket.socket]) -> None:
        """Start a successor, unless one is starting, or systemd would end it with this process."""
        if self._successor:
            pid = self._successor.pid
            advice = f"kill {pid} ends it, as where its models never load; then send SIGUSR2 again"
            log.warning(Event("replacement already on its way", pid=pid, advice=advice))
            return
        cause = self._refusal()
        if cause:
            _log_failure(cause)
            return
        try:
            self._successor = Successor(sockets, self._environment)
        except OSError as error:
            _log_failure(f"{error.filename}: {error.strerror}")
            return
        log.info(Event("replacement started", pid=self._successor.pid))

    def _refusal(self) -> str:
        own = os.getpid()
        if own == 1:
            return "it is the first process of its container, which ends with it: start another one"
        # systemd names its own child here. When the main process of a service has ended, systemd
        # ends the remaining ones, unless that process has named another main process.
        is_main = self._environment.get("SYSTEMD_EXEC_PID") == str(own)
        if is_main and "NOTIFY_SOCKET" not in self._environment:
            return "systemd would end its replacement with it; set Type=notify in the unit"
        return ""

    @property
    def is_under_way(self) -> bool:
        """Whether a successor has been started and has not ended."""
        return self._successor is not None

    def ready_pid(self) -> int:
        """Return the pid of the successor that has taken over; 0 while there is none."""
        successor = self._successor
        if successor is None:
            return 0
        if successor.is_ready:
            return successor.pid
        if successor.is_late:
            self.give_up()
        return 0

    def stop(self) -> None:
        """End a successor that is not ready when this process is stopped: a stop is for both.

        Otherwise the stopped server would run again as soon as the successor's models have loaded.
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
        """Note that a child has ended; if it was the successor, log why."""
        successor = self._successor
        if successor is None or successor.pid != pid:
            return
        self._successor = None
        if not self._is_stopped:
            successor.repeat()
            _log_failure(successor.cause(code))
        successor.ended(code)


def _log_failure(cause: str) -> None:
    log.error(Event("process not replaced, it goes on", cause=cause))


def command_again() -> Sequence[str]:
    """Return the command line that started this process.

    A script is started by its path, since a replaced script may name another interpreter.
    """
    program = sys.argv[0]
    if os.path.isfile(program) and os.access(program, os.X_OK):
        return [program, *sys.argv[1:]]
    return [sys.executable, *sys.orig_argv[1:]]


def cause_of(code: int) -> str:
    """Return why a process has ended; a negative code is the number of a signal."""
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"{name}, perhaps out of memory" if -code == signal.SIGKILL else name


def _content(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)

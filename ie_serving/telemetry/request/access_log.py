"""The access log: a line for each request, written by a separate thread.

The event loop appends the facts of a request to a queue. The thread gathers for `GATHER_S`, formats
the lines and writes many at once, so only the thread waits for a slow disk or a full pipe. Then the
queue fills, and lines beyond `MOST_WAITING_LINES` are dropped and counted: no client waits for the
log, and memory stays bounded. Formatting a line on the event loop, between two requests, took
several times as long as in the thread, which formats lines one after the other.
"""

import logging
import os
import select
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Final

from ie_serving.core.values.errors import ServingError
from ie_serving.telemetry.log.events import Event
from ie_serving.telemetry.log.logs import register
from ie_serving.telemetry.request.access_lines import LogRow, writer_of
from ie_serving.telemetry.request.entry import RequestEntry, epoch, now

log = logging.getLogger(__name__)

STDOUT_NUMBER = 1
"""File descriptor of standard output."""
STDOUT: Final = "-"
"""The target for standard output, as in gunicorn."""
GATHER_S: Final = 0.1
"""Seconds for which lines are gathered, and by which they are late in the file."""
MOST_WAITING_LINES: Final = 20_000
"""Requests that wait for the thread, at most about 10 MB. Further ones are dropped."""
AT_ONCE: Final = 64
"""Lines of one write, some 20 KB; formatting them holds the interpreter for some 150 us."""
CLOSE_S: Final = 1.0
"""Seconds that the end of the server waits for the last lines; later ones are lost."""
TELL_S: Final = 10.0
"""Seconds between two warnings that lines are lost: a full disk fails ten writes a second."""
_TOO_MANY: Final = "they came faster than they could be written"


class AccessLog:
    """Takes entries on the event loop, and writes their lines in a thread.

    Args of the constructor:
        target: file that lines are appended to; `-` is standard output.
        form: form of the lines, `text` or `json`.

    Attributes:
        waiting: entries whose lines the thread has not taken yet.

    Raises:
        ServingError: the file cannot be opened.
    """

    def __init__(self, target: str, form: str = "text") -> None:
        self._lines = writer_of(form)
        self._file = LineFile(target)
        self.waiting: deque[LogRow] = deque()
        # Each counter is written by one thread alone.
        self._refused = self._failed = self._told = 0
        self._tell_at = 0.0
        self._cause = _TOO_MANY
        self._wake, self._stop = threading.Event(), threading.Event()
        # The thread sleeps, or is too slow, if more entries than this wait. Setting an `Event`
        # takes a lock, which most entries avoid.
        self._mark = 0
        # A daemon: a pipe that is not read must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="access-log", daemon=True)
        self._thread.start()
        register(self)

    @property
    def dropped(self) -> int:
        """Number of lines lost so far."""
        return self._refused + self._failed

    def end(self, entry: RequestEntry) -> None:
        """Take the entry of a request, and end it. Never waits."""
        entry.ended = now()
        waiting = self.waiting
        # A `LogRow`, made inline to save a call.
        waiting.append(
            (
                entry.client,
                entry.asked,
                entry.answered_by,
                entry.code,
                entry.id,
                entry.received,
                entry.sent,
                entry.began,
                entry.started,
                entry.inferred,
                entry.encoded,
                entry.ended,
            )
        )
        # The append comes first: the thread may just have emptied the queue, and sleep.
        if len(waiting) > self._mark:
            self._go_on()

    def _go_on(self) -> None:
        """Handle a queue that has passed its mark."""
        if self._mark >= MOST_WAITING_LINES:
            self._refused += 1
            with suppress(IndexError):  # the thread has emptied the queue meanwhile
                self.waiting.pop()
            return
        self._mark = MOST_WAITING_LINES
        self._wake.set()

    def reopen(self) -> None:
        """Make the thread reopen the file if it was moved away."""
        # The thread opens the file, which may wait for a disk: this is the event loop.
        self._wake.set()

    def close(self) -> None:
        """Write pending lines, for at most `CLOSE_S`. Blocking."""
        self._stop.set()
        self._wake.set()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait()
            self._wake.clear()
            self._mark = MOST_WAITING_LINES
            # While requests keep coming, none of them has to wake this thread.
            while not self._stop.wait(GATHER_S) and self._write_all():
                pass
            # The next entry wakes the thread, also one that came since the queue was empty.
            self._mark = 0
            if self.waiting:
                self._wake.set()
        self._write_all()

    def _write_all(self) -> bool:
        """Write pending lines; return whether there were any."""
        with suppress(OSError):  # reported with the next lines, which are lost
            self._file.renew()
        waiting = self.waiting
        is_any = bool(waiting)
        while waiting:
            taken = [waiting.popleft() for _ in range(min(len(waiting), AT_ONCE))]
            try:
                self._file.write(self._lines(taken, epoch()))
            except Exception as error:  # also a defect, which must not end the thread
                self._failed += len(taken)
                self._cause = getattr(error, "strerror", None) or str(error) or repr(error)
                self._tell_loss()
        if self.dropped > self._told:
            self._tell_loss()
        return is_any

    def _tell_loss(self) -> None:
        at = time.monotonic()
        if at < self._tell_at and not self._stop.is_set():
            return
        self._tell_at = at + TELL_S
        dropped, cause = self.dropped, self._cause
        log.warning(Event("access log lines lost", lines=dropped - self._told, cause=cause))
        # The cause of a loss may have passed when the loss is reported; it is still its cause.
        self._told, self._cause = dropped, _TOO_MANY


class LineFile:
    """A file that lines are appended to, reopened when it was moved away.

    Args of the constructor:
        target: its path, or `-`.

    Raises:
        ServingError: the file cannot be opened.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._file = _opened(target)
        self._torn = False  # a full disk has cut off a part of a line

    def renew(self) -> None:
        """Reopen the file if it was moved away. Raises: OSError."""
        if self._target != STDOUT and self._was_moved():
            # Opened before the old one is closed: if this fails, lines still go to the old one.
            renewed = os.open(self._target, _APPEND, 0o644)
            os.close(self._file)
            self._file, self._torn = renewed, False

    def write(self, data: bytes) -> None:
        """Write all of `data`; wait for the reader of a pipe. Raises: OSError."""
        self.renew()
        if self._torn:  # the next line must begin after a line end
            data = b"\n" + data
        while data:
            try:
                written = os.write(self._file, data)
                self._torn = data[written - 1 : written] != b"\n"
                data = data[written:]
            except BlockingIOError:  # another user of standard output has made it non-blocking
                # `select` does not accept file numbers from 1,024 on.
                room = select.poll()
                room.register(self._file, select.POLLOUT)
                room.poll()

    def _was_moved(self) -> bool:
        try:
            there = os.stat(self._target)
        except FileNotFoundError:
            return True
        return not os.path.samestat(there, os.fstat(self._file))


# Workers share the file: O_APPEND writes after the lines of other workers.
_APPEND: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


def _opened(target: str) -> int:
    if target == STDOUT:
        return STDOUT_NUMBER
    try:
        return os.open(target, _APPEND, 0o644)
    except OSError as error:
        raise ServingError(
            f'access log "{target}" cannot be opened: {error.strerror}: name a file in a directory'
            " that exists and that this user may write to, or - for standard output"
        ) from error


def check(target: str) -> None:
    """Check that the file can be opened. Raises: ServingError."""
    if target and target != STDOUT:
        os.close(_opened(target))

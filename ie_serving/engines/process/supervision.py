"""Supervises a version's child process: starts it, and restarts it when it has ended.

A dedicated thread starts the process and waits for its end. The thread lives as long as the
version, since the kernel ends a child together with the thread that made it.
"""

import enum
import logging
import math
import random
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from ie_serving.core.runtime.states import after
from ie_serving.core.runtime.waits import Backoff
from ie_serving.core.values.errors import LoadFailed, NotAvailable
from ie_serving.engines.process.child_process import WorkerProcess
from ie_serving.engines.process.link import Link, LinkMessage, PeerGone, RemoteFault, Segment
from ie_serving.telemetry.log import logs

log = logging.getLogger(__name__)

T = TypeVar("T")

LOAD_LIMIT_S = 600.0
"""Longest start in seconds; beyond it the process counts as hanging. TensorFlow takes 5 s to import
on a slow machine, and reads a model of 10 GB within a few minutes."""

STEADY_S = 60.0
"""Seconds of serving after which a process that ends is restarted at once, without back-off."""

BACKOFF = Backoff(first_s=1.0, longest_s=60.0)
"""Back-off of a process that ends again and again: each start takes a processor for seconds."""


class ProcessStage(enum.Enum):
    """Stages of the process."""

    STARTING = "starting"
    """It imports TensorFlow and loads the model. Requests wait."""
    SERVING = "serving"
    """It takes requests."""
    PAUSING = "pausing"
    """It has ended, and is restarted after the back-off. Requests are refused."""
    CLOSED = "closed"
    """The version is unloaded, or its first start failed."""


class ProcessEvent(enum.Enum):
    """Events that move the process to another stage."""

    READY = "ready"
    DIED = "died"
    DUE = "due"
    CLOSE = "close"


TRANSITIONS: Final[Mapping[ProcessStage, Mapping[ProcessEvent, ProcessStage]]] = {
    ProcessStage.STARTING: {
        ProcessEvent.READY: ProcessStage.SERVING,
        ProcessEvent.DIED: ProcessStage.PAUSING,
        ProcessEvent.CLOSE: ProcessStage.CLOSED,
    },
    ProcessStage.SERVING: {
        ProcessEvent.DIED: ProcessStage.PAUSING,
        ProcessEvent.CLOSE: ProcessStage.CLOSED,
    },
    ProcessStage.PAUSING: {
        ProcessEvent.DUE: ProcessStage.STARTING,
        ProcessEvent.CLOSE: ProcessStage.CLOSED,
    },
    # After a close, the end of the process, and of a load, still arrive.
    ProcessStage.CLOSED: {
        ProcessEvent.READY: ProcessStage.CLOSED,
        ProcessEvent.DIED: ProcessStage.CLOSED,
        ProcessEvent.DUE: ProcessStage.CLOSED,
        ProcessEvent.CLOSE: ProcessStage.CLOSED,
    },
}


@dataclass(frozen=True, kw_only=True)
class ProcessTask:
    """The task of a child process.

    Attributes:
        command: command of a `WorkerProcess`.
        job: its job, as JSON.
        name: name in the log.
        what: describes the process in errors.
        environ: added to its environment.
        load_limit_s: longest start, in seconds.
        backoff: pauses between restarts.
        closing_s: seconds for the process to close its model and end when the server requests it;
            then it is killed. 0 kills it at once.
    """

    command: Sequence[str]
    job: str
    name: str
    kind: str
    what: str = "the process of this version"
    environ: Mapping[str, str] = field(default_factory=dict)
    load_limit_s: float = LOAD_LIMIT_S
    backoff: Backoff = BACKOFF
    closing_s: float = 0.0


class Supervisor:
    """Runs one task until it is closed. Every method may be called in any thread."""

    def __init__(self, task: ProcessTask) -> None:
        self._task = task
        self._changed = threading.Condition()
        self._stage = ProcessStage.STARTING
        self._process: WorkerProcess | None = None
        self._found: LinkMessage | None = None
        self._cause = ""
        self._why = ""
        self._failures = 0
        self._due = 0.0
        # In this context, so that log events name the model and version of the process.
        run = partial(copy_context().run, self._supervise)
        self._thread = threading.Thread(target=run, name="supervisor", daemon=True)

    def start(self) -> LinkMessage:
        """Start the process, wait until it has loaded its job, and return its findings.

        Raises:
            LoadFailed: the process cannot load the job, or has ended. This start is not retried.
        """
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._stage is not ProcessStage.STARTING)
            if self._stage is ProcessStage.SERVING and self._found is not None:
                return self._found
        self.close()
        raise LoadFailed(self._cause or "the version is being unloaded")

    def link(self) -> tuple[WorkerProcess, Link]:
        """Give the serving process and a new link to it; wait while the process starts.

        Raises:
            NotAvailable: the process waits for its back-off, or is closed.
        """
        return self._reached(WorkerProcess.link)

    def way_for_stream(self) -> tuple[WorkerProcess, tuple[socket.socket, Segment, Segment]]:
        """Give the serving process and a new stream to it; otherwise as `link`."""
        return self._reached(WorkerProcess.way_for_stream)

    def _reached(self, way: Callable[[WorkerProcess], T]) -> tuple[WorkerProcess, T]:
        while True:
            process = self._serving()
            try:
                return process, way(process)
            except PeerGone:
                self.lost(process)

    @property
    def serves(self) -> bool:
        """Whether the process serves now."""
        return self._stage is ProcessStage.SERVING

    @property
    def starts(self) -> bool:
        """Whether the process is starting, so that `link` waits."""
        return self._stage is ProcessStage.STARTING

    def settled(self, limit_s: float) -> None:
        """Wait at most `limit_s` seconds until the process serves, also during its back-off."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._stage in (ProcessStage.SERVING, ProcessStage.CLOSED), timeout=limit_s
            )

    def lost(self, process: WorkerProcess, why: str = "") -> None:
        """Report that a link to `process` broke; returns once `link` no longer gives this process.

        Args:
            process: the one that `link` gave.
            why: the reason to kill it; if empty, it gets `DYING_S` to end and show its own reason.
        """
        # A request may notice the end of the process before the supervising thread does, and the
        # next request must not get the same process.
        with self._changed:
            if self._process is process and self._stage is ProcessStage.SERVING:
                self._why = why
        # Without the lock, which other requests need while this waits for the process.
        if why:
            process.kill()
        else:
            process.cut_off()
        with self._changed:
            self._changed.wait_for(
                lambda: self._process is not process or self._stage is not ProcessStage.SERVING
            )

    @property
    def cause(self) -> str:
        """How the last process ended, as text; empty if none has."""
        return self._cause

    def ask_to_end(self) -> None:
        """Request the process to end if `closing_s` gives it time; does not wait."""
        with self._changed:
            if not self._task.closing_s or self._process is None or not self.serves:
                return
            self._apply(ProcessEvent.CLOSE)
            self._process.hang_up()

    def close(self) -> None:
        """End the process, and wait until it has ended."""
        self.ask_to_end()
        if self._task.closing_s and self._stage is ProcessStage.CLOSED and self._thread.is_alive():
            self._thread.join(self._task.closing_s)
            if self._thread.is_alive():
                self._note_late(self._task.closing_s)
        self.abandon()
        if self._thread.is_alive():
            self._thread.join()

    def abandon(self) -> None:
        """End the process; does not wait."""
        with self._changed:
            self._apply(ProcessEvent.CLOSE)
            if self._process is not None:
                self._process.kill()

    def _serving(self) -> WorkerProcess:
        with self._changed:
            self._changed.wait_for(lambda: self._stage is not ProcessStage.STARTING)
            if self._stage is ProcessStage.SERVING and self._process is not None:
                return self._process
            if self._stage is ProcessStage.CLOSED:
                raise NotAvailable("the version is being unloaded: ask for another one")
            wait_s = max(0.0, self._due - time.monotonic())
            raise NotAvailable(
                f"{self._task.what} ended {self._failures} times without serving for"
                f" {STEADY_S:g} s in between ({self._cause}); it is started again in"
                f" {math.ceil(wait_s)} s: send the request again"
            )

    def _apply(self, event: ProcessEvent) -> None:
        self._stage = after(TRANSITIONS, self._stage, event, self._task.what)
        self._changed.notify_all()

    # -- the supervising thread ----------------------------------------------------------------

    def _supervise(self) -> None:
        while self._stage is not ProcessStage.CLOSED:
            began = time.monotonic()
            cause = self._live()
            self._back_off(cause, time.monotonic() - began)

    def _live(self) -> str:
        """Start a process and wait for its end; give the cause."""
        try:
            with self._changed:
                if self._stage is ProcessStage.CLOSED:
                    return ""
                process = self._process = WorkerProcess(self._task.command, self._task.environ)
        # All errors, here and below: without a cause, `start` would wait for ever.
        except Exception as error:
            return f"no process can be started: {error}"
        try:
            self._load(process)
        except PeerGone:
            return f"it ended while it loaded the model: {process.wait()}"
        except Exception as error:
            process.kill()
            process.wait()
            return _in_words(error)
        else:
            return process.wait()
        finally:
            process.close()

    def _load(self, process: WorkerProcess) -> None:
        began = time.monotonic()
        limit_s = self._task.load_limit_s
        try:
            found = process.load(self._task.job, limit_s)
        except TimeoutError as error:
            raise TimeoutError(
                f"it did not load the model within {limit_s:g} s; serve a smaller one"
            ) from error
        with self._changed:
            self._found = found
            self._apply(ProcessEvent.READY)
        self._note_start(process.pid, time.monotonic() - began)

    def _note_start(self, pid: int, load_s: float) -> None:
        name = self._task.name
        facts = {"kind": self._task.kind, "path": name, "pid": pid, "load_s": load_s}
        log.info(logs.Event("model process started", **facts))

    def _note_end(self, cause: str, pause_s: float) -> None:
        name = self._task.name
        facts = {"kind": self._task.kind, "path": name, "cause": cause, "pause_s": pause_s}
        log.warning(logs.Event("model process ended", **facts))

    def _note_late(self, limit_s: float) -> None:
        name = self._task.name
        log.warning(logs.Event("process not closed in time", path=name, limit_s=limit_s))

    def _pause_s(self) -> float:
        return self._task.backoff.delay_s(self._failures, random.random())

    def _back_off(self, cause: str, lived_s: float) -> None:
        """Wait until the next start is due; return at once if there will be none."""
        with self._changed:
            if self._stage is ProcessStage.CLOSED:
                return
            served = self._stage is ProcessStage.SERVING
            self._failures = 1 if served and lived_s > STEADY_S else self._failures + 1
            again_at_once = served and self._failures == 1
            pause_s = 0.0 if again_at_once else self._pause_s()
            cause, self._why = self._why or cause, ""
            self._cause, self._due = cause, time.monotonic() + pause_s
            self._note_end(cause, pause_s)
            self._apply(ProcessEvent.DIED)
            if pause_s:
                self._changed.wait_for(lambda: self._stage is ProcessStage.CLOSED, pause_s)
            self._apply(ProcessEvent.DUE)


def _in_words(error: Exception) -> str:
    is_foreseen = isinstance(error, RemoteFault | TimeoutError)
    return str(error) if is_foreseen else f"{type(error).__name__}: {error}"

"""The processes: gunicorn's arbiter, and workers that each run what `app/command_line.py` builds.

The arbiter binds the ports, forks, watches and replaces workers. It imports neither the engines nor
the protocols' libraries: a worker imports them after the fork.

    signal              arbiter                              worker
    TERM, INT, QUIT     TERM to the workers, wait, exit 0    drain, exit 0 (also if sent twice)
    a second of them    QUIT, then KILL, exit 0              QUIT while draining: exit at once
    HUP                 HUP to the workers                   read the configuration again
    USR2                start a successor; when that is      drain, exit 0
                        ready, TERM (`take_over.py`)
    others              ignored

A terminal or a supervisor may send one signal to arbiter and workers alike, hence the right
column. A worker that ends before any was ready ends the server with exit code 1, unless a load has
killed it. Later a worker is replaced, after a pause that grows while replacements die young. While
they do and no worker is left, the arbiter accepts connections and closes them: otherwise clients
would wait for nothing, and a load balancer would not turn to other servers.
"""

import gc
import logging
import os
import signal
import time
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from gunicorn.arbiter import Arbiter
from gunicorn.systemd import sd_notify

from ie_serving.config.settings import Settings
from ie_serving.core.runtime.run_files import RunFile
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.hints import Hint
from ie_serving.server.process.gunicorn_server import Build, GunicornApp
from ie_serving.server.process.ports import GRPC, REST, answering, bind, files_of, remove, url_of
from ie_serving.server.process.take_over import (
    LOOK_S,
    Succession,
    cause_of,
    inherited,
    of_successor,
)
from ie_serving.server.process.tuning import need_files
from ie_serving.server.process.worker import AppWorker
from ie_serving.telemetry.log.logs import Event, reopen

log = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
LONGEST_PAUSE_S = 30.0
"""Longest wait in seconds before a worker is replaced; the wait doubles up to this while
replacements die young. Constant reloading would take the processor from the rest of the machine,
and a longer wait would keep clients waiting once the cause is gone."""
SHORT_LOOK_S = 0.005
"""Seconds between two looks for ended workers, in the first `LOOK_S` of a stop."""
MOST_TURNED_AWAY = 2048
"""Connections of one port that are closed in one go while there is no worker: as many as the kernel
queues (`listener.BACKLOG`)."""
GROWN_UP_S = 60.0
"""Seconds of life after which a worker's death counts as a first one, and its replacement starts at
once. Faults of a start or of a first request have shown by then."""


class ServerEnd(NamedTuple):
    """How the server ended.

    Attributes:
        code: exit code of the process: 0 after a clean stop, 1 when a port cannot be bound or the
            first start fails.
        cause: reason why it failed, as logged.
    """

    code: int
    cause: str = ""


def run(settings: Settings, build: Build, *, environment: MutableMapping[str, str]) -> ServerEnd:
    """Serve until a signal stops the server, or until another process has taken over.

    Args:
        settings: checked.
        build: called in each worker after the fork.
        environment: environment of this process; says whether it takes over from another.
    """
    predecessor = inherited(environment)
    try:
        need_files(settings.server.workers)
        if predecessor:
            settings = of_successor(settings)
        ports = bind(settings.server, predecessor.sockets if predecessor else ())
    except ServingError as error:
        log.error(Event("server cannot run", cause=error))
        ended = ServerEnd(1, str(error))
    else:
        ended = _serve(GunicornApp(settings, build, ports, predecessor, AppWorker), environment)
    if predecessor and ended.code:
        predecessor.told_failure(ended.cause)
    return ended


def _serve(server: GunicornApp, environment: Mapping[str, str]) -> ServerEnd:
    ports = server.ports
    if not ports:
        off = Event("both ports are off", advice="give a gRPC port or a REST port")
        log.error(off)
        return ServerEnd(1, str(off))
    if not answering(ports, REST):
        log.info(Event("REST is off", advice=Hint("{server.rest_port} 8000 turns it on")))
    note = RunFile(environment)
    note.write(*(url_of(ports, each, server.settings.server) for each in (REST, GRPC)))
    try:
        return _arbitrate(_Arbiter(server, Succession(environment)))
    finally:
        note.remove()


def pause_before(deaths: int) -> float:
    """Seconds to wait before replacing a worker when `deaths` in a row died young: 0, 1, 2, 4 .."""
    return 0.0 if deaths <= 1 else min(LONGEST_PAUSE_S, 2.0 ** min(deaths - 2, 16))


def _arbitrate(arbiter: "_Arbiter") -> ServerEnd:
    gc.freeze()  # a collection would write to the pages that each worker shares with the arbiter
    try:
        arbiter.run()
    except SystemExit as end:
        if not end.code and not arbiter.failed:
            return ServerEnd(0)
    return ServerEnd(1, arbiter.cause or arbiter.server.failure.read().decode())


class _Arbiter(Arbiter):  # type: ignore[misc]
    """gunicorn's arbiter on our sockets, with the signals and the replacement described above."""

    def __init__(self, server: GunicornApp, succession: Succession) -> None:
        super().__init__(server)
        self._succession = succession
        self.failed = False
        self.cause = ""
        self.LISTENERS = [bound for sockets in server.ports.values() for bound in sockets]
        self.server = server
        self._files = files_of(self.LISTENERS)
        self._stopping = False
        self._young_deaths = 0
        self._spawn_at = self._looked_at = time.monotonic()

    def signal(self, sig: int, frame: FrameType | None) -> None:
        """Queue a signal; a second stop signal becomes gunicorn's quick shutdown."""
        if sig in STOP_SIGNALS:
            if not self._stopping:
                self.server.stopped_by.set(sig)
            sig = signal.SIGQUIT if self._stopping else signal.SIGTERM
            self._stopping = True
        super().signal(sig, frame)

    def handle_hup(self) -> None:
        """Pass SIGHUP on: gunicorn would replace workers; ours read the configuration again."""
        self.kill_workers(signal.SIGHUP)

    def handle_usr1(self) -> None:
        """Reopen log files, here and in the workers, as gunicorn's own arbiter does."""
        reopen()
        self.kill_workers(signal.SIGUSR1)

    def _ignore(self) -> None:
        """Do nothing; the default would end the process."""

    handle_ttin = handle_ttou = handle_winch = _ignore

    def handle_usr2(self) -> None:
        """Start a successor that takes over; gunicorn's own handler would not stop this process."""
        self._succession.begin(self.LISTENERS)

    def stop(self, graceful: bool = True) -> None:
        """Stop the workers, and a successor that is not ready; a ready successor keeps running."""
        self._succession.stop()
        # Checked again: another stop signal may precede the notice that the successor is ready.
        if successor := self._succession.ready_pid():
            # systemd tracks the main process of the service by its pid.
            sd_notify(f"MAINPID={successor}", self.log)
        for bound in self.LISTENERS:
            bound.close()
        self.LISTENERS = []  # gunicorn would remove a UNIX socket that has replaced this server's
        used_by_predecessor = self.server.predecessor and not self.server.was_ready.get()
        if not (successor or used_by_predecessor):
            remove(self._files)
        super().stop(graceful)

    def kill_workers(self, sig: int) -> None:
        """Send a signal to the workers; at a stop, look for the ended ones often at first.

        gunicorn looks every 0.1 s, and the idle workers of most stops end sooner.
        """
        super().kill_workers(sig)
        deadline = time.monotonic() + LOOK_S
        while self._stopping and self.WORKERS and time.monotonic() < deadline:
            time.sleep(SHORT_LOOK_S)
            self.reap_workers()

    def wait_for_signals(self, timeout: float = 1.0) -> Any:  # noqa: ANN401 (gunicorn's)
        """Wait for signals; only briefly while a successor is starting."""
        return super().wait_for_signals(LOOK_S if self._succession.is_under_way else timeout)

    def murder_workers(self) -> None:
        """End workers that hang; gunicorn calls this every second.

        SIGABRT prints the stacks of a worker's threads. One that is stopped does not notice it.
        """
        now = time.monotonic()
        passed_s, self._looked_at = now - self._looked_at, now
        for pid, worker in list(self.WORKERS.items()):
            if not worker.is_hung(passed_s):
                continue
            if not worker.aborted:
                log.error(Event("worker hangs and is ended", pid=pid))
            self.kill_worker(pid, signal.SIGKILL if worker.aborted else signal.SIGABRT)
            worker.aborted = True

    def manage_workers(self) -> None:
        """Start missing workers, unless the pause before a replacement is not over."""
        if self._succession.ready_pid():
            self._leave()
        # gunicorn calls this every second. Sleeping until `_spawn_at` would delay its signals.
        if time.monotonic() >= self._spawn_at:
            super().manage_workers()
        if self._young_deaths > 1 and not self._is_answering():
            self._turn_away()

    def _is_answering(self) -> bool:
        """Whether a worker accepts connections, or a successor soon will."""
        crew = self.server.crew
        taking = crew.has_accepting if crew else bool(self.WORKERS)
        return taking or self._succession.is_under_way

    def _turn_away(self) -> None:
        """Close waiting connections, which no worker accepts soon; balancers have other servers."""
        for bound in self.LISTENERS:
            with suppress(OSError):  # the queue is empty; or no worker has listened yet
                for _ in range(MOST_TURNED_AWAY):
                    bound.accept()[0].close()

    def _leave(self) -> NoReturn:
        self.server.stopped_by.set(signal.SIGUSR2)
        self._stopping = True
        raise StopIteration

    def spawn_worker(self) -> Any:  # noqa: ANN401 (gunicorn's)
        """Fork a worker; return its pid."""
        self.server.slots_taken = {worker.slot for worker in self.WORKERS.values()}
        return super().spawn_worker()

    def reap_workers(self) -> None:
        """Collect ended children: workers, and as process 1 also adopted orphans."""
        while (ended := ended_child()) is not None:
            pid, code = ended
            worker = self.WORKERS.pop(pid, None)
            if worker is None:
                self._succession.note_end(pid, code)
                continue
            worker.tmp.close()
            lost = self.server.deadly_loads.add(worker.loads.read(), signal=max(0, -code))
            worker.loads.close()
            if self.server.crew:
                self.server.crew.left(worker.slot)
            if not self._stopping:
                self._replace(pid, code, lost, worker.born)

    def _replace(self, pid: int, code: int, lost: Sequence[str], born: float) -> None:
        """Let a new worker start, or end the server if no worker was ever ready.

        A worker that died of a load is always replaced: the next one starts without that version.
        """
        if not self.server.was_ready.get():
            if not lost:
                self._fail(pid, code)
            self.server.forget()  # the next start counts as the first one
        if lost:
            loads = ",".join(lost)
            log.error(Event("worker died while versions were loading", pid=pid, loads=loads))
        now = time.monotonic()
        self._young_deaths = 1 if now - born > GROWN_UP_S else self._young_deaths + 1
        pause = pause_before(self._young_deaths)
        self._spawn_at = now + pause
        ended = Event("worker ended and is replaced", pid=pid, cause=cause_of(code), pause_s=pause)
        log.error(ended)

    def _fail(self, pid: int, code: int) -> NoReturn:
        self.failed = self._stopping = True
        if code < 0:
            died = Event("worker died before it was ready", pid=pid, cause=cause_of(code))
            self.cause = str(died)
            log.error(died)
        raise StopIteration


def ended_child() -> tuple[int, int] | None:
    """Give process id and status of one child that has ended; None if none has."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, os.waitstatus_to_exitcode(status)) if pid else None

"""The processes: gunicorn's arbiter, and workers that each run what `main.py` builds.

The arbiter binds the ports, forks, watches and replaces workers, and imports neither the models'
engine nor the protocols' libraries: those come into a worker after the fork.

    signal              arbiter                              worker
    TERM, INT, QUIT     TERM to the workers, wait, exit 0    drain, exit 0 (told twice: still once)
    a second of them    QUIT, then KILL, exit 0              QUIT while draining: exit at once
    HUP                 HUP to the workers                   read the configuration again
    USR2                start a successor; when that is      drain, exit 0
                        ready, TERM (`take_over.py`)
    others              ignored

A terminal or a supervisor may send one signal to arbiter and workers alike, hence the right
column. A worker that ends before any was ready ends the server with exit code 1, unless a load has
killed it; afterwards it is replaced, after a pause that grows while replacements die young.
"""

import asyncio
import faulthandler
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.systemd import sd_notify
from gunicorn.workers.base import Worker

from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.core.errors import ServingError
from ie_serving.core.hints import Hint
from ie_serving.core.share import SHARE
from ie_serving.server.process.deadly_loads import DeadlyLoads, LoadNotes
from ie_serving.server.process.handover import Handover, Handovers
from ie_serving.server.process.lifecycle import CLOSE_TIMEOUT_S, Application, Orders, serve
from ie_serving.server.process.memory_limit import budget_of
from ie_serving.server.process.ports import REST, Ports, answering, bind
from ie_serving.server.process.shared import Shared
from ie_serving.server.process.take_over import (
    LOOK_S,
    Predecessor,
    Succession,
    inherited,
    succeeding,
)
from ie_serving.server.process.tuning import lasting_objects, tune
from ie_serving.server.workers.crew import Crew
from ie_serving.server.workers.ledger import Answering, Ledger
from ie_serving.server.workers.member import Member
from ie_serving.telemetry.logs import Event
from ie_serving.telemetry.reopen import reopen

log = logging.getLogger(__name__)

Build = Callable[[Settings, Handovers, LoadNotes, Member | None], Application]
"""Builds the application; called in each worker, where it imports what is heavy. What an earlier
worker has left for it is in the handovers and in the notes; the last is its part among several
workers, None where it is the only one."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
HEARTBEAT_S = 1.0
"""Seconds between two signs of life of a worker; also how late it may notice that the arbiter is
gone. Far below `HUNG_AFTER_S`, and rare enough to cost nothing."""
HUNG_AFTER_S = 120
"""Seconds for which a worker's event loop may stand still; then the worker is replaced, and its
requests are lost. Loading runs in threads and does not hold the loop, so only a defect lasts so
long."""
PR_SET_PDEATHSIG = 1
"""Source: Linux's `prctl.h`."""
LONGEST_PAUSE_S = 30.0
"""Longest wait in seconds before a worker is replaced. While replacements die young the wait
doubles up to this: loading again and again would take the processor from the rest of the machine,
and a longer wait would keep clients waiting once the cause is gone."""
GROWN_UP_S = 60.0
"""Seconds of life after which a worker's death counts as the first one again, and its replacement
starts at once. What a start or a first request breaks has shown itself by then."""


ARBITER_ENDED = "its arbiter has ended"
"""Why a worker stops that nobody has told to."""


class Ended(NamedTuple):
    """How the server ended.

    Attributes:
        code: exit code of the process: 0 after a clean stop, 1 when a port is not to be had or the
            first start fails.
        cause: why it failed, as the log has it.
    """

    code: int
    cause: str = ""


def run(
    settings: Settings,
    build: Build,
    *,
    environment: MutableMapping[str, str],
) -> Ended:
    """Serve until told to stop, or until another process has taken over.

    Args:
        settings: checked.
        build: called in each worker after the fork.
        environment: of this process, which says whether it takes over from another.
    """
    predecessor = inherited(environment)
    try:
        if predecessor:
            settings = succeeding(settings)
        ports = bind(settings.server, predecessor.sockets if predecessor else ())
    except ServingError as error:
        log.error(error)
        ended = Ended(1, str(error))
    else:
        ended = _serve(_Server(settings, build, ports, predecessor), environment)
    if predecessor and ended.code:
        predecessor.told_failure(ended.cause)
    return ended


def _serve(server: "_Server", environment: Mapping[str, str]) -> Ended:
    ports = server.ports
    if not ports:
        off = Event("both ports are off", advice="give a gRPC port or a REST port")
        log.error(off)
        return Ended(1, str(off))
    if not answering(ports, REST):
        log.info(Event("REST is off", advice=Hint("{server.rest_port} 8000 turns it on")))
    return _arbitrate(_Arbiter(server, Succession(environment)))


def pause_before(deaths: int) -> float:
    """Seconds to wait before replacing a worker when `deaths` in a row died young: 0, 1, 2, 4 .."""
    return 0.0 if deaths <= 1 else min(LONGEST_PAUSE_S, 2.0 ** min(deaths - 2, 16))


def _arbitrate(arbiter: "_Arbiter") -> Ended:
    gc.freeze()  # a collection would write to the pages that each worker shares with the arbiter
    try:
        arbiter.run()
    except SystemExit as end:
        if not end.code and not arbiter.failed:
            return Ended(0)
    return Ended(1, arbiter.cause or arbiter.server.failure.read().decode())


class _Server(BaseApplication):  # type: ignore[misc]
    """gunicorn's configuration, from our settings alone: no file, no GUNICORN_CMD_ARGS."""

    def __init__(
        self,
        settings: Settings,
        build: Build,
        ports: Ports,
        predecessor: Predecessor | None,
    ) -> None:
        self.predecessor = predecessor
        self.settings = settings
        self.build = build
        self.ports = ports
        workers = settings.server.workers
        self.crew = Crew(workers, Handover) if workers > 1 else None
        self.was_ready = Shared()
        self.stopped_by = Shared()  # number of the signal that the arbiter got first
        self.handovers = Handovers(Handover(), Handover())
        self.failure = Handover()
        self.deadly_loads = DeadlyLoads()
        self.slots_taken: set[int] = set()
        super().__init__()

    def free_slot(self) -> int:
        """Give the slot of the next worker: of several, the one that none has."""
        return self.crew.free_slot(self.slots_taken) if self.crew else 0

    def handovers_of(self, slot: int) -> Handovers:
        """Give what the worker of a slot begins with and leaves."""
        if self.crew is None:
            return self.handovers
        ledger = Ledger(self.crew, slot, is_first=not self.was_ready.get())
        return Handovers(ledger, Answering(self.crew, slot))

    def forget(self) -> None:
        """Forget what workers have left."""
        self.handovers.clear()
        if self.crew:
            self.crew.forget()

    def load_config(self) -> None:
        """Give gunicorn what it shall do. It raises for a value that it does not take."""
        for name, value in _configuration(self.settings.server).items():
            self.cfg.set(name, value)

    def load(self) -> None:
        """Nothing to load before the worker's loop runs."""


def _longest_stop_s(server: ServerSettings) -> int:
    """Seconds after which the arbiter kills a worker that was told to stop.

    It begins to count before the worker has heard of it, hence a second more.
    """
    return int(server.drain_delay_s + server.drain_timeout_s + 2 * CLOSE_TIMEOUT_S + 1)


def _configuration(server: ServerSettings) -> dict[str, Any]:
    return {
        "proc_name": "ie_serving",
        "workers": server.workers,
        "worker_class": _Worker,
        "logger_class": _Logger,
        "timeout": HUNG_AFTER_S,
        "graceful_timeout": _longest_stop_s(server),
        # A heartbeat changes a file's time, which on a busy disk may take seconds.
        "worker_tmp_dir": "/dev/shm" if os.access("/dev/shm", os.W_OK) else None,
        # Signals say all that there is to say, and a socket would be one more way in.
        "control_socket_disable": True,
    }


class _Logger(Logger):  # type: ignore[misc]
    """gunicorn's own lines: warnings and errors, through our handlers."""

    def setup(self, cfg: object) -> None:
        """Set up gunicorn's log of errors; one of accesses is not kept."""
        # At INFO it tells of its start and its workers, which `lifecycle.py` says in our words.
        self.error_log.propagate = True
        self.error_log.setLevel(logging.WARNING)


class _Arbiter(Arbiter):  # type: ignore[misc]
    """gunicorn's arbiter on our sockets, with the signals and the replacement described above."""

    def __init__(self, server: _Server, succession: Succession) -> None:
        super().__init__(server)
        self._succession = succession
        self.failed = False
        self.cause = ""
        self.LISTENERS = [bound for sockets in server.ports.values() for bound in sockets]
        self.server = server
        self._stopping = False
        self._young_deaths = 0
        self._spawn_at = time.monotonic()

    def signal(self, sig: int, frame: FrameType | None) -> None:
        """Queue a signal; a second one to stop becomes gunicorn's quick shutdown."""
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
        """Open log files anew, here and in the workers, as gunicorn's own arbiter does."""
        reopen()
        self.kill_workers(signal.SIGUSR1)

    def _ignore(self) -> None:
        """Do nothing, where the default would end the process."""

    handle_ttin = handle_ttou = handle_winch = _ignore

    def handle_usr2(self) -> None:
        """Have another process take over: gunicorn's own would leave it to others to stop this."""
        self._succession.begin(self.LISTENERS)

    def stop(self, graceful: bool = True) -> None:
        """Stop the workers, and whoever was to take over."""
        self._succession.give_up()
        if self.server.predecessor and not self.server.was_ready.get():
            self.reexec_pid = os.getppid()  # the paths of UNIX sockets are its predecessor's still
        super().stop(graceful)

    def wait_for_signals(self, timeout: float = 1.0) -> Any:  # noqa: ANN401 (gunicorn's)
        """Wait for signals; not for long where another process is about to take over."""
        return super().wait_for_signals(LOOK_S if self._succession.is_under_way else timeout)

    def manage_workers(self) -> None:
        """Start workers that are missing, unless the pause before a replacement lasts."""
        if successor := self._succession.ready_pid():
            self._leave_to(successor)
        # gunicorn calls this every second. To sleep until `_spawn_at` would delay its signals.
        if time.monotonic() >= self._spawn_at:
            super().manage_workers()

    def _leave_to(self, successor: int) -> NoReturn:
        self.reexec_pid = successor  # gunicorn then leaves the paths of UNIX sockets
        # systemd follows the process that it knows as the service's.
        sd_notify(f"MAINPID={successor}", self.log)
        self.server.stopped_by.set(signal.SIGUSR2)
        self._stopping = True
        raise StopIteration

    def spawn_worker(self) -> Any:  # noqa: ANN401 (gunicorn's)
        """Fork a worker; give its pid."""
        self.server.slots_taken = {worker.slot for worker in self.WORKERS.values()}
        return super().spawn_worker()

    def reap_workers(self) -> None:
        """Collect ended children: workers, and as process 1 also orphans of others."""
        while (ended := _ended_child()) is not None:
            pid, code = ended
            worker = self.WORKERS.pop(pid, None)
            if worker is None:
                self._succession.note_end(pid, code)
                continue
            worker.tmp.close()
            lost = self.server.deadly_loads.add(worker.loads.read(), killed=code < 0)
            worker.loads.close()
            if self.server.crew:
                self.server.crew.left(worker.slot)
            if not self._stopping:
                self._replace(pid, code, lost, worker.born)

    def _replace(self, pid: int, code: int, lost: Sequence[str], born: float) -> None:
        """Let a new worker start, or end the server when none was ever ready.

        One that died of a load is replaced in any case: without that version the next one starts.
        """
        if not self.server.was_ready.get():
            if not lost:
                self._fail(pid, code)
            self.server.forget()  # the next start is still the first one
        if lost:
            loads = ",".join(lost)
            log.error(Event("worker died while versions were loading", pid=pid, loads=loads))
        now = time.monotonic()
        self._young_deaths = 1 if now - born > GROWN_UP_S else self._young_deaths + 1
        pause = pause_before(self._young_deaths)
        self._spawn_at = now + pause
        log.error(Event("worker ended and is replaced", pid=pid, cause=_cause(code), pause_s=pause))

    def _fail(self, pid: int, code: int) -> NoReturn:
        self.failed = self._stopping = True
        if code < 0:
            died = Event("worker died before it was ready", pid=pid, cause=_cause(code))
            self.cause = str(died)
            log.error(died)
        raise StopIteration


def _ended_child() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, os.waitstatus_to_exitcode(status)) if pid else None


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"{name}, perhaps out of memory" if -code == signal.SIGKILL else name


class _Worker(Worker):  # type: ignore[misc]
    """Runs the application on one event loop."""

    app: _Server

    def __init__(self, *of_gunicorn: Any) -> None:  # noqa: ANN401 (gunicorn's)
        """Runs in the arbiter, before the fork, so that both have what the worker leaves."""
        super().__init__(*of_gunicorn)
        self.loads = Handover()
        self.slot = self.app.free_slot()
        self.born = time.monotonic()  # whether its death is a young one is counted from here

    def init_signals(self) -> None:
        """Drop the arbiter's handlers; the loop installs this worker's own."""
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        faulthandler.enable()
        _stop_with_parent()

    def run(self) -> None:
        """Serve, then end the process without waiting for threads: a compile can't be cancelled."""
        code = self._run_loop()
        # What Python would do at its end, save for waiting for threads.
        logging.shutdown()
        os._exit(code)

    def _run_loop(self) -> int:
        try:
            _new_loop().run_until_complete(self._serve())
        except ServingError as error:
            log.error(error)
            self._leave_cause(str(error))
            return 1
        except Exception as error:
            log.exception(Event("server failed by a defect"))
            self._leave_cause(f"{type(error).__name__}: {error}")
            return 1
        return 0

    # To the arbiter, which outlives this process and is to say it last.
    def _leave_cause(self, cause: str) -> None:
        with suppress(OSError):  # without memory for it; the log has it
            self.app.failure.write(cause.encode(errors="replace"))

    async def _serve(self) -> None:
        orders = Orders()
        self._listen_to_signals(orders)
        beats = asyncio.create_task(self._beat(orders))
        server = self.app
        workers = server.settings.server.workers
        SHARE.workers = workers
        tune(budget_of(server.settings.server.memory_budget_bytes) // workers)
        notes = LoadNotes(server.deadly_loads.deaths, self.loads.write)
        with lasting_objects():
            # Here, not above: the arbiter does without numpy.
            from ie_serving.server.process.garbage import collect_garbage, collect_on_request
            from ie_serving.server.process.give_back import give_back

            collect_on_request()
            member = Member(server.crew, self.slot) if server.crew else None
            handovers = server.handovers_of(self.slot)
            application = server.build(server.settings, handovers, notes, member)
        tidying = [asyncio.create_task(each()) for each in (collect_garbage, give_back)]
        await serve(application, server.settings.server, server.ports, orders, self._be_ready)
        beats.cancel()
        for each in tidying:
            each.cancel()

    def _be_ready(self) -> None:
        self.app.was_ready.set()
        if self.app.predecessor:
            self.app.predecessor.told_ready()

    def _listen_to_signals(self, orders: Orders) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, orders, number)
        loop.add_signal_handler(signal.SIGQUIT, self._stop_or_end, orders)
        loop.add_signal_handler(signal.SIGHUP, orders.reload.set)
        loop.add_signal_handler(signal.SIGUSR1, reopen)

    def _stop(self, orders: Orders, number: int) -> None:
        # What the arbiter was told, it passes on as SIGTERM; and the kernel sends that when the
        # arbiter has ended.
        told = signal.Signals(self.app.stopped_by.get() or number).name
        orders.replaced = told == signal.SIGUSR2.name
        orders.stop_for(told if os.getppid() == self.ppid else ARBITER_ENDED)

    def _stop_or_end(self, orders: Orders) -> None:
        if orders.stop.is_set():
            log.warning(Event("stopped at once, requests in flight were not answered"))
            logging.shutdown()
            os._exit(0)
        self._stop(orders, signal.SIGQUIT)

    async def _beat(self, orders: Orders) -> None:
        """Show the arbiter that the loop turns, and stop when the arbiter is gone."""
        while True:
            self.notify()
            if os.getppid() != self.ppid:
                orders.stop_for(ARBITER_ENDED)
            await asyncio.sleep(HEARTBEAT_S)


def _new_loop() -> asyncio.AbstractEventLoop:
    import uvloop  # here, not above: the arbiter does without it

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop


def _stop_with_parent() -> None:
    """Have the kernel send SIGTERM when the arbiter dies.

    An arbiter that is killed cannot tell its workers. Until `_beat` notices, they would keep the
    ports from the next server.
    """
    if sys.platform == "linux":
        import ctypes  # here, not above: the arbiter does without it

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

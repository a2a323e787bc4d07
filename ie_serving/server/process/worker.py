"""One worker process: its signals, its heartbeat, and the event loop that serves."""

import asyncio
import faulthandler
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, NoReturn

from gunicorn.workers.base import Worker

from ie_serving.core.runtime.handover import Handover
from ie_serving.core.runtime.installation_faults import explained
from ie_serving.core.runtime.machine_share import SHARE, budget_of
from ie_serving.core.runtime.scratch import remove_all
from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.core.values.errors import ServingError
from ie_serving.server.process.deadly_loads import LoadNotes, under_way
from ie_serving.server.process.gunicorn_server import GunicornApp
from ie_serving.server.process.lifecycle import Orders, serve
from ie_serving.server.process.tuning import lasting_objects, tune
from ie_serving.telemetry.log.logs import Event, reopen

log = logging.getLogger(__name__)

HEARTBEAT_S = 1.0
"""Seconds between two heartbeats of a worker, and between its checks that the arbiter lives. Rare
enough to cost nothing."""
PR_SET_PDEATHSIG = 1
"""Source: Linux's `prctl.h`."""
ARBITER_ENDED = "its arbiter has ended"
"""Cause of a stop that no signal has ordered."""


class AppWorker(Worker):  # type: ignore[misc]
    """Runs the application on one event loop."""

    app: GunicornApp

    def __init__(self, *of_gunicorn: Any) -> None:  # noqa: ANN401 (gunicorn's)
        """Runs in the arbiter, before the fork, so that both have the worker's handovers."""
        super().__init__(*of_gunicorn)
        self.loads = Handover()
        self.slot = self.app.free_slot()
        self.born = time.monotonic()  # a death counts as young by the time since here
        self._silence = Silence(self.tmp.last_update())

    def is_hung(self, passed_s: float) -> bool:
        """Return whether the event loop is silent for too long. Called in the arbiter.

        Args:
            passed_s: seconds since the call before.
        """
        silent_s = self._silence.after(self.tmp.last_update(), passed_s)
        limit_s = self.app.settings.server.worker_timeout_s
        if not 0 < limit_s < silent_s:
            return False
        return silent_s > LOADING_S or not under_way(self.loads.read())

    def init_signals(self) -> None:
        """Remove the arbiter's handlers; the loop installs this worker's own."""
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        faulthandler.enable()
        _stop_with_parent()

    def run(self) -> None:
        """Serve, then end the process without waiting for threads: a compile can't be cancelled."""
        _end(self._run_loop())

    def _run_loop(self) -> int:
        try:
            _new_loop().run_until_complete(self._serve())
        except ServingError as error:
            log.error(Event("server cannot run", cause=error))
            self._leave_cause(str(error))
            return 1
        except Exception as error:
            self._leave_cause(_logged(error))
            return 1
        return 0

    # The cause goes to the arbiter, which outlives this process and logs the cause last.
    def _leave_cause(self, cause: str) -> None:
        with suppress(OSError):  # memory may be full; the log has the cause
            self.app.failure.write(cause.encode(errors="replace"))

    async def _serve(self) -> None:
        asyncio.get_running_loop().set_exception_handler(_log_failure)
        orders = Orders()
        self._listen_to_signals(orders)
        beats = asyncio.create_task(self._beat(orders))
        server = self.app
        workers = server.settings.server.workers
        SHARE.workers = workers
        SPARE_CPU.choose(self.slot, workers)
        tune(budget_of(server.settings.server.memory_budget_bytes) // workers)
        notes = LoadNotes(server.deadly_loads.deaths, self.loads.write)
        with lasting_objects():
            # Imported on first use: the arbiter does not need numpy.
            from ie_serving.server.process.garbage import (
                FullCollection,
                collect_garbage,
                collect_on_request,
                give_back,
            )

            collect_on_request()
            handovers = server.handovers_of(self.slot)
            application = server.build(server.settings, handovers, notes)
        collection = FullCollection()
        tidies = collect_garbage(collect=collection), give_back()
        tidying = [asyncio.create_task(each) for each in tidies]
        be_ready = partial(self._be_ready, collection.exempt_start)
        await serve(application, server.settings.server, server.ports, orders, be_ready)
        beats.cancel()
        for each in tidying:
            each.cancel()

    def _be_ready(self, exempt_start: Callable[[], None]) -> None:
        exempt_start()
        SPARE_CPU.open()
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
        # The arbiter passes its stop signal on as SIGTERM; the kernel, too, sends SIGTERM when the
        # arbiter has ended.
        told = signal.Signals(self.app.stopped_by.get() or number).name
        orders.replaced = told == signal.SIGUSR2.name
        orders.stop_for(told if os.getppid() == self.ppid else ARBITER_ENDED)

    def _stop_or_end(self, orders: Orders) -> None:
        if orders.stop.is_set():
            log.warning(Event("stopped at once, requests in flight were not answered"))
            _end(0)
        self._stop(orders, signal.SIGQUIT)

    async def _beat(self, orders: Orders) -> None:
        """Send heartbeats while the loop runs, and stop when the arbiter has ended."""
        while True:
            self.notify()
            if os.getppid() != self.ppid:
                orders.stop_for(ARBITER_ENDED)
            await asyncio.sleep(HEARTBEAT_S)


def _logged(error: Exception) -> str:
    """Log why the server cannot run; return it."""
    if cause := explained(error):
        log.error(Event("server cannot run", cause=cause))
        log.debug(Event("server failed"), exc_info=error)
        return cause
    log.error(Event("server failed by a defect"), exc_info=error)
    return f"{type(error).__name__}: {error}"


def _log_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what fails on the event loop outside of a request: a task, a callback, a transport."""
    where = context.get("task") or context.get("future") or context.get("handle")
    told = {"cause": context["message"], "where": str(where)}
    log.error(Event("event loop failed by a defect", **told), exc_info=context.get("exception"))


def _end(code: int) -> NoReturn:
    """Do what Python does at its exit, except waiting for threads."""
    remove_all()
    with suppress(OSError, ValueError):  # output printed by users' code
        sys.stdout.flush()
    logging.shutdown()
    os._exit(code)


def _new_loop() -> asyncio.AbstractEventLoop:
    import uvloop  # on first use: the arbiter does not need it

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop


def _stop_with_parent() -> None:
    """Make the kernel send SIGTERM to this process when the arbiter dies.

    A killed arbiter cannot stop its workers, which would keep the ports from the next server until
    `_beat` notices.
    """
    if sys.platform == "linux":
        import ctypes  # on first use: the arbiter does not need it

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


LOADING_S: Final = 120.0
"""Seconds of silence that a worker is allowed at least while it loads a version: reading a large
pickle holds the interpreter's lock, and with it the event loop."""
LONGEST_LOOK_S: Final = 2.0
"""Seconds that one look of the arbiter counts at most. It looks each second, unless the whole
server is suspended, as in a paused container, and then its workers are silent without a fault."""


class Silence:
    """Counts the seconds since a worker's last heartbeat.

    Args of the constructor:
        unbeaten: time that stands for no heartbeat yet: a start is not silent, however long it
            takes.
    """

    def __init__(self, unbeaten: float) -> None:
        self._unbeaten = self._beat = unbeaten
        self._lasts_s = 0.0

    def after(self, beat: float, passed_s: float) -> float:
        """Return the seconds of silence.

        Args:
            beat: time of the last heartbeat, by any clock.
            passed_s: seconds since the look before.
        """
        if beat == self._unbeaten or beat != self._beat:
            self._beat, self._lasts_s = beat, 0.0
        else:
            self._lasts_s += min(passed_s, LONGEST_LOOK_S)
        return self._lasts_s

"""State that arbiter and workers share, and gunicorn's configuration, made from our settings."""

import logging
import mmap
import os
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger
from gunicorn.workers.base import Worker

from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.core.runtime.handover import Handover, Handovers
from ie_serving.server.process.deadly_loads import DeadlyLoads, LoadNotes
from ie_serving.server.process.lifecycle import CLOSE_TIMEOUT_S, Application
from ie_serving.server.process.ports import PortSockets
from ie_serving.server.process.take_over import Predecessor

if TYPE_CHECKING:  # a single worker shares nothing with others
    from ie_serving.server.workers.crew import Crew

Build = Callable[[Settings, Handovers, LoadNotes], Application]
"""Builds the application; called in each worker, where it imports the heavy modules. The handovers
and the notes hold what an earlier worker has left."""


class GunicornApp(BaseApplication):  # type: ignore[misc]
    """gunicorn's configuration, from our settings alone: no file, no GUNICORN_CMD_ARGS."""

    def __init__(
        self,
        settings: Settings,
        build: Build,
        ports: PortSockets,
        predecessor: Predecessor | None,
        worker_class: type[Worker],
    ) -> None:
        self.predecessor = predecessor
        self._worker_class = worker_class
        self.settings = settings
        self.build = build
        self.ports = ports
        workers = settings.server.workers
        self.crew = _crew_of(workers)
        self.was_ready = SharedNumber()
        self.stopped_by = SharedNumber()  # number of the signal that the arbiter received first
        self.handovers = Handovers(*(Handover() for _ in Handovers._fields))
        self.gates = [(Handover(), Handover()) for _ in range(workers if self.crew else 0)]
        self.failure = Handover()
        self.deadly_loads = DeadlyLoads()
        self.slots_taken: set[int] = set()
        super().__init__()

    def free_slot(self) -> int:
        """Return the slot of the next worker: with several workers, a free one."""
        return self.crew.free_slot(self.slots_taken) if self.crew else 0

    def handovers_of(self, slot: int) -> Handovers:
        """Return the handovers of a slot: read at the start of its worker, then written by it."""
        if self.crew is None:
            return self.handovers
        from ie_serving.server.workers.crew import AnsweringVersions, Ledger

        ledger = Ledger(self.crew, slot, is_first=not self.was_ready.get())
        return Handovers(ledger, AnsweringVersions(self.crew, slot), *self.gates[slot])

    def forget(self) -> None:
        """Forget what workers have left."""
        self.handovers.clear()
        if self.crew:
            self.crew.forget()
        for each in chain.from_iterable(self.gates):
            each.clear()

    def load_config(self) -> None:
        """Pass the settings to gunicorn, which raises for a value that it does not accept."""
        for name, value in _configuration(self.settings.server, self._worker_class).items():
            self.cfg.set(name, value)

    def load(self) -> None:
        """Do nothing: there is nothing to load before the worker's loop runs."""


def _crew_of(workers: int) -> "Crew | None":
    if workers == 1:
        return None
    from ie_serving.server.workers.crew import Crew

    return Crew(workers, Handover)


def _longest_stop_s(server: ServerSettings) -> int:
    """Seconds after which the arbiter kills a worker that it has asked to stop.

    The arbiter counts from before the worker gets its signal, hence one second more.
    """
    return int(server.drain_delay_s + server.drain_timeout_s + 2 * CLOSE_TIMEOUT_S + 1)


def _configuration(server: ServerSettings, worker_class: type[Worker]) -> dict[str, Any]:
    return {
        "proc_name": "ie_serving",
        "workers": server.workers,
        "worker_class": worker_class,
        "logger_class": _Logger,
        "graceful_timeout": _longest_stop_s(server),
        # A heartbeat changes the time of a file, which on a busy disk may take seconds.
        "worker_tmp_dir": "/dev/shm" if os.access("/dev/shm", os.W_OK) else None,
        # Signals do all that a control socket would, and the socket would be a further way in.
        "control_socket_disable": True,
    }


class _Logger(Logger):  # type: ignore[misc]
    """gunicorn's own log lines: warnings and errors, through our handlers."""

    def setup(self, cfg: object) -> None:
        """Set up gunicorn's error log; its access log stays off."""
        # `lifecycle.py` itself logs the start and the workers, as gunicorn does at INFO.
        self.error_log.propagate = True
        self.error_log.setLevel(logging.WARNING)


class SharedNumber:
    """A number below 256, at first 0, in one page of memory."""

    def __init__(self) -> None:
        # Anonymous and shared, so a process that forks later has the same page, not a copy.
        self._page = mmap.mmap(-1, 1)

    def set(self, number: int = 1) -> None:
        """Set it, for every process that shares it."""
        self._page[0] = number

    def get(self) -> int:
        """Return the number that a process has set last."""
        # One byte is read and written whole, so no lock is needed between processes.
        return self._page[0]

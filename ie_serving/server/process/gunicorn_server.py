"""What arbiter and workers share, and gunicorn's configuration, which is made of our settings."""

import logging
import os
from collections.abc import Callable
from itertools import chain
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger
from gunicorn.workers.base import Worker

from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.server.process.deadly_loads import DeadlyLoads, LoadNotes
from ie_serving.server.process.handover import Handover, Handovers
from ie_serving.server.process.lifecycle import CLOSE_TIMEOUT_S, Application
from ie_serving.server.process.ports import Ports
from ie_serving.server.process.shared import Shared
from ie_serving.server.process.take_over import Predecessor
from ie_serving.server.workers.crew import Crew
from ie_serving.server.workers.ledger import Answering, Ledger
from ie_serving.server.workers.member import Member

Build = Callable[[Settings, Handovers, LoadNotes, Member | None], Application]
"""Builds the application; called in each worker, where it imports what is heavy. What an earlier
worker has left for it is in the handovers and in the notes; the last is its part among several
workers, None where it is the only one."""

HUNG_AFTER_S = 120
"""Seconds for which a worker's event loop may stand still; then the worker is replaced, and its
requests are lost. Loading runs in threads and does not hold the loop, so only a defect lasts so
long."""


class Server(BaseApplication):  # type: ignore[misc]
    """gunicorn's configuration, from our settings alone: no file, no GUNICORN_CMD_ARGS."""

    def __init__(
        self,
        settings: Settings,
        build: Build,
        ports: Ports,
        predecessor: Predecessor | None,
        worker_class: type[Worker],
    ) -> None:
        self.predecessor = predecessor
        self._worker_class = worker_class
        self.settings = settings
        self.build = build
        self.ports = ports
        workers = settings.server.workers
        self.crew = Crew(workers, Handover) if workers > 1 else None
        self.was_ready = Shared()
        self.stopped_by = Shared()  # number of the signal that the arbiter got first
        self.handovers = Handovers(*(Handover() for _ in Handovers._fields))
        self.gates = [(Handover(), Handover()) for _ in range(workers if self.crew else 0)]
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
        return Handovers(ledger, Answering(self.crew, slot), *self.gates[slot])

    def forget(self) -> None:
        """Forget what workers have left."""
        self.handovers.clear()
        if self.crew:
            self.crew.forget()
        for each in chain.from_iterable(self.gates):
            each.clear()

    def load_config(self) -> None:
        """Give gunicorn what it shall do. It raises for a value that it does not take."""
        for name, value in _configuration(self.settings.server, self._worker_class).items():
            self.cfg.set(name, value)

    def load(self) -> None:
        """Nothing to load before the worker's loop runs."""


def _longest_stop_s(server: ServerSettings) -> int:
    """Seconds after which the arbiter kills a worker that was told to stop.

    It begins to count before the worker has heard of it, hence a second more.
    """
    return int(server.drain_delay_s + server.drain_timeout_s + 2 * CLOSE_TIMEOUT_S + 1)


def _configuration(server: ServerSettings, worker_class: type[Worker]) -> dict[str, Any]:
    return {
        "proc_name": "ie_serving",
        "workers": server.workers,
        "worker_class": worker_class,
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

"""How long one request holds a server's event loop, and how long the loop waits for other threads.

While a request is worked on, health is asked for again and again over one connection, or what a
test says. What counts is the processor time that the loop's thread takes from a question to its
answer, and what is left of the clock's time: how busy the machine is says nothing about the server.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.functional.servers import PLAIN, Server
from tests.process import PATIENCE_S

MOST_HELD_S = 0.05
PAUSE_S = 0.001
"""Seconds between two questions, so that the loop is not busy with them alone."""


class Spent(NamedTuple):
    """Seconds that a thread has run, and that it was ready to run and had no processor."""

    ran: float
    delayed: float

    @classmethod
    def of(cls, schedstat: Path) -> "Spent":
        ran, delayed, _ = schedstat.read_text().split()
        return cls(int(ran) / 1e9, int(delayed) / 1e9)


class LoopTime:
    """Asks for health while the block runs, once at least.

    Args of the constructor:
        server: what is asked.
        ask: asked instead of for health.

    Attributes:
        longest_s: the most processor time of the loop's thread between a question and its answer.
        waited_s: the most that it waited meanwhile for something else than a processor: for
            another thread that has the interpreter.
        slowest_s: the longest that an answer took, by the clock.
    """

    def __init__(self, server: Server, ask: Callable[[], object] | None = None) -> None:
        worker = server.pids()[1]
        self._loop = Path(f"/proc/{worker}/task/{worker}/schedstat")  # the loop is its main thread
        self._own = Path("/proc/thread-self/schedstat")
        self._client = httpx.Client(
            base_url=server.url, timeout=PATIENCE_S, trust_env=False, verify=PLAIN
        )
        self._ask = ask or (lambda: self._client.get("/v2/health/live"))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.longest_s = self.waited_s = self.slowest_s = 0.0

    def __enter__(self) -> "LoopTime":
        self._ask()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._client.close()

    def _spent(self) -> tuple[float, Spent, Spent]:
        return time.monotonic(), Spent.of(self._own), Spent.of(self._loop)

    def _look(self) -> None:
        is_over = False
        while not is_over:
            began, own_before, loop_before = self._spent()
            self._ask()
            ended, own, loop = self._spent()
            took, held = ended - began, loop.ran - loop_before.ran
            at_work = held + loop.delayed - loop_before.delayed + sum(own) - sum(own_before)
            self.longest_s = max(self.longest_s, held)
            self.waited_s = max(self.waited_s, took - at_work)
            self.slowest_s = max(self.slowest_s, took)
            is_over = self._over.wait(PAUSE_S)

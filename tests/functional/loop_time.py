"""How long one request holds a server's event loop.

While a request is worked on, health is asked for again and again over one connection. It counts
the processor time that the loop's thread takes from a question to its answer, not the clock's:
how busy the machine is says nothing about the server.
"""

import threading
import time
from pathlib import Path

import httpx

from tests.functional.servers import Server
from tests.process import PATIENCE_S

MOST_HELD_S = 0.05
PAUSE_S = 0.001
"""Seconds between two questions, so that the loop is not busy with them alone."""


class LoopTime:
    """Asks for health while the block runs.

    Attributes:
        longest_s: the most processor time of the loop's thread between a question and its answer.
        slowest_s: the longest that an answer took, by the clock.
        asked: how many questions were answered.
    """

    def __init__(self, server: Server) -> None:
        worker = server.pids()[1]
        self._spent = Path(f"/proc/{worker}/task/{worker}/schedstat")  # the loop is its main thread
        self._client = httpx.Client(base_url=server.url, timeout=PATIENCE_S, trust_env=False)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.longest_s = self.slowest_s = 0.0
        self.asked = 0

    def __enter__(self) -> "LoopTime":
        self._client.get("/v2/health/live")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._client.close()

    def _spent_s(self) -> float:
        return int(self._spent.read_text().split()[0]) / 1e9

    def _ask(self) -> None:
        while not self._over.wait(PAUSE_S):
            spent, began = self._spent_s(), time.monotonic()
            self._client.get("/v2/health/live")
            self.longest_s = max(self.longest_s, self._spent_s() - spent)
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            self.asked += 1

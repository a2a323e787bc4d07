"""One log line now and then while a download runs."""

import logging
import time
from collections.abc import Callable
from threading import Lock

from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)


class Progress:
    """Counts the bytes of one version; used by several threads."""

    def __init__(
        self,
        name: str,
        total_bytes: int,
        report_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._total_bytes = total_bytes
        self._report_s = report_s
        self._clock = clock
        self._lock = Lock()
        self._done_bytes = 0
        self._began_s = self._reported_s = clock()

    def add(self, count: int) -> None:
        """Count bytes that arrived; log when the last line is `report_s` old."""
        with self._lock:
            self._done_bytes += count
            now_s = self._clock()
            if now_s - self._reported_s < self._report_s:
                return
            self._reported_s = now_s
        # Written after the lock is given back: a slow log must not hold the other parts.
        log.info(Event("download runs", **self._facts(now_s)))

    def finish(self) -> None:
        """Log that everything is here."""
        log.info(Event("download done", **self._facts(self._clock())))

    def _facts(self, now_s: float) -> dict[str, object]:
        return {
            "path": self._name,
            "done_mb": round(self._done_bytes / 1e6, 1),
            "total_mb": round(self._total_bytes / 1e6, 1),
            "elapsed_s": round(now_s - self._began_s, 1),
        }

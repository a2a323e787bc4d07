"""One log line now and then while a download runs."""

import logging
import time
from collections.abc import Callable
from threading import Lock

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
        self._log("download runs", now_s)

    def finish(self) -> None:
        """Log that everything is here."""
        self._log("download done", self._clock())

    def _log(self, event: str, now_s: float) -> None:
        log.info(
            "%s path=%s done_mb=%.1f total_mb=%.1f elapsed_s=%.1f",
            event,
            self._name,
            self._done_bytes / 1e6,
            self._total_bytes / 1e6,
            now_s - self._began_s,
        )

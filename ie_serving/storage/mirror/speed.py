"""The least speed of a download: one that trickles holds a thread and its version's turn."""

import time
from collections.abc import Callable
from threading import Lock

from ie_serving.core.values.errors import StorageError
from ie_serving.core.values.hints import Hint


class LeastSpeed:
    """Counts what arrives of one version, in several threads, and ends what is too slow.

    Args of the constructor:
        name: of the download, for the error.
        least_bytes_per_s: 0 sets no limit.
        window_s: seconds over which the speed is measured.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        name: str,
        least_bytes_per_s: int,
        window_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._least_bytes_per_s = least_bytes_per_s
        self._window_s = window_s
        self._clock = clock
        self._lock = Lock()
        self._began_s = clock()
        self._bytes = 0

    def add(self, count: int) -> None:
        """Count bytes that arrived.

        Raises:
            StorageError: in the last window fewer bytes a second arrived than is allowed.
        """
        with self._lock:
            self._bytes += count
            now_s = self._clock()
            took_s = now_s - self._began_s
            if took_s < self._window_s:
                return
            arrived, self._bytes, self._began_s = self._bytes, 0, now_s
        if arrived < self._least_bytes_per_s * took_s:
            raise self._too_slow(arrived, took_s)

    def _too_slow(self, arrived: int, took_s: float) -> StorageError:
        return StorageError(
            f"{self._name}: the download is too slow: {arrived} bytes in {took_s:.0f} s,"
            f" at least {self._least_bytes_per_s} a second are expected: check the network",
            Hint(", or lower {storage.min_download_bytes_per_s}"),
        )
